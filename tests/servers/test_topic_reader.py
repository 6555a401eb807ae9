"""Reading ranges of topics in which a long stretch was rolled back, of which Kafka's client tells nothing."""

from __future__ import annotations

import gc
import os
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from penstock.adapters.kafka import reader as reading
from penstock.adapters.kafka.cluster import KafkaCluster, create_topics
from penstock.adapters.kafka.described import compacted_topics, wait_for_states
from penstock.adapters.kafka.reader import TopicReader
from penstock.core.errors import UnavailableError

if TYPE_CHECKING:
    from penstock.embedded.kafka import KafkaBroker
    from penstock.faults.proxy import Proxy

_MESSAGE_BYTES = 100_000
_ROLLED_BACK = 16
_MESSAGES = 5
"""In each transaction. Of a response without an end of one, Kafka's client asks for twice as much the next time."""
_SILENCE_SECONDS = 3.0
_NEW_CLIENTS = 100
_CHUNK_DELAY_SECONDS = 0.05
"""With chunks of 64 KiB the stretch takes six seconds."""


@pytest.mark.nightly
def test_a_stretch_that_was_rolled_back_is_read_past_however_long_it_takes_and_a_stall_is_told(
    proxied: tuple[Proxy, KafkaBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, broker = proxied
    topic = uuid4().hex
    end = _write_behind_rolled_back(broker, topic)
    monkeypatch.setattr(reading, "REQUEST_TIMEOUT_SECONDS", _SILENCE_SECONDS)
    monkeypatch.setattr(reading, "_PROGRESS_SECONDS", _SILENCE_SECONDS / 10)
    cluster = KafkaCluster(broker.bootstrap_servers)
    proxy.delay(_CHUNK_DELAY_SECONDS)

    with closing(TopicReader(cluster)) as reader:
        assert [each for some in reader.read(topic, 0, 0, end) for each in some] == [(end - 1, b"committed")]

    with closing(TopicReader(cluster)) as reader:
        messages = reader.read(topic, 0, 0, end)
        proxy.stall()
        with pytest.raises(UnavailableError, match=f"Kafka sent nothing of {topic}"):
            next(messages)
        proxy.heal()


def test_a_place_that_nothing_comes_of_is_told_whatever_comes_of_others(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "REQUEST_TIMEOUT_SECONDS", _SILENCE_SECONDS)
    monkeypatch.setattr(reading, "_PROGRESS_SECONDS", _SILENCE_SECONDS / 10)
    cluster, busy, silent = KafkaCluster(kafka.bootstrap_servers), uuid4().hex, uuid4().hex
    create_topics(cluster, [busy, silent], {}, partitions=1)
    ended = threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        while not ended.wait(0.2):
            producer.produce(busy, b"more")
            producer.flush(30)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with closing(TopicReader(cluster)) as reader, pytest.raises(UnavailableError, match="nothing of 2 topics"):
            # The end of the silent one is said to be where it has not come to.
            list(reader.scan({(busy, 0): (0, 1), (silent, 0): (0, 5)}))
    finally:
        ended.set()
        writer.join()


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_what_is_read_no_further_may_outlive_the_reader(kafka: KafkaBroker) -> None:
    cluster, topic = KafkaCluster(kafka.bootstrap_servers), uuid4().hex
    create_topics(cluster, [topic], {}, partitions=1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, b"first")
    producer.flush(30)
    reader = TopicReader(cluster)
    messages = [reader.read(topic, 0, 0, 5), reader.scan({(topic, 0): (0, 5)})]
    for each in messages:
        next(iter(each))

    reader.close()
    messages.clear()
    gc.collect()


def test_no_new_client_waits_for_the_clock_of_kafkas_library(kafka: KafkaBroker) -> None:
    cluster, topic = KafkaCluster(kafka.bootstrap_servers), uuid4().hex
    create_topics(cluster, [topic], {}, partitions=1)
    waited = []
    for _ in range(_NEW_CLIENTS):
        with closing(TopicReader(cluster)) as reader:
            began = time.monotonic()
            reader.ends([(topic, 0)])
        waited.append(time.monotonic() - began)

    # Not how fast it is: one of twenty took three seconds to the millisecond, in which nobody did anything.
    assert [seconds for seconds in waited if _SILENCE_SECONDS <= seconds < _SILENCE_SECONDS + 0.1] == []


def test_a_topic_that_is_made_later_is_found_by_who_asked_before(kafka: KafkaBroker) -> None:
    cluster, topic = KafkaCluster(kafka.bootstrap_servers), uuid4().hex
    with closing(TopicReader(cluster)) as reader:
        assert reader.ends([(topic, 0)]) == {}
        assert reader.newest(topic) is None

        create_topics(cluster, [topic], {}, partitions=1)
        # A broker has a topic a moment after it said that it was made.
        wait_for_states(reader.admin, [topic], reader.settled_ends)

        assert reader.ends([(topic, 0)]) == {(topic, 0): 0}


def test_a_topic_that_is_asked_for_twice_is_told_once(kafka: KafkaBroker) -> None:
    cluster, topic = KafkaCluster(kafka.bootstrap_servers), uuid4().hex
    create_topics(cluster, [topic], {}, partitions=1)

    with closing(TopicReader(cluster)) as reader:
        wait_for_states(reader.admin, [topic], reader.settled_ends)
        assert [count for _, count in reader.shapes([topic, topic]).values()] == [1]
        assert compacted_topics(reader.admin, [topic, topic]) == []


def _write_behind_rolled_back(broker: KafkaBroker, topic: str) -> int:
    """Roll megabytes back and commit one message behind them; the offset behind that."""
    create_topics(KafkaCluster(broker.bootstrap_servers), [topic], {}, partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    for _ in range(_ROLLED_BACK):
        producer.begin_transaction()
        for _ in range(_MESSAGES):
            producer.produce(topic, os.urandom(_MESSAGE_BYTES))
        producer.flush(30)
        producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, b"committed")
    producer.commit_transaction(30)
    # The marker of each transaction has an offset too.
    return _ROLLED_BACK * (_MESSAGES + 1) + 1
