"""Where a bench runs: its servers, its folders and its settings."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from penstock.dev.postgres import PostgresServer, start_postgres
from penstock.dev.redshift import RedshiftServer, start_redshift
from penstock.dev.s3 import S3Server, start_s3
from penstock.dev.snowflake import SnowflakeServer, start_snowflake
from penstock.embedded.kafka import KafkaBroker, start_kafka
from penstock.embedded.mariadb import MariadbServer, start_mariadb
from penstock.embedded.schematizer import SchematizerServer, start_schematizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured: `rows` of bulk, `seconds` of each live stretch, `transaction_megabytes` at once."""

    rows: int = 1_000_000
    seconds: int = 60
    transaction_megabytes: int = 2048


class Lab:
    """Servers on loopback, each started when first asked for; they end with the `with` block.

    Source, broker and Schematizer are counted to nobody's figures, and PostgreSQL
    only where a figure says so: they serve us and our peers alike.
    """

    def __init__(self, home: Path, settings: Settings, say: Callable[[str], None]) -> None:
        """Keep everything below `home`, which must be empty; `say` tells whoever waits what is going on."""
        self.home = home
        self.settings = settings
        self.say = say
        self._stack = ExitStack()
        self._source: MariadbServer | None = None
        self._kafka: KafkaBroker | None = None
        self._schematizer: SchematizerServer | None = None
        self._postgres: PostgresServer | None = None
        self._postgres_source: PostgresServer | None = None
        self._s3: S3Server | None = None
        self._redshift: RedshiftServer | None = None
        self._snowflake: SnowflakeServer | None = None

    def __enter__(self) -> Self:
        """Nothing runs yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the servers."""
        self._stack.close()

    def source(self) -> MariadbServer:
        """The source. Raises UsageError where there is no MariaDB."""
        if self._source is None:
            self._source = self._stack.enter_context(start_mariadb(self.home / "source"))
        return self._source

    def kafka(self) -> KafkaBroker:
        """The broker. Raises UsageError without Java and UnavailableError without its jars."""
        if self._kafka is None:
            self._kafka = self._stack.enter_context(start_kafka(self.home / "kafka"))
        return self._kafka

    def schematizer(self) -> SchematizerServer:
        """A Schematizer."""
        if self._schematizer is None:
            self._schematizer = self._stack.enter_context(start_schematizer(self.home / "schematizer"))
        return self._schematizer

    def postgres(self) -> PostgresServer:
        """A target, as Penstock's own tests start it. Raises UsageError where there is no PostgreSQL."""
        if self._postgres is None:
            self._postgres = self._stack.enter_context(start_postgres(self.home / "postgres"))
        return self._postgres

    def postgres_source(self) -> PostgresServer:
        """A source that leaves its files to the operating system. Raises UsageError where there is no PostgreSQL."""
        if self._postgres_source is None:
            started = start_postgres(self.home / "postgres-source", settings={"fsync": "off"})
            self._postgres_source = self._stack.enter_context(started)
        return self._postgres_source

    def s3(self) -> S3Server:
        """An S3 server with an empty bucket. Raises UsageError without Java and UnavailableError without its jars."""
        if self._s3 is None:
            self._s3 = self._stack.enter_context(start_s3(self.home / "s3"))
        return self._s3

    def redshift(self) -> RedshiftServer:
        """Redshift's stand-in, which reads files of `s3`. Raises UsageError where there is no PostgreSQL."""
        if self._redshift is None:
            self._redshift = self._stack.enter_context(start_redshift(self.home / "redshift", s3=self.s3()))
        return self._redshift

    def snowflake(self) -> SnowflakeServer:
        """Snowflake's stand-in. Raises PenstockError where its environment cannot be installed."""
        if self._snowflake is None:
            self._snowflake = self._stack.enter_context(start_snowflake(self.home / "snowflake"))
        return self._snowflake

    def folder(self, name: str) -> Path:
        """A new folder for one measurement."""
        folder = self.home / name
        folder.mkdir()
        return folder
