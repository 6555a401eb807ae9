"""Our producer of transactions, with real brokers that break in the middle of them."""

from __future__ import annotations

import gc
import random
import socket
import threading
import time
import warnings
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.servers.kinds import first

from penstock.adapters.kafka.cluster import KafkaCluster, create_topics
from penstock.adapters.kafka.ends import settled_ends, written_ends
from penstock.adapters.kafka.producer import TransactionalProducer
from penstock.adapters.kafka.publisher import TransactionalPublisher
from penstock.adapters.kafka.reader import TopicReader
from penstock.adapters.kafka.topics import position_topic
from penstock.core.changes import Messages
from penstock.core.errors import FencedError, UnavailableError
from penstock.core.kafka.records import Records, encode_listed
from penstock.embedded.kafka import start_kafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker
    from penstock.faults.proxy import Proxy


Found: TypeAlias = "tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]"
"""Key, value and headers of a message."""


@dataclass(slots=True)
class Story:
    """Publications one behind the other, each of some numbers and the record of the next one, as a link makes them."""

    cluster: KafkaCluster
    pipeline: str = field(default_factory=lambda: uuid4().hex)
    failures: list[str] = field(default_factory=list)
    timers: list[threading.Timer] = field(default_factory=list)

    @property
    def topics(self) -> Sequence[str]:
        return [f"{self.pipeline}.{name}" for name in "ab"]

    def run(self, until: int, size: Callable[[int], int], trouble: Callable[[int], None]) -> None:
        """Publish number after number up to `until`, `size` at once; after a failure go on from the record."""
        number, publisher = 0, None
        while number < until:
            trouble(number)
            try:
                if publisher is None:
                    publisher = TransactionalPublisher(self.cluster, self.pipeline, "link")
                    number = int(str((publisher.position() or {}).get("next", 0)))
                end = min(until, number + size(number))
                publisher.publish(self._messages(number, end), partial(dict, next=end))
                number = end
            except UnavailableError as error:
                self.failures.append(error.message)
                if publisher is not None:
                    publisher.close()
                publisher = None
        assert publisher is not None
        publisher.close()

    def later(self, seconds: float, act: Callable[[], object]) -> None:
        """Do `act` in the middle of what goes on in `seconds`, and not while `found` reads."""
        timer = threading.Timer(seconds, act)
        timer.start()
        self.timers.append(timer)

    def _messages(self, begin: int, end: int) -> Iterator[Messages]:
        values = pa.array([b"%d" % number for number in range(begin, end)], pa.binary())
        for topic in self.topics:
            yield Messages(topic, values, values, np.arange(len(values)))

    def found(self) -> list[list[int]]:
        """The committed numbers of each topic, in its order, behind all trouble."""
        for timer in self.timers:
            timer.join()
        places = [(topic, 0) for topic in self.topics]
        with closing(TopicReader(self.cluster)) as reader:
            ends = settled_ends(AdminClient(self.cluster.client_settings()), places)
            return [
                [int(value) for part in reader.read(topic, 0, 0, ends[topic, 0]) for _, value in part]
                for topic in self.topics
            ]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 10))])
@pytest.mark.parametrize("kind", first(1, "cut_answers", "cut", "half_close"))
def test_connections_that_break_anywhere_lose_and_repeat_nothing(
    proxied: tuple[Proxy, KafkaBroker], kind: str, seed: int
) -> None:
    proxy, broker = proxied
    story, chance = Story(KafkaCluster(broker.bootstrap_servers)), random.Random(seed)  # noqa: S311 - for a test

    def trouble(number: int) -> None:
        if number > 20 and chance.random() < 0.5:
            delay = chance.random() * 0.02
            act = partial(proxy.cut_answers, 1) if kind == "cut_answers" else getattr(proxy, kind)
            story.later(delay, act)

    story.run(2_000, lambda _: chance.choice([1, 7, 100]), trouble)

    assert story.found() == [list(range(2_000))] * 2


@pytest.mark.nightly
def test_a_bulk_whose_connections_break_is_sent_again_from_what_has_no_answer(
    proxied: tuple[Proxy, KafkaBroker],
) -> None:
    proxy, broker = proxied
    story = Story(KafkaCluster(broker.bootstrap_servers))

    def trouble(_: int) -> None:
        for delay in (0.02, 0.05, 0.1):
            story.later(delay, partial(proxy.cut_answers, 1))

    story.run(300_000, lambda _: 100_000, trouble)

    assert story.found() == [list(range(300_000))] * 2


def test_a_broker_that_is_killed_and_comes_back_loses_and_repeats_nothing(tmp_path: Path) -> None:
    home, story = tmp_path / "kafka", None
    with start_kafka(home) as broker:
        story = Story(KafkaCluster(broker.bootstrap_servers))
        back: list[KafkaBroker] = []
        # It answers before its start is over.
        start = threading.Thread(target=lambda: back.append(start_kafka(home).__enter__()))

        def trouble(number: int) -> None:
            if number == 30:
                broker.kill()
                start.start()

        try:
            story.run(60, lambda _: 1, trouble)

            assert story.found() == [list(range(60))] * 2
        finally:
            if start.ident is not None:
                start.join()
            for server in back:
                server.kill()


def test_a_broker_that_went_away_between_two_publications_is_no_failure(proxied: tuple[Proxy, KafkaBroker]) -> None:
    """As brokers close connections on which nobody said anything for minutes."""
    proxy, broker = proxied
    story = Story(KafkaCluster(broker.bootstrap_servers))

    def trouble(number: int) -> None:
        if number % 10 == 5:
            proxy.half_close()
            time.sleep(0.05)

    story.run(50, lambda _: 1, trouble)

    assert story.failures == []
    assert story.found() == [list(range(50))] * 2


def test_transactions_that_follow_each_other_at_once_are_all_taken(kafka: KafkaBroker) -> None:
    story = Story(KafkaCluster(kafka.bootstrap_servers))

    story.run(150, lambda _: 1, lambda _: None)

    assert story.failures == []
    assert story.found() == [list(range(150))] * 2


def test_what_was_aborted_is_not_seen_and_the_next_publication_is(kafka: KafkaBroker) -> None:
    cluster, pipeline = KafkaCluster(kafka.bootstrap_servers), uuid4().hex
    values = pa.array([b"%d" % number for number in range(200_000)], pa.binary())

    def broken() -> Iterator[Messages]:
        yield Messages(f"{pipeline}.t", values, values, np.arange(len(values)))
        raise KeyError(pipeline)

    for number in range(3):
        with closing(TransactionalPublisher(cluster, pipeline, "link")) as publisher:
            with pytest.raises(KeyError):
                publisher.publish(broken(), partial(dict, number=number))
            assert publisher.position() is None
    with closing(TransactionalPublisher(cluster, pipeline, "link")) as publisher:
        publisher.publish([Messages(f"{pipeline}.t", values, values, np.arange(len(values)))], partial(dict, number=9))
        publisher.settle()

        assert (publisher.position() or {})["number"] == 9
    with closing(TopicReader(cluster)) as reader:
        end = reader.ends([(f"{pipeline}.t", 0)])[f"{pipeline}.t", 0]
        assert sum(len(part) for part in reader.read(f"{pipeline}.t", 0, 0, end)) == len(values)


def test_kafkas_own_client_reads_what_we_wrote(kafka: KafkaBroker) -> None:
    """Keys, values, tombstones, headers and large messages, on four partitions, one by one and by column."""
    cluster, pipeline = KafkaCluster(kafka.bootstrap_servers, partitions=4), uuid4().hex
    topic = f"{pipeline}.t"
    sent: list[tuple[bytes | None, bytes | None]] = [
        (b"key %d" % (number % 50), None if number % 9 == 0 else b"%d " % number * (number % 400))
        for number in range(3_000)
    ]
    sent.append((b"large", random.Random(5).randbytes(3 << 20)))  # noqa: S311 - nothing that lz4 makes smaller
    keys, values = (pa.array([pair[place] for pair in sent], pa.binary()) for place in (0, 1))
    headers = [[("name", b"%d" % number)] for number in range(len(sent))]
    with closing(TransactionalPublisher(cluster, pipeline, "link")) as publisher:
        publisher.publish([Messages(topic, keys, values, np.arange(len(sent)))], partial(dict, number=1))
        publisher.publish([Messages(topic, keys, values, np.arange(len(sent)), headers=headers)], dict)
        publisher.settle()

    found = read_all(cluster, topic, 2 * len(sent))

    by_key = {key: [value for other, value in sent if other == key] for key, _ in sent}
    for key, expected in by_key.items():
        assert [value for other, value, _ in found if other == key] == expected * 2
    told = sorted(int(header[0][1]) for _, _, header in found if header)
    assert told == list(range(len(sent)))


def read_all(cluster: KafkaCluster, topic: str, count: int) -> list[Found]:
    consumer = Consumer({**cluster.client_settings(), "group.id": uuid4().hex, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(4)])
    found: list[Found] = []
    try:
        while len(found) < count:
            message = consumer.poll(30.0)
            assert message is not None
            assert message.error() is None
            headers = cast("list[tuple[str, bytes]]", message.headers() or [])
            found.append((message.key(), message.value(), headers))
    finally:
        consumer.close()
    return found


def test_one_who_was_fenced_in_mid_transaction_publishes_nothing_of_it(kafka: KafkaBroker) -> None:
    cluster, pipeline = KafkaCluster(kafka.bootstrap_servers), uuid4().hex
    values = pa.array([b"%d" % number for number in range(100_000)], pa.binary())
    part = Messages(f"{pipeline}.t", values, values, np.arange(len(values)))
    older = TransactionalPublisher(cluster, pipeline, "link")

    def fenced_between() -> Iterator[Messages]:
        yield part
        with closing(TransactionalPublisher(cluster, pipeline, "link")) as newer:
            newer.publish([part], partial(dict, who="newer"))
        yield part

    with closing(older), pytest.raises(FencedError):
        older.publish(fenced_between(), partial(dict, who="older"))

    with closing(TransactionalPublisher(cluster, pipeline, "link")) as last, closing(TopicReader(cluster)) as reader:
        assert (last.position() or {})["who"] == "newer"
        end = reader.ends([(f"{pipeline}.t", 0)])[f"{pipeline}.t", 0]
        assert sum(len(some) for some in reader.read(f"{pipeline}.t", 0, 0, end)) == len(values)


def test_a_transaction_that_took_too_long_is_told_as_that_and_not_as_a_newer_instance(kafka: KafkaBroker) -> None:
    """Kafka, which looks every second here, refuses both in the same words."""
    cluster, pipeline = KafkaCluster(kafka.bootstrap_servers), uuid4().hex
    values = pa.array([b"%d" % number for number in range(200_000)], pa.binary())
    part = Messages(f"{pipeline}.t", values, values, np.arange(len(values)))

    def slowly() -> Iterator[Messages]:
        yield part
        time.sleep(4.0)
        yield part

    publisher = TransactionalPublisher(cluster, pipeline, "link", transaction_timeout_seconds=1.0)
    with closing(publisher), pytest.raises(UnavailableError, match="longer than 1 s, and the brokers ended it"):
        publisher.publish(slowly(), dict)


@pytest.mark.nightly
def test_a_broker_that_accepts_connections_and_never_answers_is_passed_by(kafka: KafkaBroker) -> None:
    """As one that is stopped, or a proxy with nothing behind it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]},{kafka.bootstrap_servers}"
        for _ in range(4):
            TransactionalProducer(KafkaCluster(servers), uuid4().hex, 60.0).close()


def test_leaders_are_not_asked_for_where_answers_are_on_their_way(proxied: tuple[Proxy, KafkaBroker]) -> None:
    """Behind a connection that broke, only the leaders of what had no answer are known."""
    proxy, broker = proxied
    cluster, topics = KafkaCluster(f"127.0.0.1:{proxy.port}"), [f"{uuid4().hex}.{name}" for name in "ab"]
    create_topics(cluster, topics, {}, 1)
    with closing(TransactionalProducer(cluster, uuid4().hex, 60.0)) as producer:
        producer.begin()
        for round_, topic in enumerate([1, *[0] * 8, 1, 0]):
            if round_ == 3:
                proxy.cut()
            for records in encode_listed([b"k"], [bytes([round_]) * 900_000]):
                producer.produce(topics[topic], 0, records)
                producer.produce(topics[topic], 0, Records(1, records.content, records.is_compressed))
        producer.commit()

    with closing(TopicReader(KafkaCluster(broker.bootstrap_servers))) as reader:
        admin = AdminClient(cluster.client_settings())
        ends = settled_ends(admin, [(topic, 0) for topic in topics])
        counts = [sum(len(part) for part in reader.read(topic, 0, 0, ends[topic, 0])) for topic in topics]
    assert counts == [18, 4]


def test_a_publisher_that_nobody_closed_leaves_no_connection(kafka: KafkaBroker) -> None:
    """In a cycle, as an exception's frames make one: Python warns of a socket that its collector finds open."""
    publisher = TransactionalPublisher(KafkaCluster(kafka.bootstrap_servers), uuid4().hex, "link")
    publisher.publish([], dict)
    cycle: list[object] = [publisher]
    cycle.append(cycle)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        del publisher, cycle
        gc.collect()

    assert [str(warning.message) for warning in told] == []


def test_where_a_partition_ends_is_asked_again_where_the_answer_is_cut_off(
    proxied: tuple[Proxy, KafkaBroker],
) -> None:
    """Kafka's client says then that it ends at -1001, and that nothing went wrong."""
    proxy, broker = proxied
    cluster, pipeline = KafkaCluster(broker.bootstrap_servers), uuid4().hex
    with closing(TransactionalPublisher(cluster, pipeline, "link")) as publisher:
        publisher.publish([], partial(dict, number=1))
        publisher.settle()
    place = position_topic(pipeline, "link"), 0
    admin = AdminClient(cluster.client_settings())
    (end,) = settled_ends(admin, [place]).values()

    proxy.cut_answers(1)
    (found,) = written_ends(admin, [place]).values()

    assert found == end > 0
    with closing(TopicReader(cluster)) as reader:
        assert reader.newest(place[0]) is not None
        proxy.cut_answers(1)
        assert reader.newest(place[0]) is not None
