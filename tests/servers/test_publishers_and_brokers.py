"""Publishers whose broker goes away, forgets them or is slow: what they publish is there once."""

from __future__ import annotations

import random
import threading
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from tests.servers.publishing_program import LINK, messages
from tests.servers.test_watermarks import Case

from penstock.adapters.kafka import pieces, tails, watermarks
from penstock.adapters.kafka.cluster import LARGEST_MESSAGE, KafkaCluster, create_topics
from penstock.adapters.kafka.publisher import TransactionalPublisher
from penstock.core.changes import Messages
from penstock.core.errors import PenstockError, PositionError, UnavailableError
from penstock.embedded import kafka as kafka_settings
from penstock.embedded.kafka import start_kafka

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker

_RECONNECTS_SOON = (("reconnect.backoff.max.ms", "500"),)
_CLIENT_TRIES_AGAIN_SECONDS = 2.0
"""Longer than such a client of Kafka's waits, at most, before it tries to connect again."""


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_what_a_broker_that_died_did_not_take_is_not_sent_to_the_next_one_by_a_publisher_that_was_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watermarks, "REQUEST_TIMEOUT_SECONDS", 2.0)
    with start_kafka(tmp_path / "kafka") as broker:
        case = Case(broker, tmp_path)
        case.cluster = replace(case.cluster, login=_RECONNECTS_SOON)
        with closing(case.open()) as publisher:
            case.go_on(publisher, 10)
            broker.kill()
            with pytest.raises(UnavailableError):
                case.go_on(publisher, 20)
    del publisher

    with start_kafka(tmp_path / "kafka"):
        case.publish(15, 30)
        time.sleep(_CLIENT_TRIES_AGAIN_SECONDS)

        case.publish(40)
        case.assert_whole("a", 40)


def test_a_topic_that_others_go_on_writing_to_stops_whoever_waits_for_it_to_rest(
    kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tails, "_QUIET_SECONDS_MAX", 2.0)
    case, ended = Case(kafka, tmp_path), threading.Event()
    case.publish(10)

    def write() -> None:
        while not ended.wait(0.1):
            case.write("a", b"foreign")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with pytest.raises(PositionError, match=r"\.a/0 has more and more messages after offset \d+ that this"):
            case.open()
    finally:
        ended.set()
        writer.join()


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_publisher_that_a_broker_forgot_over_an_idle_week_is_no_older_instance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    week = "transactional.id.expiration.ms=8000\ntransaction.remove.expired.transaction.cleanup.interval.ms=500\n"
    monkeypatch.setattr(kafka_settings, "_SETTINGS", f"{kafka_settings._SETTINGS}{week}")
    with start_kafka(tmp_path / "kafka") as broker:
        cluster, pipeline = KafkaCluster(broker.bootstrap_servers), uuid4().hex
        with closing(TransactionalPublisher(cluster, pipeline, LINK)) as idle:
            idle.publish([messages(f"{pipeline}.a", 0, 10, "")], lambda: {"next": 10})
            time.sleep(14.0)

            with pytest.raises(UnavailableError):
                idle.publish([messages(f"{pipeline}.a", 10, 20, "")], lambda: {"next": 20})

        with closing(TransactionalPublisher(cluster, pipeline, LINK)) as again:
            assert (again.position() or {})["next"] == 10
            again.publish([messages(f"{pipeline}.a", 10, 20, "")], lambda: {"next": 20})


@pytest.mark.nightly
@pytest.mark.parametrize("transactions", [True, False])
def test_more_bytes_than_the_clients_queue_holds_are_published(
    kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, transactions: bool
) -> None:
    monkeypatch.setattr(watermarks, "QUEUE_KIBIBYTES", 2048)
    monkeypatch.setattr(watermarks, "ROOM_BYTES", 512 << 10)
    monkeypatch.setattr(pieces, "PIECE_BYTES", 256 << 10)
    case = Case(kafka, tmp_path)
    values = pa.array([b"%d " % number + bytes(100_000) for number in range(100)], pa.binary())
    large = Messages(f"{case.pipeline}.a", values, values, np.arange(100, dtype=np.int64))

    opened = TransactionalPublisher(case.cluster, case.pipeline, LINK) if transactions else case.open()
    with closing(opened) as publisher:
        publisher.publish([large], lambda: {"next": 100})
        publisher.settle()

    numbers = [int(value.split()[0]) for found in case.read("a").values() for value in found]
    assert sorted(numbers) == list(range(100))


def test_a_message_that_is_too_large_for_its_topic_is_told_as_that_without_transactions(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    """With transactions: see test_kafka_publisher."""
    case = Case(kafka, tmp_path)
    topic = f"{case.pipeline}.a"
    create_topics(case.cluster, [topic], {LARGEST_MESSAGE: "1000"}, case.cluster.partitions)
    values = pa.array([random.Random(1).randbytes(10_000)], pa.binary())  # noqa: S311 - nothing that lz4 makes smaller
    large = Messages(topic, pa.array([b"key"], pa.binary()), values, np.zeros(1, np.int64))

    with closing(case.open()) as publisher, pytest.raises(PenstockError, match="Message size too large") as caught:
        publisher.publish([large], lambda: {"next": 1})

    assert not caught.value.retryable
    assert "raise max.message.bytes of that topic" in caught.value.hint


@pytest.mark.nightly
def test_a_topic_that_is_deleted_while_nothing_is_transacted_is_told_as_that(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    case = Case(kafka, tmp_path)
    with closing(case.open()) as publisher:
        case.go_on(publisher, 10)
        admin = AdminClient({"bootstrap.servers": case.servers})
        for future in admin.delete_topics([f"{case.pipeline}.a"]).values():
            future.result(30)

        with pytest.raises(PositionError, match=r"\.a is gone: it was deleted"):
            case.go_on(publisher, 60)


def test_pieces_are_bounded_by_messages_and_bytes_and_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 10)
    monkeypatch.setattr(pieces, "PIECE_MESSAGES", 4)
    values = [b"12345", b"123456", None, b"1234", b"1", b"", b"12345678901234", b"12", b"1"]
    keys = [b"%d" % number for number in range(len(values))]

    cut = list(pieces.cut(keys, values))

    assert [size for *_, size in cut] == [5, 10, 1, 14, 2, 1]
    assert [key for some, *_ in cut for key in some] == keys
    assert [value for _, some, _ in cut for value in some] == values
