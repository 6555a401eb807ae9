"""Publishers whose broker goes away, forgets them or is slow: what they publish is there once."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from tests.servers.publishing_program import LINK, messages
from tests.servers.test_watermarks import Case

from penstock.adapters.kafka import tails, watermarks
from penstock.adapters.kafka.cluster import KafkaCluster
from penstock.adapters.kafka.publisher import TransactionalPublisher
from penstock.core.errors import PositionError, UnavailableError
from penstock.dev import kafka as kafka_settings
from penstock.dev.kafka import start_kafka

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.dev.kafka import KafkaBroker

_CLIENT_TRIES_AGAIN_SECONDS = 15.0
"""Longer than a client of Kafka's waits, at most, before it tries to connect again."""


@pytest.mark.timeout(300)
def test_what_a_broker_that_died_did_not_take_is_not_sent_to_the_next_one_by_a_publisher_that_was_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watermarks, "REQUEST_TIMEOUT_SECONDS", 2.0)
    with start_kafka(tmp_path / "kafka") as broker:
        case = Case(broker, tmp_path)
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
        with pytest.raises(PositionError, match=r"\.a/0 has more and more messages behind offset \d+ that this"):
            case.open()
    finally:
        ended.set()
        writer.join()


@pytest.mark.timeout(300)
def test_a_publisher_that_a_broker_forgot_over_an_idle_week_is_no_older_instance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    week = "transactional.id.expiration.ms=1000\ntransaction.remove.expired.transaction.cleanup.interval.ms=500\n"
    monkeypatch.setattr(kafka_settings, "_SETTINGS", f"{kafka_settings._SETTINGS}{week}")
    with start_kafka(tmp_path / "kafka") as broker:
        cluster, pipeline = KafkaCluster(broker.bootstrap_servers), uuid4().hex
        with closing(TransactionalPublisher(cluster, pipeline, LINK)) as idle:
            idle.publish([messages(f"{pipeline}.a", 0, 10, "")], lambda: {"next": 10})
            time.sleep(5.0)

            with pytest.raises(UnavailableError):
                idle.publish([messages(f"{pipeline}.a", 10, 20, "")], lambda: {"next": 20})

        with closing(TransactionalPublisher(cluster, pipeline, LINK)) as again:
            assert (again.position() or {})["next"] == 10
            again.publish([messages(f"{pipeline}.a", 10, 20, "")], lambda: {"next": 20})
