"""Requests to a Kafka broker, and its answers, for a producer in transactions.

Source: Apache Kafka documentation, "Protocol": the message definitions, and of each
request the lowest version that says what we need, which brokers from 1.0 on
understand. Not those of KIP-890, with which a broker takes a partition into the
transaction when its first messages come: docs/decisions/0037.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.kafka.records import ProducerIdentity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Place = tuple[str, int]
    """A topic and the number of a partition."""

_CLIENT: Final = b"\0\x08penstock"
_TRANSACTION_KEY_TYPE: Final = 1
_ALL_REPLICAS: Final = -1


@dataclass(frozen=True, slots=True)
class Api:
    """A request's kind, and its version."""

    key: int
    version: int


PRODUCE: Final = Api(0, 3)
METADATA: Final = Api(3, 4)
FIND_COORDINATOR: Final = Api(10, 1)
SASL_HANDSHAKE: Final = Api(17, 1)
INIT_PRODUCER_ID: Final = Api(22, 0)
ADD_PARTITIONS: Final = Api(24, 0)
END_TRANSACTION: Final = Api(26, 0)
SASL_AUTHENTICATE: Final = Api(36, 0)

_HEADER: Final = struct.Struct(">ihhi")


def render_request(api: Api, correlation: int, body: bytes) -> bytes:
    """Return a request as it goes over the wire, its size ahead."""
    return _HEADER.pack(len(_CLIENT) + len(body) + 8, api.key, api.version, correlation) + _CLIENT + body


class Answer:
    """The fields of an answer, read one behind the other. Raises ValueError where it is cut short."""

    __slots__ = ("_at", "_content")

    def __init__(self, content: bytes) -> None:
        """Begin at the start of `content`."""
        self._content = content
        self._at = 0

    def integer(self, octets: int) -> int:
        """Read a signed integer of so many bytes."""
        return int.from_bytes(self.take(octets), "big", signed=True)

    def take(self, octets: int) -> bytes:
        """Read so many bytes."""
        taken = self._content[self._at : self._at + octets]
        if octets < 0 or len(taken) != octets:
            message = f"an answer of {len(self._content)} bytes ends before it says everything"
            raise ValueError(message)
        self._at += octets
        return taken

    def text(self) -> str | None:
        """Read a text with a size of two bytes."""
        size = self.integer(2)
        return None if size < 0 else self.take(size).decode()

    def sized(self) -> bytes:
        """Read bytes with a size of four."""
        return self.take(max(0, self.integer(4)))

    def counted(self) -> range:
        """Read how many entries follow."""
        return range(max(0, self.integer(4)))


@dataclass(frozen=True, slots=True)
class Broker:
    """Where a broker listens."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Leaders:
    """Which brokers there are, by id, and which of them leads a partition; `failures` has the codes of other topics."""

    brokers: Mapping[int, Broker]
    leaders: Mapping[Place, int]
    failures: Mapping[str, int]


def ask_mechanism(mechanism: str) -> bytes:
    """Choose how to log in."""
    return _text(mechanism)


def read_mechanism(answer: Answer) -> tuple[int, Sequence[str]]:
    """Return the error code, and the mechanisms that there are."""
    return answer.integer(2), [answer.text() or "" for _ in answer.counted()]


def authenticate(token: bytes) -> bytes:
    """Send a step of a login."""
    return _sized(token)


def read_authenticated(answer: Answer) -> tuple[int, str, bytes]:
    """Return the error code, its message, and the server's step."""
    return answer.integer(2), answer.text() or "", answer.sized()


def ask_leaders(topics: Iterable[str]) -> bytes:
    """Ask who leads the partitions of `topics`; asking creates none."""
    names = [_text(topic) for topic in topics]
    return _count(len(names)) + b"".join(names) + b"\0"


def read_leaders(answer: Answer) -> Leaders:
    """Read who leads; a partition without a leader is left out."""
    brokers, leaders, failures = {}, {}, {}
    answer.integer(4)
    for _ in answer.counted():
        node, host, port, _ = answer.integer(4), answer.text(), answer.integer(4), answer.text()
        brokers[node] = Broker(host or "", port)
    answer.text()
    answer.integer(4)
    for _ in answer.counted():
        code, topic, _ = answer.integer(2), answer.text() or "", answer.integer(1)
        if code:
            failures[topic] = code
        for _ in answer.counted():
            answer.integer(2)
            partition, leader = answer.integer(4), answer.integer(4)
            for _ in range(2):
                answer.take(4 * len(answer.counted()))
            if leader in brokers:
                leaders[topic, partition] = leader
    return Leaders(brokers, leaders, failures)


def ask_coordinator(transactional_id: str) -> bytes:
    """Ask which broker keeps the book of a transactional id."""
    return _text(transactional_id) + bytes([_TRANSACTION_KEY_TYPE])


def read_coordinator(answer: Answer) -> tuple[int, Broker]:
    """Return the error code and the broker."""
    answer.integer(4)
    code, _, _ = answer.integer(2), answer.text(), answer.integer(4)
    return code, Broker(answer.text() or "", answer.integer(4))


def initialize(transactional_id: str, timeout_ms: int) -> bytes:
    """Take a transactional id over: older producers are fenced, what they left open is aborted."""
    return _text(transactional_id) + timeout_ms.to_bytes(4, "big")


def read_identity(answer: Answer) -> tuple[int, ProducerIdentity]:
    """Return the error code and who we are from now on."""
    answer.integer(4)
    return answer.integer(2), ProducerIdentity(answer.integer(8), answer.integer(2))


def add_partitions(transactional_id: str, identity: ProducerIdentity, places: Iterable[Place]) -> bytes:
    """Take partitions into the open transaction."""
    by_topic = _by_topic(dict.fromkeys(places, b""))
    parts = [_text(transactional_id), _identity(identity), _count(len(by_topic))]
    for topic, partitions in by_topic.items():
        parts += (_text(topic), _count(len(partitions)), *(number.to_bytes(4, "big") for number in partitions))
    return b"".join(parts)


def read_added(answer: Answer) -> Mapping[Place, int]:
    """Return the error code of each partition."""
    answer.integer(4)
    codes = {}
    for _ in answer.counted():
        topic = answer.text() or ""
        for _ in answer.counted():
            partition = answer.integer(4)
            codes[topic, partition] = answer.integer(2)
    return codes


def produce(transactional_id: str, timeout_ms: int, batches: Mapping[Place, bytes]) -> bytes:
    """Append a batch to each of some partitions, and be told when all replicas in sync have it."""
    by_topic = _by_topic(batches)
    waiting = struct.pack(">hi", _ALL_REPLICAS, timeout_ms)
    parts = [_text(transactional_id), waiting, _count(len(by_topic))]
    for topic, partitions in by_topic.items():
        parts += (_text(topic), _count(len(partitions)))
        for number, batch in partitions.items():
            parts += (number.to_bytes(4, "big"), _sized(batch))
    return b"".join(parts)


def read_produced(answer: Answer, places: Iterable[Place]) -> Mapping[Place, int]:
    """Return the error code of each partition. Raises ValueError where one of `places` has none."""
    codes = {}
    for _ in answer.counted():
        topic = answer.text() or ""
        for _ in answer.counted():
            partition = answer.integer(4)
            codes[topic, partition] = answer.integer(2)
            answer.take(16)
    for place in places:
        if place not in codes:
            message = f"an answer says nothing of {place[0]}/{place[1]}"
            raise ValueError(message)
    return codes


def end_transaction(transactional_id: str, identity: ProducerIdentity, *, commit: bool) -> bytes:
    """Commit or abort the open transaction."""
    return _text(transactional_id) + _identity(identity) + bytes([commit])


def read_ended(answer: Answer) -> int:
    """Return the error code."""
    answer.integer(4)
    return answer.integer(2)


def _by_topic(batches: Mapping[Place, bytes]) -> Mapping[str, Mapping[int, bytes]]:
    by_topic: dict[str, dict[int, bytes]] = {}
    for (topic, partition), batch in batches.items():
        by_topic.setdefault(topic, {})[partition] = batch
    return by_topic


def _identity(identity: ProducerIdentity) -> bytes:
    return struct.pack(">qh", identity.id, identity.epoch)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return len(encoded).to_bytes(2, "big") + encoded


def _count(count: int) -> bytes:
    return count.to_bytes(4, "big")


def _sized(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content
