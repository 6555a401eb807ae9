"""A capture and its S3 spolt between real servers, driven without Spark, and their topics as others see them."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from tests.servers.sessions import log_in

from penstock.adapters.mysql.connection import MysqlServer, connect
from penstock.adapters.mysql.history import head
from penstock.adapters.mysql.tracker import MysqlTracker, SourceDefaults
from penstock.config.load import load
from penstock.embedded.mariadb import PASSWORD
from penstock.jobs.in_process import carry_link, follow
from penstock.links.capture.spec import CaptureSpec
from penstock.wiring import capture as wiring
from penstock.wiring.open import OBJECTS_LINK

if TYPE_CHECKING:
    from pathlib import Path

    import pymysql

    from penstock.config.specs import PipelineSpec
    from penstock.core.positions import BinlogPosition
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

os.environ["CASE_PASSWORD"] = PASSWORD


@dataclass(frozen=True, slots=True)
class CaptureCase:
    """One source's database, captured from where its log stood when the case was made."""

    file: Path
    database: str
    server: MariadbServer
    bootstrap_servers: str

    @property
    def spec(self) -> PipelineSpec:
        return load(self.file)

    def write(self, *statements: str) -> None:
        """Commit each of `statements` in the source."""
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def ask(self, question: str) -> object:
        """The one value that the source answers."""
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            cursor.execute(question)
            ((value,),) = cursor.fetchall()
        return value

    def _connect(self) -> pymysql.Connection:
        return log_in(self.server, self.database)

    def start(self, epoch: int = 1) -> None:
        """Copy the tables."""
        wiring.start_capture(CaptureSpec(self.spec, "db", epoch))

    def head(self) -> BinlogPosition:
        """Where the source's log ends."""
        source = MysqlServer(self.server.host, self.server.port, self.server.user, self.server.password)
        with closing(connect(source)) as connection:
            return head(connection)

    def run(self, epoch: int = 1) -> None:
        """Capture what is committed in the source now."""
        follow(self.spec, "db", epoch)

    def run_objects(self, epoch: int = 1) -> None:
        """Bring what is in Kafka now into files."""
        carry_link(self.spec, OBJECTS_LINK, epoch)

    def topic(self, table: str) -> str:
        return f"db.{self.database}.{table}"

    def read(self, topic: str, partitions: int = 1) -> list[tuple[int, int, bytes | None, bytes]]:
        """Every committed (partition, offset, key, value) of a topic, by a plain client."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": "outside",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
                "isolation.level": "read_committed",
            }
        )
        places = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)]
        consumer.assign(places)
        found, at_end = [], set[int]()
        while len(at_end) < partitions:
            message = consumer.poll(30.0)
            assert message is not None
            if message.error() is None:
                partition, offset, value = message.partition(), message.offset(), message.value()
                assert partition is not None
                assert offset is not None
                assert value is not None
                found.append((partition, offset, message.key(), value))
            else:
                at_end.add(message.partition() or 0)
        consumer.close()
        return sorted(found, key=lambda each: each[:2])

    def put(self, topic: str, value: bytes, key: bytes | None = None, partition: int = 0) -> None:
        """Write a message as somebody else."""
        producer = Producer({"bootstrap.servers": self.bootstrap_servers})
        producer.produce(topic, value, key=key, partition=partition)
        assert producer.flush(30) == 0


@dataclass(frozen=True, slots=True)
class CaseServers:
    """What cases use."""

    home: Path
    mariadb: MariadbServer
    tracker: MariadbServer
    schematizer: str

    def make_case(self, kafka: KafkaBroker, database: str, **kafka_options: object) -> CaptureCase:
        """Empty the tracker, which each pipeline has to itself, and write the pipeline's file."""
        address = MysqlServer(self.tracker.host, self.tracker.port, self.tracker.user, self.tracker.password)
        MysqlTracker(address, SourceDefaults(flavour="mariadb")).restore('{"schemas": []}')
        server = self.mariadb
        login = {"host": server.host, "port": server.port, "user": server.user, "password_env": "CASE_PASSWORD"}
        config = {
            "pipeline": database,
            "home": str(self.home / "home"),
            "kafka": {"bootstrap_servers": kafka.bootstrap_servers, **kafka_options},
            "schematizer": {"url": self.schematizer},
            "tracker": {**login, "port": self.tracker.port},
            "sources": [{"name": "db", "kind": "mysql", **login, "tables": [f"{database}.*"], "start": "snapshot"}],
            "sinks": [{"name": "warehouse", "kind": "duckdb", "path": str(self.home / "warehouse.duckdb")}],
            "links": [{"from": "db", "to": "warehouse"}],
        }
        (self.home / "home").mkdir(exist_ok=True)
        file = self.home / "pipeline.yaml"
        file.write_text(yaml.safe_dump(config))
        return CaptureCase(file, database, server, kafka.bootstrap_servers)
