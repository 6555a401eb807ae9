"""The links of a pipeline whose source is PostgreSQL, driven one by one and without Spark, between real servers."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from penstock.config.load import load
from penstock.core.publication import CaptureRecord
from penstock.dev.postgres import PASSWORD
from penstock.jobs.in_process import carry
from penstock.ports.queries import ReadLimits
from penstock.wiring.open import committed_position, open_topic_log
from penstock.wiring.sink_kinds.table import sql_kind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.config.specs import PipelineSpec
    from penstock.dev.kafka import KafkaBroker
    from penstock.dev.postgres import PostgresServer

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
    tables: ["*.*"]
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
        with closing(self._connect()) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def write_together(self, *statements: str) -> None:
        """Run statements in the source, in one transaction."""
        with closing(self._connect()) as connection, connection.transaction():
            for statement in statements:
                connection.execute(statement.encode())

    def carry(self) -> None:
        """Bring everything that is committed now into the warehouse."""
        carry(self.spec)

    def source_rows(self, sql: str) -> list[tuple[object, ...]]:
        """Ask the source."""
        with closing(self._connect()) as connection:
            return list(connection.execute(sql.encode()).fetchall())

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """Ask the warehouse."""
        spec = self.spec
        return [tuple(row.values()) for row in sql_kind(spec, spec.sinks[0]).query(sql, ReadLimits()).rows.to_pylist()]

    def both(self, sql: str) -> tuple[Sequence[tuple[object, ...]], Sequence[tuple[object, ...]]]:
        """What source and warehouse answer to the same question."""
        return self.source_rows(sql), self.rows(sql)

    def stopped(self) -> dict[str, str]:
        """The tables that the capture carries no longer, and why."""
        spec = self.spec
        with closing(open_topic_log(spec)) as log:
            record = committed_position(spec, log, spec.sources[0].name)
        assert record is not None
        return {table: why.error for table, why in CaptureRecord.from_mapping(record).stopped.items()}

    def _connect(self) -> psycopg.Connection:
        server = self.server
        return psycopg.connect(
            host=server.host,
            port=server.port,
            dbname=self.name,
            user=server.user,
            password=server.password,
            autocommit=True,
            connect_timeout=10,
        )


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
