"""A pipeline that is carried round by round, without Spark, by processes that are killed on the way."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import yaml
from tests.servers.sessions import log_in

from penstock.adapters.duckdb.query import query
from penstock.adapters.mysql.connection import MysqlServer
from penstock.adapters.mysql.tracker import MysqlTracker
from penstock.config.crash_points import VARIABLE
from penstock.config.load import load
from penstock.demo.compare import compare_all
from penstock.embedded.mariadb import PASSWORD
from penstock.faults.round import carry_apart
from penstock.faults.witness import Witness, topic_ends
from penstock.faults.workload import CREATE_TABLES, Workload
from penstock.jobs.in_process import carry
from penstock.wiring.open import committed_position, open_topic_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import pymysql
    import pytest

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

_COMMITS = 10
_TABLES = ("accounts", "entries", "last_versions")
_LINKS = {"": None, "capture": "db", "objects": "objects", "warehouse": "db-to-warehouse"}

os.environ["CASE_PASSWORD"] = PASSWORD


@dataclass(frozen=True, slots=True)
class CrashCase:
    """A pipeline that is carried round by round."""

    name: str
    file: Path
    warehouse: Path
    source: MariadbServer
    kafka: KafkaBroker
    schematizer: str

    def carry(self, link: str = "") -> None:
        carry(load(self.file), _LINKS[link])

    def crash(self, point: str, link: str = "") -> None:
        log = self.file.with_name("round.log")
        environment = {"CASE_PASSWORD": self.source.password, VARIABLE: point}
        code = carry_apart(self.file, _LINKS[link], environment, log)
        assert code == -signal.SIGKILL, log.read_text()
        assert f"ended at {point.partition(':')[0]}: " in log.read_text()

    def write(self, seed: str) -> None:
        with Workload(self.connect, seed, pause_seconds=0.001) as workload:
            while workload.commits < _COMMITS:
                time.sleep(0.01)

    def alter(self, column: str) -> None:
        self.execute(self.name, f"ALTER TABLE accounts ADD COLUMN {column} INT")

    def execute(self, database: str, *statements: str) -> None:
        with closing(self.connect(database)) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def connect(self, database: str | None = None) -> pymysql.Connection:
        return log_in(self.source, self.name if database is None else database or None, autocommit=False)

    def assert_in_kafka_once(self) -> None:
        """Every change of the source is in Kafka once, in order per key, as a plain client sees it."""
        with Witness(self.kafka.bootstrap_servers, self.schematizer, f"db.{self.name}") as witness:
            tally = witness.read()
            with closing(self.connect()) as connection:
                tally.lost += witness.lacks(connection)
                witness.count_surplus(connection)
        assert tally.changes > 0
        assert (tally.lost, tally.doubled, tally.examples) == (0, 0, [])

    def assert_in_warehouse(self) -> None:
        """Source and warehouse hold the same rows."""
        source = MysqlServer(self.source.host, self.source.port, self.source.user, self.source.password)
        no_server = self.warehouse.with_suffix(".none")
        compared = compare_all(source, lambda sql: query(self.warehouse, no_server, sql).rows, self.name)
        assert {c.table: (c.differences, c.examples) for c in compared} == dict.fromkeys(_TABLES, (0, ()))

    def newest_record(self) -> Mapping[str, object]:
        """What the capture committed last."""
        spec = load(self.file)
        with closing(open_topic_log(spec)) as log:
            return committed_position(spec, log, "db") or {}

    def ends(self) -> dict[tuple[str, int], int]:
        ours = [f"db.{self.name}.", f"penstock.{self.name}.batches", f"penstock.{self.name}.schemas"]
        return topic_ends(self.kafka.bootstrap_servers, ours)


def making_crash_cases(
    tmp_path_factory: pytest.TempPathFactory,
    mariadb: MariadbServer,
    tracker_server: MariadbServer,
    kafka: KafkaBroker,
    schematizer: str,
) -> Iterator[Callable[..., CrashCase]]:
    """Make a pipeline with an empty tracker, and its source's tables in a database of that name."""
    made: list[CrashCase] = []
    login = {"host": mariadb.host, "port": mariadb.port, "user": mariadb.user, "password_env": "CASE_PASSWORD"}

    def make(name: str, source: Mapping[str, object] = MappingProxyType({}), **more: object) -> CrashCase:
        directory = tmp_path_factory.mktemp(name)
        tracker = MysqlServer(tracker_server.host, tracker_server.port, tracker_server.user, tracker_server.password)
        MysqlTracker(tracker).restore('{"schemas": []}')
        config = {
            "pipeline": name,
            "home": str(directory / "home"),
            "kafka": {"bootstrap_servers": kafka.bootstrap_servers, "partitions": 2},
            "schematizer": {"url": schematizer},
            "tracker": {**login, "port": tracker_server.port},
            # Ranges are published in turns: other places to die in than those of a task that follows.
            "sources": [
                {
                    "name": "db",
                    "kind": "mysql",
                    **login,
                    "tables": [f"{name}.*"],
                    "start": "snapshot",
                    "backlog_tasks": 2,
                    **source,
                }
            ],
            "sinks": [{"name": "warehouse", "kind": "duckdb", "path": str(directory / "warehouse.duckdb")}],
            "links": [{"from": "db", "to": "warehouse"}],
            **more,
        }
        file = directory / "pipeline.yaml"
        file.write_text(yaml.safe_dump(config))
        case = CrashCase(name, file, directory / "warehouse.duckdb", mariadb, kafka, schematizer)
        case.execute("", f"CREATE DATABASE {name}")
        case.execute(name, *CREATE_TABLES)
        made.append(case)
        return case

    yield make
    for case in made:
        case.execute("", f"DROP DATABASE {case.name}")
