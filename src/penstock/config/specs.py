"""What a pipeline's YAML file may say, key by key.

The specs are frozen and pickle, so that they travel to executors. They hold no
secrets, only the names of the environment variables that do. What one key alone
cannot show (that names are unique, that links lead somewhere) is checked in
`penstock.config.crosschecks`.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from penstock.config.rules import (
    EnvironmentName,
    KafkaServers,
    ObjectsUrl,
    SourceName,
    SparkMaster,
    StateUrl,
    TableList,
    WebUrl,
    Zookeeper,
    refuse_later_kinds,
    refuse_unless_empty,
    spark_value,
)
from penstock.core.mysql.table_policy import RowImages, TablePolicy
from penstock.core.mysql.zero_dates import ZeroDates  # noqa: TC001 - pydantic reads it from a field's annotation
from penstock.core.patterns import TablePatterns
from penstock.core.warehouse.load_plan import DroppedTables  # noqa: TC001 - pydantic reads it from a field's annotation

EmbeddedPart: TypeAlias = Literal["kafka", "schematizer", "state", "tracker", "objects"]
EMBEDDED_PARTS: tuple[EmbeddedPart, ...] = ("kafka", "schematizer", "state", "tracker", "objects")

SERVER_IDS_PER_SOURCE = 1024
_SERVER_ID_MIN = 2**31

Name: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,47}$")]
Port: TypeAlias = Annotated[int, Field(strict=True, ge=1, le=65535)]
Positive: TypeAlias = Annotated[int, Field(strict=True, ge=1)]
Text: TypeAlias = Annotated[str, Field(min_length=1)]
SparkConf: TypeAlias = dict[str, Annotated[str, BeforeValidator(spark_value)]]


class Spec(BaseModel):
    """A mapping of the file: unknown keys are mistakes, known keys without a value are as if left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty_keys(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        known = known_keys(cls)
        return {key: value for key, value in given.items() if value is not None or key not in known}


def known_keys(spec: type[Spec]) -> tuple[str, ...]:
    """The keys that `spec` understands, as users write them."""
    return tuple(field.alias or name for name, field in spec.model_fields.items())


class KafkaSecuritySpec(Spec):
    """How to log in to a broker; the names are librdkafka's, the password stays in the environment."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    user: Text | None = None
    password_env: EnvironmentName | None = None
    ca_file: Path | None = None


class KafkaSpec(Spec):
    """The brokers, and how topics are made on them. Without `bootstrap_servers` a private broker is started."""

    bootstrap_servers: KafkaServers | None = None
    partitions: Positive = 1
    replication: Positive = 1
    security: KafkaSecuritySpec = KafkaSecuritySpec()


class SchematizerSpec(Spec):
    """A Schematizer that runs elsewhere."""

    url: WebUrl


class StateSpec(Spec):
    """A state database that is not the embedded SQLite: by URL, or by the variable that holds one with a password."""

    url: StateUrl | None = None
    url_env: EnvironmentName | None = None


class LockSpec(Spec):
    """The leader's lock: a file under home, or in ZooKeeper ("host:port,host:port/path").

    `session_seconds` is how long a leader may be silent before another instance
    takes its place.
    """

    zookeeper: Zookeeper | None = None
    session_seconds: Annotated[float, Field(strict=True, ge=1, le=60)] = 6.0


class ObjectsSpec(Spec):
    """An object store; `endpoint` for one that speaks S3 without being AWS."""

    url: ObjectsUrl
    endpoint: WebUrl | None = None


class TlsSpec(Spec):
    """How a connection to MySQL or MariaDB is encrypted. `tls: {}` is enough where the server's certificate is public.

    The server's certificate must be signed by `ca`, by default by one of this
    machine's authorities, and be for `host`. `verify: ca` does not look at the
    host, `verify: none` at nothing. `cert` and `key` are ours, for a server that
    wants one. All are files in PEM.
    """

    verify: Literal["full", "ca", "none"] = "full"
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None


class TrackerSpec(Spec):
    """A MariaDB or MySQL server of which nothing but schemas is asked, and which is all ours."""

    host: Text
    port: Port = 3306
    user: Text
    password_env: EnvironmentName
    tls: TlsSpec | None = None


class SparkSpec(Spec):
    """Where Spark runs, and further settings for it."""

    master: SparkMaster = "local[*]"
    conf: SparkConf = {}

    @property
    def is_local(self) -> bool:
        """Whether all of Spark runs on this machine."""
        return self.master.startswith("local")


class MysqlSourceSpec(Spec):
    """A MySQL or MariaDB server, and the tables of it that are carried.

    `start: auto` begins at the start of the binlog if the server still has it
    whole, else with a copy; `log` and `copy` insist. `server_id` is the first
    of the SERVER_IDS_PER_SOURCE replica ids that are ours on that server. Without
    `tls` nothing is encrypted. `zero_dates` says what becomes of 0000-00-00 and
    other dates that no calendar has, `row_images` of rows that were logged
    without all of their columns.
    """

    name: SourceName
    kind: Literal["mysql"]
    host: Text
    port: Port = 3306
    user: Text
    password_env: EnvironmentName
    tls: TlsSpec | None = None
    tables: TableList
    start: Literal["auto", "log", "copy"] = "auto"
    server_id: Annotated[int, Field(strict=True, ge=1, le=2**32 - 1 - SERVER_IDS_PER_SOURCE)] | None = None
    lease_seconds: Annotated[float, Field(strict=True, ge=1, le=3600)] = 60.0
    zero_dates: ZeroDates = "stop"
    row_images: RowImages = "full"

    @model_validator(mode="before")
    @classmethod
    def _refuse_later_kinds(cls, given: object) -> object:
        return refuse_later_kinds(given, ("postgres",), "source of kind")

    @property
    def patterns(self) -> TablePatterns:
        """Which tables are wanted."""
        return TablePatterns(self.tables)

    @property
    def policy(self) -> TablePolicy:
        """How its tables are carried."""
        return TablePolicy(self.zero_dates, self.row_images)


class DuckdbSinkSpec(Spec):
    """A DuckDB file, which Penstock alone writes."""

    name: Name
    kind: Literal["duckdb"]
    path: Path

    @model_validator(mode="before")
    @classmethod
    def _refuse_later_kinds(cls, given: object) -> object:
        return refuse_later_kinds(given, ("redshift", "snowflake", "postgres"), "sink of kind")


class LinkSpec(Spec):
    """From a source to a sink: all of the source's tables, or those that `tables` matches too.

    `dropped_tables` says what the sink does with a table that the source drops:
    `keep` its rows as they last were, or `drop` it too.
    """

    source: Text = Field(alias="from")
    sink: Text = Field(alias="to")
    tables: TableList = ("*.*",)
    dropped_tables: DroppedTables = "keep"

    @property
    def patterns(self) -> TablePatterns:
        """Which of the source's tables are wanted."""
        return TablePatterns(self.tables)


class PipelineSpec(Spec):
    """One whole file. `penstock.config.load` makes `home` and the sinks' paths absolute."""

    pipeline: Name
    home: Path = Path(".penstock")
    kafka: KafkaSpec = KafkaSpec()
    schematizer: SchematizerSpec | None = None
    state: StateSpec = StateSpec()
    lock: LockSpec = LockSpec()
    objects: ObjectsSpec | None = None
    tracker: TrackerSpec | None = None
    spark: SparkSpec = SparkSpec()
    sources: Annotated[tuple[MysqlSourceSpec, ...], Field(min_length=1)]
    sinks: tuple[DuckdbSinkSpec, ...] = ()
    links: tuple[LinkSpec, ...] = ()
    joins: Annotated[tuple[()], BeforeValidator(refuse_unless_empty("a join"))] = ()
    audits: Annotated[tuple[()], BeforeValidator(refuse_unless_empty("an audit"))] = ()

    def is_embedded(self, part: EmbeddedPart) -> bool:
        """Whether a private `part` is kept under home, because the file names none."""
        match part:
            case "kafka":
                return self.kafka.bootstrap_servers is None
            case "state":
                return self.state.url is None and self.state.url_env is None
            case "schematizer":
                return self.schematizer is None
            case "tracker":
                return self.tracker is None
            case "objects":
                return self.objects is None

    def secret_names(self) -> tuple[str, ...]:
        """The environment variables that hold the pipeline's secrets."""
        names = {self.state.url_env, self.kafka.security.password_env, *(s.password_env for s in self.sources)}
        if self.tracker is not None:
            names.add(self.tracker.password_env)
        return tuple(sorted(name for name in names if name is not None))

    def source(self, name: str) -> MysqlSourceSpec:
        """The source called `name`; KeyError if there is none."""
        return {source.name: source for source in self.sources}[name]

    def sink(self, name: str) -> DuckdbSinkSpec:
        """The sink called `name`; KeyError if there is none."""
        return {sink.name: sink for sink in self.sinks}[name]

    def server_id(self, source: MysqlSourceSpec) -> int:
        """The first of the SERVER_IDS_PER_SOURCE replica ids that this pipeline uses on `source`.

        The same for the same names for ever, in 2**31 and up, where people seldom
        number servers by hand. Every connection that reads the log at the same
        time needs an id of its own: a server drops the older of two that are equal.
        """
        if source.server_id is not None:
            return source.server_id
        blocks = (2**32 - _SERVER_ID_MIN) // SERVER_IDS_PER_SOURCE - 1
        block = zlib.crc32(f"{self.pipeline}/{source.name}".encode()) % blocks
        return _SERVER_ID_MIN + block * SERVER_IDS_PER_SOURCE
