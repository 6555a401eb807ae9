"""Where topics begin and end: what is written, what is committed, and what is decided."""

from __future__ import annotations

import time
from types import MappingProxyType
from typing import TYPE_CHECKING

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from penstock.adapters.kafka.cluster import REQUEST_TIMEOUT_SECONDS, UNDECIDED_SECONDS, explain
from penstock.adapters.kafka.described import describe_topics, learn_leaders
from penstock.core.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo  # type: ignore[attr-defined]

_NONE: Mapping[tuple[str, int], int] = MappingProxyType({})
_SETTLE_POLL_SECONDS = 0.005
_UNFINISHED = (
    "start all links of the pipeline: one that was killed ends what it has left open when it starts; check that all "
    "brokers run, and that nobody else writes there; kafka-transactions.sh find-hanging names transactions that "
    "brokers have forgotten, and abort ends them"
)
_MOVING_POLL_SECONDS = 0.1
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_UNKNOWN = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - librdkafka's own codes have an underscore
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError._NOENT,  # noqa: SLF001
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
    }
)
"""What is answered of a partition that is not there, or just gets a leader, or to a client whose connection broke."""


def settled_ends(
    admin: AdminClient, partitions: Sequence[tuple[str, int]], known: Mapping[tuple[str, int], int] = _NONE
) -> Mapping[tuple[str, int], int]:
    """Return where (topic, partition)s end, once every transaction with messages in them is decided there.

    Behind the ends `known`, up to which all was decided before, nothing may have been written: then one question is
    enough. Absent ones are left out. Raises UnavailableError when that takes too long.
    """
    deadline = time.monotonic() + UNDECIDED_SECONDS
    while True:
        written = written_ends(admin, partitions)
        if written.items() <= known.items():
            return written
        committed = committed_ends(admin, partitions)
        undecided = undecided_places(written, committed)
        if not undecided:
            # A marker may have come in between: whoever reads on from before it waits seconds, as fetches return none.
            return {**written, **committed}
        if time.monotonic() > deadline:
            topics, seconds = ", ".join(sorted({topic for topic, _ in undecided})), f"{UNDECIDED_SECONDS:.0f} s"
            text = f"Kafka has not finished the transactions in {topics} for {seconds}"
            raise UnavailableError(text, _UNFINISHED)
        time.sleep(_SETTLE_POLL_SECONDS)


def written_ends(admin: AdminClient, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
    """Return where (topic, partition)s end, undecided messages included. Absent ones are left out."""
    return _list_offsets(admin, partitions, _LATEST, IsolationLevel.READ_UNCOMMITTED)


def committed_ends(admin: AdminClient, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
    """Return where the first undecided message of (topic, partition)s is, or they end. Absent ones are left out."""
    return _list_offsets(admin, partitions, _LATEST)


def undecided_places(
    written: Mapping[tuple[str, int], int], committed: Mapping[tuple[str, int], int]
) -> Sequence[tuple[str, int]]:
    """Return the (topic, partition)s with messages of transactions that have no end there, by their two ends."""
    return [place for place, end in written.items() if committed.get(place, end) < end]


def begins_now(admin: AdminClient, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
    """Return where (topic, partition)s begin. Absent ones are left out."""
    return _list_offsets(admin, partitions, _EARLIEST)


def ends_now(admin: AdminClient, topic: str, partitions: int) -> list[int]:
    """Return where so many partitions of `topic` end, undecided messages included."""
    ends = written_ends(admin, [(topic, partition) for partition in range(partitions)])
    return [ends.get((topic, partition), 0) for partition in range(partitions)]


def _list_offsets(
    admin: AdminClient,
    partitions: Sequence[tuple[str, int]],
    which: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> Mapping[tuple[str, int], int]:
    """Where (topic, partition)s begin or end; those are left out that are not there by all that the brokers say."""
    offsets: dict[tuple[str, int], int] = {}
    left, deadline = list(partitions), time.monotonic() + REQUEST_TIMEOUT_SECONDS
    learn_leaders(admin, {topic for topic, _ in partitions})
    while left:
        answers = admin.list_offsets(
            {TopicPartition(*place): which for place in left},
            isolation_level=isolation,
            request_timeout=REQUEST_TIMEOUT_SECONDS,
        )
        found = {(asked.topic, asked.partition): _offset(asked, answer) for asked, answer in answers.items()}
        offsets |= {place: offset for place, offset in found.items() if offset is not None}
        left = _there(admin, [place for place, offset in found.items() if offset is None])
        if left and time.monotonic() > deadline:
            message = f"Kafka does not say where {left[0][0]}/{left[0][1]} begins or ends, which is there"
            raise UnavailableError(message, "check that all brokers run and can be reached; this is tried again")
        if left:
            time.sleep(_MOVING_POLL_SECONDS)
    return offsets


def _offset(asked: TopicPartition, answer: Future[ListOffsetsResultInfo]) -> int | None:
    """What a broker answered; None where it, or Kafka's client, does not know."""
    try:
        offset: int = answer.result().offset
    except KafkaException as error:
        if error.args[0].code() in _UNKNOWN:
            return None
        raise explain(error, f"asking for the offsets of {asked.topic}") from error
    # The client says -1001, and calls it no error, where the connection broke before the answer.
    return offset if offset >= 0 else None


def _there(admin: AdminClient, places: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Those of `places` that the brokers list: not to know one may come of a connection that broke, or of a move."""
    described = describe_topics(admin, {topic for topic, _ in places})
    return [(topic, number) for topic, number in places if topic in described and number < described[topic][1]]
