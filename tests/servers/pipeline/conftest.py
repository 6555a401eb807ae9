"""A pipeline between real servers, run once through at a time, and both of its ends to look at."""

from __future__ import annotations

import json
import os
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.servers.pipeline.killing import children_of_home, kill_all
from tests.servers.pipeline.user_pipeline import UserPipeline
from tests.servers.sessions import log_in

from penstock.adapters.kafka.cluster import KafkaCluster
from penstock.adapters.kafka.reader import TopicReader
from penstock.adapters.mysql.connection import MysqlServer
from penstock.config.load import load
from penstock.core.schema_changes import SchemaChange
from penstock.demo.compare import compare_all
from penstock.embedded.mariadb import PASSWORD, MariadbServer
from penstock.jobs.in_process import InProcessRunner
from penstock.jobs.pipeline import run_pipeline
from penstock.jobs.runner import PipelineRun
from penstock.wiring.pipeline_status import read_status

# Spark's processes inherit the environment when the session starts, which other tests may have done before.
os.environ["CASE_PASSWORD"] = PASSWORD
from penstock.ports.queries import ReadLimits
from penstock.wiring.sink_kinds.table import sql_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pymysql
    from pyspark.sql import SparkSession

    from penstock.config.specs import PipelineSpec
    from penstock.core.mysql.statements.describe import Flavour
    from penstock.demo.compare import TableComparison
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mysql import OracleMysql
    from penstock.jobs.runner import Runner


@dataclass(frozen=True, slots=True)
class PipelineCase:
    """One pipeline from a database of its own to a DuckDB file of its own."""

    file: Path
    database: str
    server: MariadbServer | OracleMysql
    spark: SparkSession | None
    bootstrap_servers: str

    @property
    def spec(self) -> PipelineSpec:
        return load(self.file)

    def run_once(self, only: str | None = None) -> None:
        """Carry everything that is committed now, by the link called `only` or by all.

        This process does it, and Spark only in tests that ask for the fixture `spark`.
        """
        run_pipeline(PipelineRun(self.spec, once=True, only=only), self._runner())

    def _runner(self) -> Runner:
        if self.spark is None:
            return InProcessRunner()
        from penstock.spark.runner import SparkRunner  # noqa: PLC0415 - PySpark takes a second
        from penstock.spark.supervisor import NoServices  # noqa: PLC0415

        return SparkRunner(self.spark, NoServices())

    @property
    def session(self) -> SparkSession:
        """The session of a test that asks for it."""
        assert self.spark is not None
        return self.spark

    def write(self, *statements: str) -> None:
        """Commit each of `statements` in the source."""
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def connect(self) -> pymysql.Connection:
        return log_in(self.server, self.database)

    def query(self, sql: str) -> list[dict[str, object]]:
        """Ask the warehouse."""
        return sql_kind(self.spec, self.spec.sinks[0]).query(sql, ReadLimits()).rows.to_pylist()

    def compare(self) -> dict[str, TableComparison]:
        """Compare source and warehouse, table by table."""
        source = MysqlServer(self.server.host, self.server.port, self.server.user, self.server.password)
        spec = self.spec
        compared = compare_all(
            source, lambda sql: sql_kind(spec, spec.sinks[0]).query(sql, ReadLimits()).rows, self.database
        )
        return {comparison.table: comparison for comparison in compared}

    def assert_equal(self) -> None:
        """Source and warehouse hold the same rows, and at least one table."""
        compared = self.compare()
        assert compared
        assert {name: (c.differences, c.examples) for name, c in compared.items()} == dict.fromkeys(compared, (0, ()))

    def messages(self) -> dict[str, list[bytes]]:
        """Every committed message of every table's topics, as plain Kafka clients see them."""
        log = TopicReader(KafkaCluster(self.bootstrap_servers))
        with closing(log):
            schemas = f"penstock.{self.spec.pipeline}.schemas"
            topics = {a.topic: a.partitions for a in map(SchemaChange.from_json, _read(log, schemas, 0))}
            return {
                topic: [value for partition in range(count) for value in _read(log, topic, partition)]
                for topic, count in topics.items()
            }

    def notes(self) -> dict[str, str]:
        """What `penstock status` says of tables that goes beyond figures, errors included."""
        return {t.table: t.error or t.hint for t in read_status(self.spec).tables if t.error or t.hint}

    def records(self, link: str) -> list[dict[str, Any]]:
        """Every position record of `link`."""
        with closing(TopicReader(KafkaCluster(self.bootstrap_servers))) as log:
            return [json.loads(value) for value in _read(log, f"penstock.{self.spec.pipeline}.position.{link}", 0)]


def _read(log: TopicReader, topic: str, partition: int) -> list[bytes]:
    end = log.ends([(topic, partition)]).get((topic, partition), 0)
    return [value for messages in log.read(topic, partition, 0, end) for _, value in messages]


@dataclass(frozen=True, slots=True)
class SharedServers:
    """What every case uses, whatever its source is."""

    home: Path
    kafka: KafkaBroker
    schematizer: str
    spark: SparkSession | None

    def make_case(
        self,
        server: MariadbServer | OracleMysql,
        tracker: MariadbServer | OracleMysql,
        database: str,
        partitions: int = 1,
        **source: object,
    ) -> PipelineCase:
        """Empty the tracker, which each pipeline has to itself, and write the pipeline's file."""
        from penstock.adapters.mysql.tracker import MysqlTracker, SourceDefaults  # noqa: PLC0415

        address = MysqlServer(tracker.host, tracker.port, tracker.user, tracker.password)
        flavour: Flavour = "mariadb" if isinstance(tracker, MariadbServer) else "mysql"
        MysqlTracker(address, SourceDefaults(flavour=flavour)).restore('{"schemas": []}')
        login = {"host": server.host, "port": server.port, "user": server.user, "password_env": "CASE_PASSWORD"}
        config = {
            "pipeline": database,
            "home": str(self.home / "home"),
            "web": False,
            "kafka": {"bootstrap_servers": self.kafka.bootstrap_servers, "partitions": partitions},
            "schematizer": {"url": self.schematizer},
            "tracker": {**login, "port": tracker.port},
            "sources": [
                {"name": "db", "kind": "mysql", **login, "tables": [f"{database}.*"], "start": "snapshot", **source}
            ],
            "sinks": [{"name": "warehouse", "kind": "duckdb", "path": str(self.home / "warehouse.duckdb")}],
            "links": [{"from": "db", "to": "warehouse"}],
        }
        file = self.home / "pipeline.yaml"
        file.write_text(yaml.safe_dump(config))
        return PipelineCase(file, database, server, self.spark, self.kafka.bootstrap_servers)


@pytest.fixture
def shared_servers(
    tmp_path: Path, kafka: KafkaBroker, schematizer: str, request: pytest.FixtureRequest
) -> SharedServers:
    """All but a source and its tracker; with Spark for tests that ask for it."""
    spark = request.getfixturevalue("spark") if "spark" in request.fixturenames else None
    return SharedServers(tmp_path, kafka, schematizer, spark)


@pytest.fixture
def make_case(
    shared_servers: SharedServers, mariadb: MariadbServer, tracker_server: MariadbServer, fresh_database: str
) -> Callable[..., PipelineCase]:
    """Make a pipeline from MariaDB; keywords go into its source."""

    def make(partitions: int = 1, **source: object) -> PipelineCase:
        return shared_servers.make_case(mariadb, tracker_server, fresh_database, partitions, **source)

    return make


@pytest.fixture
def mysql_case(
    shared_servers: SharedServers, mysql_server: OracleMysql, mysql_tracker_server: OracleMysql, fresh_name: str
) -> PipelineCase:
    """A pipeline from Oracle's MySQL; the test skips where that cannot be had."""
    with closing(log_in(mysql_server)) as connection:
        connection.cursor().execute(f"CREATE DATABASE {fresh_name}")
    return shared_servers.make_case(mysql_server, mysql_tracker_server, fresh_name)


@pytest.fixture
def user_pipeline(tmp_path: Path, mariadb: MariadbServer, fresh_database: str) -> Iterator[UserPipeline]:
    pipeline = UserPipeline(tmp_path, fresh_database, mariadb)
    source = {
        "name": "db",
        "kind": "mysql",
        "host": mariadb.host,
        "port": mariadb.port,
        "user": mariadb.user,
        "password_env": "CASE_PASSWORD",
        "tables": [f"{fresh_database}.*"],
        "start": "snapshot",
    }
    pipeline.file.write_text(
        yaml.safe_dump(
            {
                "pipeline": fresh_database,
                "home": str(pipeline.home),
                "sources": [source],
                "sinks": [{"name": "warehouse", "kind": "duckdb", "path": str(pipeline.warehouse)}],
                "links": [{"from": "db", "to": "warehouse"}],
            }
        )
    )
    yield pipeline
    # Of a test that failed `penstock run` is still there, and would start its servers again.
    kill_all(children_of_home(pipeline.directory))
