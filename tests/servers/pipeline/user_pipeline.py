"""A pipeline as a user has it: all servers embedded, run by the command line."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from tests.servers.sessions import log_in

from penstock.adapters.duckdb.query import query
from penstock.adapters.duckdb.query_wire import run_file
from penstock.adapters.kafka.cluster import KafkaCluster
from penstock.adapters.kafka.reader import TopicReader
from penstock.adapters.mysql.connection import MysqlServer
from penstock.adapters.registry.client import HttpRegistry
from penstock.core.avro.envelope_decode import decode_changes
from penstock.core.avro.schemas import table_schema
from penstock.core.avro.wire import schema_ids
from penstock.core.errors import PenstockError
from penstock.demo.compare import compare_all
from penstock.embedded.kafka import start_kafka
from penstock.embedded.schematizer import start_schematizer
from penstock.wiring.tether import tethered

if TYPE_CHECKING:
    from pathlib import Path

    import pymysql

    from penstock.embedded.mariadb import MariadbServer


@dataclass(frozen=True, slots=True)
class UserPipeline:
    """A pipeline whose servers are all embedded, run by the command line."""

    directory: Path
    database: str
    server: MariadbServer

    @property
    def file(self) -> Path:
        return self.directory / "pipeline.yaml"

    @property
    def home(self) -> Path:
        return self.directory / "home"

    @property
    def warehouse(self) -> Path:
        return self.directory / "warehouse.duckdb"

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Start `penstock run` in a session of its own, so that all of it can be found again."""
        with (self.directory / "run.log").open("ab") as log:
            return subprocess.Popen(
                tethered([sys.executable, "-m", "penstock", "run", str(self.file), *options]),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def execute(self, *statements: str) -> None:
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def query(self, sql: str) -> pa.Table:
        return query(self.warehouse, run_file(self.home, "warehouse"), sql).rows

    def version_of_first_row(self) -> int | None:
        """Ask the warehouse; None while it does not answer, or has no such row or table yet."""
        return self._number("SELECT version FROM {}.counters WHERE id = 1")

    def ids_from_7_on(self) -> int | None:
        """Ask the warehouse how many rows there are from the seventh on; None while it does not answer."""
        return self._number("SELECT count(*) FROM {}.counters WHERE id >= 7")

    def newest_id(self) -> int | None:
        """Ask the warehouse for the largest id; None while it does not answer."""
        return self._number("SELECT coalesce(max(id), 0) FROM {}.counters")

    def _number(self, sql: str) -> int | None:
        try:
            (found,) = self.query(sql.format(self.database)).columns
        except PenstockError:
            return None
        return int(found[0].as_py()) if len(found) else None

    def rows(self, sql: str) -> list[tuple[object, ...]] | None:
        """Ask the warehouse for rows; None while it does not answer, or has no such table yet."""
        try:
            return [tuple(row.values()) for row in self.query(sql).to_pylist()]
        except PenstockError:
            return None

    def differences(self) -> dict[str, int]:
        source = MysqlServer(self.server.host, self.server.port, self.server.user, self.server.password)
        return {c.table: c.differences for c in compare_all(source, self.query, self.database)}

    def changes(self) -> list[tuple[str, int, int]]:
        """Return (op, id, version) of every message of the table `counters`, as Kafka holds them."""
        images = self.images(f"db.{self.database}.counters")
        return [
            (op, *((before if op == "d" else after)[name] for name in ("id", "version")))
            for op, before, after in images
        ]

    def images(self, topic: str) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
        """Return (op, before, after) of every message of a topic with one partition."""
        with start_kafka(self.home / "kafka") as kafka, start_schematizer(self.home / "schematizer") as schematizer:
            log, registry = TopicReader(KafkaCluster(kafka.bootstrap_servers)), HttpRegistry(schematizer.url)
            with closing(log), closing(registry):
                end = log.ends([(topic, 0)])[topic, 0]
                values = pa.array(
                    [value for messages in log.read(topic, 0, 0, end) for _, value in messages], pa.binary()
                )
                text = registry.value_schema(int(schema_ids(values)[0]))
                decoded = decode_changes(table_schema(text), text, values)
        ops: list[Any] = decoded.op.to_pylist()
        return list(zip(ops, decoded.before.to_pylist(), decoded.after.to_pylist(), strict=True))

    def connect(self) -> pymysql.Connection:
        server = self.server
        return log_in(server, self.database)
