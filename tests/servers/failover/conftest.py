"""A pipeline's capture without Spark, and what plain clients of Kafka see of it."""

from __future__ import annotations

import itertools
import os
import threading
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pytest
import yaml
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.servers.failover.pair import start_pair

from penstock.adapters.kafka.ends import settled_ends
from penstock.adapters.kafka.topics import position_topic
from penstock.adapters.mysql.connection import MysqlServer, connect
from penstock.adapters.mysql.heartbeat import HeartbeatWriter
from penstock.adapters.mysql.history import head
from penstock.adapters.mysql.tracker import MysqlTracker, SourceDefaults
from penstock.config.load import load
from penstock.core.avro.envelope_decode import decode_changes
from penstock.core.avro.schemas import table_schema
from penstock.core.avro.wire import schema_ids
from penstock.core.errors import PenstockError
from penstock.core.positions import binlog_position
from penstock.core.publication import CaptureRecord
from penstock.embedded.mariadb import PASSWORD, MariadbServer, start_mariadb
from penstock.embedded.mysql import OracleMysql, start_mysql
from penstock.links.capture.spec import CaptureSpec
from penstock.links.objects.plan import ObjectsPlanner
from penstock.links.objects.publish import BatchPublisher
from penstock.links.objects.record import ObjectsRecord
from penstock.links.objects.write import FileWriter
from penstock.links.warehouse.load import WarehouseLoader
from penstock.wiring.capture import open_live, start_capture
from penstock.wiring.epochs import next_epoch
from penstock.wiring.failover import FailedOver, Way, fail_over, move_source
from penstock.wiring.files import batch_reader
from penstock.wiring.open import (
    OBJECTS_LINK,
    batch_topic,
    committed_position,
    create_ledgers,
    failovers_topic,
    kafka_cluster,
    mysql_server,
    mysql_source,
    open_object_store,
    open_pipeline_state,
    open_publisher,
    open_registry,
    open_topic_log,
    schema_changes_topic,
)
from penstock.wiring.warehouses import open_sink

os.environ["CASE_PASSWORD"] = PASSWORD
from penstock.ports.queries import ReadLimits
from penstock.wiring.sink_kinds.table import sql_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import TracebackType

    from tests.servers.failover.pair import OpenPair, Pair

    from penstock.config.specs import PipelineSpec
    from penstock.core.mysql.statements.describe import Flavour
    from penstock.core.positions import BinlogPosition
    from penstock.embedded.debian import DebianPackage
    from penstock.embedded.kafka import KafkaBroker


@dataclass(frozen=True, slots=True)
class Seen:
    """One change as a consumer sees it."""

    op: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    file: str
    gtid: str


@dataclass(slots=True)
class Case:
    """One pipeline; its source is where `spec` says."""

    file: Path
    bootstrap_servers: str
    spec: PipelineSpec

    @property
    def source(self) -> str:
        """The source's name, which no other pipeline's topics have."""
        return self.spec.sources[0].name

    def start(self) -> None:
        """Make the first start."""
        start_capture(self.capture())

    def capture(self) -> CaptureSpec:
        """Be a new instance."""
        return CaptureSpec(self.spec, self.source, next_epoch(self.spec))

    def move(self, server: MariadbServer | OracleMysql) -> None:
        """Have the file say another address."""
        self.spec = move_source(self.spec, self.source, server.host, server.port)

    def fail_over(self, server: MariadbServer | OracleMysql, way: Way | None = None) -> FailedOver:
        """Fail over, and have the file say so."""
        done = fail_over(move_source(self.spec, self.source, server.host, server.port), self.source, way)
        self.move(server)
        return done

    def carry(self) -> None:
        """Carry all that is committed now."""
        capture = self.capture()
        source = capture.source
        with connect(MysqlServer(source.host, source.port, source.user, PASSWORD)) as connection:
            end = head(connection)
        with closing(open_live(capture)) as live:
            live.run(60.0, end)

    def load(self) -> None:
        """Bring what is in Kafka into files, and from there into the warehouse."""
        write_files(self.spec)
        load_files(self.spec)

    def rows(self, table: str, order: str) -> list[tuple[object, ...]]:
        """A table of the warehouse."""
        asked = f"SELECT * FROM {table} ORDER BY {order}"
        found = sql_kind(self.spec, self.spec.sinks[0]).query(asked, ReadLimits()).rows
        return [tuple(row.values()) for row in found.to_pylist()]

    def beat(self) -> None:
        """Write a heartbeat."""
        source = mysql_source(self.spec.sources[0])
        assert source.heartbeat is not None
        with connect(mysql_server(source)) as connection:
            writer = HeartbeatWriter(connection, source.heartbeat.table_id, self.spec.pipeline, 1)
            writer.prepare(0)

    def follow(self) -> Following:
        """Follow the log while a `with` block lasts."""
        return Following(self.capture())

    def position(self) -> BinlogPosition:
        """The committed position."""
        return binlog_position(CaptureRecord.from_mapping(self.record()).position)

    def record(self) -> Mapping[str, object]:
        """The newest record, once Kafka has marked all commits: it does so after it has said that they are done."""
        admin = AdminClient(kafka_cluster(self.spec).client_settings())
        settled_ends(admin, [(position_topic(self.spec.pipeline, self.source), 0)])
        with closing(open_topic_log(self.spec)) as log:
            record = committed_position(self.spec, log, self.source)
        assert record is not None
        return record

    def read(self, topic: str) -> list[bytes]:
        """Every committed message of a topic of one partition, as a plain client sees them."""
        settings = {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "enable.auto.commit": False,
        }
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[bytes] = []
        try:
            while True:
                message = consumer.poll(30)
                assert message is not None
                if message.error() is not None:
                    return values
                values.append(message.value() or b"")
        finally:
            consumer.close()

    def changes(self, table: str) -> list[Seen]:
        """Every committed change of a table, in the order of its topic."""
        values = pa.array(self.read(f"{self.source}.{table}"), pa.binary())
        ids = [int(schema_id) for schema_id in schema_ids(values)]
        seen: list[Seen] = []
        with closing(open_registry(self.spec)) as registry:
            for schema_id, places in itertools.groupby(range(len(ids)), ids.__getitem__):
                first, *others = places
                text = registry.value_schema(schema_id)
                found = decode_changes(table_schema(text), text, values.slice(first, 1 + len(others)))
                rows = zip(found.before.to_pylist(), found.after.to_pylist(), strict=True)
                for place, (before, after) in enumerate(rows):
                    seen.append(
                        Seen(
                            found.op[place].as_py(),
                            before if found.has_before[place] else None,
                            after if found.has_after[place] else None,
                            found.file[place].as_py(),
                            found.gtid[place].as_py(),
                        )
                    )
        return seen


def write_files(spec: PipelineSpec) -> None:
    """Do what the S3 spolt does, until nothing is left."""
    create_ledgers(spec)
    epoch = next_epoch(spec)
    with (
        closing(open_topic_log(spec)) as log,
        closing(open_registry(spec)) as registry,
        closing(BatchPublisher(open_publisher(spec, OBJECTS_LINK, epoch), batch_topic(spec), epoch)) as publisher,
    ):
        writer = FileWriter(spec.pipeline, log, registry, open_object_store(spec))
        planner = ObjectsPlanner(log, schema_changes_topic(spec), failovers_topic(spec))
        while True:
            record = committed_position(spec, log, OBJECTS_LINK)
            plan = planner.plan(ObjectsRecord.from_mapping(record) if record else ObjectsRecord())
            if not plan.ranges and not plan.schema_changes:
                return
            publisher.publish(plan, list(writer.write(plan.ranges)))
            publisher.settle()


def load_files(spec: PipelineSpec) -> None:
    """Do what the warehouse spolt does."""
    with closing(open_pipeline_state(spec)) as state, closing(open_topic_log(spec)) as log:
        sink, registry = open_sink(spec, spec.links[0]), open_registry(spec)
        wanted, read = (lambda _, table: table.schema == "shop"), batch_reader(spec, 0)
        with closing(WarehouseLoader("load", sink, registry, state, wanted, read)) as loader:
            topic = batch_topic(spec)
            end = log.ends([(topic, 0)])[topic, 0]
            loader.load([each for messages in log.read(topic, 0, loader.start(), end) for each in messages])
        assert not state.stopped_tables("load")


@dataclass(slots=True)
class Following:
    """A capture in a thread of its own. `error` is what ended it, None if we did."""

    capture: CaptureSpec
    error: PenstockError | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self.wait()

    def wait(self) -> None:
        """Wait for its end."""
        assert self._thread is not None
        self._thread.join(120)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with closing(open_live(self.capture)) as live:
                while not self._stop.is_set():
                    live.run(0.5, None)
        except PenstockError as error:
            self.error = error


@pytest.fixture(scope="session")
def initialised(servers_home: Path) -> Path:
    """The home of a MariaDB that was started once, is stopped, and holds nothing: others begin as copies of it."""
    with start_mariadb(servers_home / "initialised") as server:
        return server.home


@pytest.fixture(scope="session")
def initialised_mysql(tmp_path_factory: pytest.TempPathFactory, mysql_package: DebianPackage) -> Path:
    """The home of a MySQL that was started once, is stopped, and holds nothing."""
    del mysql_package
    with start_mysql(tmp_path_factory.mktemp("initialised")) as server:
        return server.home


@pytest.fixture
def open_pair(initialised: Path, tmp_path: Path) -> OpenPair:
    """Start a master and a replica, each time two new ones."""
    numbers = itertools.count()

    def start(**options: Any) -> AbstractContextManager[Pair]:  # noqa: ANN401 - those of `start_pair`
        return start_pair(initialised, tmp_path / f"pair{next(numbers)}", **options)

    return start


@pytest.fixture
def make_case(tmp_path: Path, kafka: KafkaBroker, schematizer: str, fresh_name: str) -> Callable[..., Case]:
    """Make a pipeline from a server, with a tracker of its kind, each anew; keywords go into its source."""
    numbers = itertools.count()

    def make(
        server: MariadbServer | OracleMysql, tracker: MariadbServer | OracleMysql, partitions: int = 1, **source: object
    ) -> Case:
        number = next(numbers)
        name = f"{fresh_name}_{number}" if number else fresh_name
        directory = tmp_path / name
        directory.mkdir()
        flavour: Flavour = "mariadb" if isinstance(tracker, MariadbServer) else "mysql"
        address = MysqlServer(tracker.host, tracker.port, tracker.user, tracker.password)
        MysqlTracker(address, SourceDefaults(flavour=flavour)).restore('{"schemas": []}')
        login = {"host": server.host, "port": server.port, "user": server.user, "password_env": "CASE_PASSWORD"}
        config = {
            "pipeline": name,
            "home": str(directory / "home"),
            "web": False,
            "kafka": {"bootstrap_servers": kafka.bootstrap_servers, "partitions": partitions},
            "schematizer": {"url": schematizer},
            "tracker": {**login, "port": tracker.port},
            "sinks": [{"name": "warehouse", "kind": "duckdb", "path": str(directory / "warehouse.duckdb")}],
            "links": [{"from": name, "to": "warehouse"}],
            "sources": [{"name": name, "kind": "mysql", **login, "tables": ["shop.*"], **source}],
        }
        file = directory / "pipeline.yaml"
        file.write_text(yaml.safe_dump(config))
        return Case(file, kafka.bootstrap_servers, load(file))

    return make
