"""The links of a pipeline whose source is PostgreSQL, driven one by one and without Spark, between real servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import psycopg

from penstock.adapters.postgres.source.slot import drop_slot
from penstock.config.crash_points import VARIABLE
from penstock.config.load import load
from penstock.config.postgres_source import PostgresSourceSpec
from penstock.core.positions import WalPosition, wal_position
from penstock.core.publication import CaptureRecord
from penstock.dev.postgres import PASSWORD
from penstock.faults.round import carry_apart
from penstock.jobs.in_process import carry
from penstock.ports.queries import ReadLimits
from penstock.wiring.open import committed_position, open_topic_log
from penstock.wiring.postgres_server import source_server
from penstock.wiring.sink_kinds.table import sql_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from penstock.config.specs import PipelineSpec
    from penstock.dev.postgres import PostgresServer
    from penstock.embedded.kafka import KafkaBroker

os.environ["POSTGRES_CHAIN_PASSWORD"] = PASSWORD

CONFIG = """\
pipeline: {name}
home: {home}
kafka: {{bootstrap_servers: "{kafka}"}}
schematizer: {{url: "{schematizer}"}}
sources:
  - name: src_{name}
    kind: postgres
    host: 127.0.0.1
    port: {port}
    database: {name}
    user: penstock
    password_env: POSTGRES_CHAIN_PASSWORD
    tables: ["public.*"]
{more}
sinks:
  - {{name: wh, kind: duckdb, path: {home}/wh.duckdb}}
links:
  - {{from: src_{name}, to: wh}}
"""


@dataclass(frozen=True, slots=True)
class PostgresChain:
    """A pipeline of a database of its own; `name` is the database's, too."""

    file: Path
    name: str
    server: PostgresServer

    @property
    def spec(self) -> PipelineSpec:
        return load(self.file)

    def write(self, *statements: str) -> None:
        """Run statements in the source, each in a transaction of its own."""
        with closing(self.connect()) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def write_together(self, *statements: str) -> None:
        """Run statements in the source, in one transaction."""
        with closing(self.connect()) as connection, connection.transaction():
            for statement in statements:
                connection.execute(statement.encode())

    def carry(self) -> None:
        """Bring everything that is committed now into the warehouse."""
        carry(self.spec)

    def crash(self, point: str) -> None:
        """Carry in another process, which is killed at a point of `config.crash_points`."""
        log = self.file.with_name("round.log")
        code = carry_apart(self.file, None, {"POSTGRES_CHAIN_PASSWORD": PASSWORD, VARIABLE: point}, log)
        assert code == -signal.SIGKILL, log.read_text()

    def source_rows(self, sql: str) -> list[tuple[object, ...]]:
        """Ask the source."""
        with closing(self.connect()) as connection:
            return list(connection.execute(sql.encode()).fetchall())

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """Ask the warehouse."""
        spec = self.spec
        return [tuple(row.values()) for row in sql_kind(spec, spec.sinks[0]).query(sql, ReadLimits()).rows.to_pylist()]

    def both(self, sql: str) -> tuple[Sequence[tuple[object, ...]], Sequence[tuple[object, ...]]]:
        """What source and warehouse answer to the same question."""
        return self.source_rows(sql), self.rows(sql)

    def position(self) -> WalPosition:
        """Where the capture stands."""
        return wal_position(self._record().position)

    def stopped(self) -> dict[str, str]:
        """The tables that the capture carries no longer, and why."""
        return {table: why.error for table, why in self._record().stopped.items()}

    def failover(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Type `penstock failover`."""
        command = [sys.executable, "-m", "penstock", "failover", str(self.file), self.spec.sources[0].name, *arguments]
        environment = {**os.environ, "POSTGRES_CHAIN_PASSWORD": PASSWORD}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)

    def moved_to(self, server: PostgresServer) -> PostgresChain:
        """Write another server into the pipeline's file."""
        old = self.file.read_text()
        self.file.write_text(old.replace(f"port: {self.server.port}", f"port: {server.port}"))
        return replace(self, server=server)

    def _record(self) -> CaptureRecord:
        spec = self.spec
        with closing(open_topic_log(spec)) as log:
            record = committed_position(spec, log, spec.sources[0].name)
        assert record is not None
        return CaptureRecord.from_mapping(record)

    def connect(self) -> psycopg.Connection:
        """Log in to the source."""
        return _log_in(self.server, self.name)


@contextmanager
def making_chains(
    home: Path, name: str, server: PostgresServer, parts: tuple[KafkaBroker, str]
) -> Iterator[Callable[..., PostgresChain]]:
    """Make a pipeline and its database, in which statements are run; it is dropped at the end, with its slot."""
    made: list[PostgresChain] = []
    with closing(_log_in(server, server.database)) as admin:

        def make(*statements: str, more: str = "") -> PostgresChain:
            admin.execute(f"CREATE DATABASE {name}".encode())
            chain = make_postgres_chain(home, name, server, parts, more)
            made.append(chain)
            chain.write(*(statement.replace("{name}", name) for statement in statements))
            return chain

        yield make
        for chain in made:
            (source,) = [each for each in chain.spec.sources if isinstance(each, PostgresSourceSpec)]
            drop_slot(source_server(source), source.slot_name)
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def make_postgres_chain(
    home: Path, name: str, server: PostgresServer, parts: tuple[KafkaBroker, str], more: str = ""
) -> PostgresChain:
    """Write the config of a pipeline; `parts` are Kafka and the Schematizer's URL."""
    kafka, schematizer = parts
    file = home / f"{name}.yaml"
    file.write_text(
        CONFIG.format(
            name=name,
            home=home / name,
            kafka=kafka.bootstrap_servers,
            schematizer=schematizer,
            port=server.port,
            more=more,
        )
    )
    return PostgresChain(file, name, server)


def _log_in(server: PostgresServer, database: str) -> psycopg.Connection:
    return psycopg.connect(
        host=server.host,
        port=server.port,
        dbname=database,
        user=server.user,
        password=server.password,
        autocommit=True,
        connect_timeout=10,
    )
