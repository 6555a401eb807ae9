"""Publishing without transactions: every message once and in order per key, wherever it is killed."""

from __future__ import annotations

import hashlib
import json
import random
import signal
import time
from collections import defaultdict
from contextlib import closing
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from hypothesis import given
from hypothesis import strategies as st
from tests.servers.forked import ended, start_forked
from tests.servers.kinds import first
from tests.servers.publishing_program import LINK, messages
from tests.servers.publishing_program import main as publish_numbers

from penstock.adapters.kafka.cluster import KafkaCluster
from penstock.adapters.kafka.publisher import TransactionalPublisher
from penstock.adapters.kafka.reader import TopicReader
from penstock.adapters.kafka.topics import position_topic
from penstock.adapters.kafka.watermarks import Saving, WatermarkPublisher
from penstock.adapters.state.checkpoints import open_checkpoints
from penstock.core.errors import FencedError, PositionError
from penstock.core.partitions import partitions_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.process import BaseProcess
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker

PARTITIONS = 3


class Case:
    """One link with two topics, a and b."""

    def __init__(self, kafka: KafkaBroker, home: Path) -> None:
        home.mkdir(exist_ok=True)
        self.servers = kafka.bootstrap_servers
        self.cluster = KafkaCluster(self.servers, PARTITIONS)
        self.pipeline = uuid4().hex
        self.url = f"sqlite:///{home}/state.db"

    def open(self, *, save_seconds: float = 0.0) -> WatermarkPublisher:
        checkpoints = open_checkpoints(self.url, self.pipeline, LINK)
        saving = Saving(is_repeatable=True, seconds=save_seconds)
        return WatermarkPublisher(self.cluster, self.pipeline, LINK, checkpoints, saving)

    def saved(self) -> int:
        """How far the checkpoint says that it was published."""
        with closing(open_checkpoints(self.url, self.pipeline, LINK)) as checkpoints:
            return int(json.loads(checkpoints.read().record or '{"next": 0}')["next"])

    def mirrored(self) -> list[int]:
        """How far each record says that it was published, in the topic that mirrors them."""
        topic = position_topic(self.pipeline, LINK)
        with closing(TopicReader(self.cluster)) as reader:
            end = reader.ends([(topic, 0)])[topic, 0]
            found = [value for part in reader.read(topic, 0, 0, end) for _, value in part]
        return [json.loads(value)["next"] for value in found]

    def publish(self, *ends: int) -> None:
        """Open the link, and publish from where it stands to each of `ends`."""
        with closing(self.open()) as publisher:
            for end in ends:
                self.go_on(publisher, end)

    def go_on(self, publisher: WatermarkPublisher, end: int) -> None:
        start = int(str((publisher.position() or {"next": 0})["next"]))
        publisher.publish([messages(f"{self.pipeline}.a", start, end, "")], lambda: {"next": end})

    def spawn(self, kind: str, count: int, crash_at: str = "") -> BaseProcess:
        """Begin to publish in a process of its own."""
        arguments = (self.servers, self.url, self.pipeline, kind, str(count), str(PARTITIONS))
        return start_forked(publish_numbers, *arguments, crash_at=crash_at)

    def read(self, name: str) -> dict[int, list[bytes]]:
        """The values of each partition, in order, by a plain client."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "outside",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
                "isolation.level": "read_committed",
            }
        )
        consumer.assign([TopicPartition(f"{self.pipeline}.{name}", n, OFFSET_BEGINNING) for n in range(PARTITIONS)])
        values: dict[int, list[bytes]] = defaultdict(list)
        at_end = 0
        while at_end < PARTITIONS:
            message = consumer.poll(30.0)
            assert message is not None
            if message.error() is None:
                values[message.partition() or 0].append(message.value() or b"")
            else:
                at_end += 1
        consumer.close()
        return values

    def assert_whole(self, name: str, count: int) -> None:
        """Every number is there once, and each key's in order."""
        values = self.read(name)
        numbers = {partition: [int(value.split()[0]) for value in found] for partition, found in values.items()}
        keys = messages(f"{self.pipeline}.{name}", 0, count, "").keys
        chosen = partitions_of(keys, PARTITIONS).tolist()
        expected = {p: [n for n in range(count) if chosen[n] == p] for p in set(chosen)}
        assert (self.url, numbers) == (self.url, expected)

    def write(self, name: str, value: bytes, partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        producer.produce(f"{self.pipeline}.{name}", value, partition=partition)
        assert producer.flush(30) == 0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def case(kafka: KafkaBroker, tmp_path: Path) -> Case:
    return Case(kafka, tmp_path)


@pytest.mark.parametrize(
    ("kind", "places"),
    first(
        1,
        ("varying", ("saved_ahead", "saved_ahead:3", "sending:5", "flushed:2", "saved:2")),
        ("repeatable", ("sending", "sending:2", "sending:7", "flushed:2", "flushed:4", "saved:2")),
        ("seldom saved", ("sending:9", "flushed:2", "flushed:6", "saved")),
    ),
)
def test_a_publisher_that_is_killed_between_two_writes_loses_and_repeats_nothing(
    kafka: KafkaBroker, tmp_path: Path, kind: str, places: tuple[str, ...]
) -> None:
    # Side by side, each with a pipeline and a database of its own: most of the time, they wait for the broker.
    cases = {place: Case(kafka, tmp_path / str(number)) for number, place in enumerate(places)}
    for _ in range(2):
        killed = {place: case.spawn(kind, 400, f"watermarks.{place}") for place, case in cases.items()}
        assert {place: ended(process) for place, process in killed.items()} == dict.fromkeys(places, -signal.SIGKILL)

    whole = {place: case.spawn(kind, 400) for place, case in cases.items()}
    assert {place: ended(process) for place, process in whole.items()} == dict.fromkeys(places, 0)

    for case in cases.values():
        case.assert_whole("a", 400)
        case.assert_whole("b", 400)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("kind", "kills", "count"), [(kind, 6, 6_000) for kind in ("repeatable", "seldom saved", "varying")]
)
def test_a_publisher_that_is_killed_at_any_time_loses_and_repeats_nothing(
    case: Case, kind: str, kills: int, count: int
) -> None:
    chance = random.Random(7)  # noqa: S311 - no secret
    for _ in range(kills):
        saved = case.saved()
        process = case.spawn(kind, count)
        wait_until(lambda saved=saved: case.saved() > saved)  # type: ignore[misc]
        time.sleep(chance.uniform(0.0, 0.3))
        process.kill()
        process.join(30)

    assert ended(case.spawn(kind, count)) == 0

    case.assert_whole("a", count)
    case.assert_whole("b", count)


def test_rows_that_follow_on_a_checkpoint_are_saved_when_it_is_time(case: Case) -> None:
    with closing(case.open(save_seconds=3600.0)) as publisher:
        case.go_on(publisher, 10)
        assert case.saved() == 10
        for end in (20, 30):
            case.go_on(publisher, end)
        assert case.saved() == 10
        publisher.save()
        assert case.saved() == 30
        wait_until(lambda: case.mirrored() == [10, 20, 30])
        case.go_on(publisher, 40)
        publisher.settle()
        assert case.saved() == 40
        case.go_on(publisher, 50)
        publisher.publish((), lambda: {"next": 50})
        assert case.saved() == 50
        for end in (60, 70):
            case.go_on(publisher, end)

    assert case.saved() == 50
    case.publish(55, 80)
    case.assert_whole("a", 80)


def test_schema_changes_are_saved_at_once(case: Case) -> None:
    with closing(case.open(save_seconds=3600.0)) as publisher:
        case.go_on(publisher, 10)
        own = messages(f"penstock.{case.pipeline}.schemas", 0, 1, "")
        publisher.publish([own, messages(f"{case.pipeline}.a", 10, 20, "")], lambda: {"next": 20})

    assert case.saved() == 20


def test_one_who_was_replaced_notices_when_it_saves(case: Case) -> None:
    with closing(case.open(save_seconds=3600.0)) as old:
        case.go_on(old, 10)
        case.go_on(old, 20)
        with closing(case.open()), pytest.raises(FencedError):
            old.save()


def test_a_foreign_message_behind_the_checkpoint_stops_it(case: Case) -> None:
    case.publish(10, 20)
    case.write("a", b"foreign")

    with closing(case.open()) as publisher, pytest.raises(PositionError) as caught:
        case.go_on(publisher, 60)

    assert f"{case.pipeline}.a/0 has a foreign message at offset" in caught.value.message


def test_a_foreign_message_that_comes_while_it_runs_stops_it(case: Case) -> None:
    with closing(case.open()) as publisher:
        case.go_on(publisher, 30)
        case.write("a", b"foreign")
        with pytest.raises(PositionError, match=r"has 1 message\(s\) after offset \d+ that this pipeline did not"):
            case.go_on(publisher, 60)


def test_an_instance_that_was_replaced_cannot_save_and_ends(case: Case) -> None:
    with closing(case.open()) as old:
        case.go_on(old, 10)
        with closing(case.open()) as new:
            with pytest.raises(FencedError):
                case.go_on(old, 25)
            # What the old one still sent cannot be told from what the new one has to send: somebody must look.
            with pytest.raises(PositionError, match="that this pipeline did not write"):
                case.go_on(new, 20)

    with pytest.raises(PositionError, match="foreign message"):
        case.publish(60)


def test_a_topic_that_was_deleted_or_cut_is_recognised(case: Case) -> None:
    case.publish(10)
    admin = AdminClient({"bootstrap.servers": case.servers})
    for future in admin.delete_topics([f"{case.pipeline}.a"]).values():
        future.result(30)

    with pytest.raises(PositionError, match=r"\.a is gone: it was deleted"):
        case.open()


def test_how_a_pipeline_publishes_is_not_changed(case: Case, tmp_path: Path) -> None:
    case.publish(10)
    with pytest.raises(PositionError, match=r"has run with kafka\.transactions: false"):
        TransactionalPublisher(case.cluster, case.pipeline, LINK)

    with closing(TransactionalPublisher(case.cluster, other := uuid4().hex, LINK)) as publisher:
        publisher.publish((), lambda: {"next": 0})
    checkpoints = open_checkpoints(f"sqlite:///{tmp_path}/state.db", other, LINK)
    with closing(checkpoints), pytest.raises(PositionError, match="has no checkpoint of db, but Kafka has"):
        WatermarkPublisher(case.cluster, other, LINK, checkpoints, Saving(is_repeatable=True))


@pytest.mark.nightly
def test_what_a_broken_first_publication_left_is_counted_until_another_is_whole(case: Case) -> None:
    left = 0
    for _ in range(2):
        assert ended(case.spawn("broken", 40, "watermarks.flushed")) == -signal.SIGKILL
        with closing(case.open()) as publisher:
            before, left = left, publisher.left_over(f"{case.pipeline}.a")
            assert left > before

    case.publish(5)
    with closing(case.open()) as publisher:
        assert publisher.left_over(f"{case.pipeline}.a") == 0
        case.go_on(publisher, 9)


def test_partitions_are_those_that_kafkas_clients_choose(kafka: KafkaBroker) -> None:
    keys = [hashlib.sha256(bytes([number])).digest()[: number % 23] for number in range(1, 200)]
    topic = uuid4().hex
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2"})
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in admin.create_topics([NewTopic(topic, 11, 1)]).values():
        future.result(30)
    chosen: dict[bytes, int | None] = {}
    for key in keys:
        producer.produce(topic, key=key, on_delivery=lambda _, m: chosen.__setitem__(m.key() or b"", m.partition()))
    assert producer.flush(30) == 0

    assert dict(zip(keys, partitions_of(pa.array(keys, pa.binary()), 11).tolist(), strict=True)) == chosen


@given(st.lists(st.none() | st.binary(max_size=20), max_size=30), st.integers(1, 9), st.integers(0, 5))
def test_a_partition_depends_on_its_key_alone(keys: list[bytes | None], count: int, start: int) -> None:
    together = partitions_of(pa.array(keys, pa.binary()), count).tolist()
    alone = [int(partitions_of(pa.array([key], pa.binary()), count)[0]) for key in keys]
    sliced = partitions_of(pa.array(keys, pa.binary()).slice(start), count).tolist()

    assert together == alone
    assert sliced == together[start:]
    assert all(partition == 0 for key, partition in zip(keys, together, strict=True) if key is None)
