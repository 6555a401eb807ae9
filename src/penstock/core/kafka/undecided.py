"""Transactions that a broker's partition takes for open: requests that ask for them, and what says how they ended.

Source: Apache Kafka documentation, "Protocol": DescribeProducers and WriteTxnMarkers
of KIP-664 and KIP-98, in the compact form of KIP-482; KIP-98 for the values of
`__transaction_state`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock.core.kafka.requests import Answer, Api

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.core.kafka.requests import Place

DESCRIBE_PRODUCERS: Final = Api(61, 0)
WRITE_MARKERS: Final = Api(27, 1)

_NO_TAGS: Final = b"\0"
_STATE: Final = struct.Struct(">hqhib")
_VERSION: Final = 1
_ONGOING: Final = 1
_PREPARED: Final = {2: True, 3: False}
"""States in which it is decided whether a transaction is committed, and its markers are yet to be written."""
_COMPLETE: Final = (4, 5)


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """What a partition knows of a transaction that has messages in it and no marker."""

    producer_id: int
    epoch: int
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class Ending:
    """How a transaction ends: `epoch` is that of its markers, all of which are written by its coordinator's account."""

    committed: bool
    epoch: int
    is_complete: bool = False


def ask_producers(topic: str, partition: int) -> bytes:
    """Ask which producers a partition knows; in the compact form, with the end of the header ahead."""
    parts = (_NO_TAGS, _count(1), _text(topic), _count(1), partition.to_bytes(4, "big"), _NO_TAGS, _NO_TAGS)
    return b"".join(parts)


def read_open(answer: Answer) -> tuple[int, Sequence[OpenTransaction]]:
    """Return the error code of the one partition that was asked about, and the transactions that are open in it."""
    answer.take(len(_NO_TAGS))
    answer.integer(4)
    code, found = 0, []
    for _ in _entries(answer):
        answer.take(_varint(answer) - 1)
        for _ in _entries(answer):
            answer.integer(4)
            code = answer.integer(2)
            answer.take(max(0, _varint(answer) - 1))
            for _ in _entries(answer):
                producer_id, epoch = answer.integer(8), answer.integer(4)
                answer.take(4 + 8)
                coordinator_epoch, start = answer.integer(4), answer.integer(8)
                answer.take(len(_NO_TAGS))
                if start >= 0:
                    found.append(OpenTransaction(producer_id, epoch, max(0, coordinator_epoch)))
            answer.take(len(_NO_TAGS))
        answer.take(len(_NO_TAGS))
    return code, found


def write_marker(topic: str, partition: int, transaction: OpenTransaction, ending: Ending) -> bytes:
    """End a transaction in one partition, as its coordinator would; in the compact form."""
    marker = struct.pack(">qhb", transaction.producer_id, ending.epoch, ending.committed)
    place = _text(topic) + _count(1) + partition.to_bytes(4, "big") + _NO_TAGS
    coordinator = transaction.coordinator_epoch.to_bytes(4, "big")
    return b"".join((_NO_TAGS, _count(1), marker, _count(1), place, coordinator, _NO_TAGS, _NO_TAGS))


def read_marked(answer: Answer) -> int:
    """Return the error code of the one marker that was written."""
    answer.take(len(_NO_TAGS))
    code = 0
    for _ in _entries(answer):
        answer.integer(8)
        for _ in _entries(answer):
            answer.take(_varint(answer) - 1)
            for _ in _entries(answer):
                answer.integer(4)
                code = answer.integer(2)
                answer.take(len(_NO_TAGS))
            answer.take(len(_NO_TAGS))
        answer.take(len(_NO_TAGS))
    return code


def find_ending(states: Iterable[bytes], place: Place, transaction: OpenTransaction) -> Ending | None:
    """Return how a transaction ends that is open in `place`, by the values of `__transaction_state` in their order.

    None where that is not decided, or where nothing says it.
    """
    ending = None
    for value in states:
        version, producer_id, epoch, _, state = _STATE.unpack_from(value)
        if version != _VERSION or producer_id != transaction.producer_id or epoch < transaction.epoch:
            continue
        if ending is not None and state in _COMPLETE:
            ending = replace(ending, is_complete=True)
        elif (state == _ONGOING or state in _PREPARED) and place in _places(value):
            ending = Ending(_PREPARED[state], epoch) if state in _PREPARED else None
    return ending


def _places(value: bytes) -> set[Place]:
    """The partitions that are in a transaction."""
    answer, found = Answer(value), set()
    answer.take(_STATE.size)
    for _ in _entries(answer):
        topic = answer.take(_varint(answer) - 1).decode()
        found |= {(topic, answer.integer(4)) for _ in _entries(answer)}
        answer.take(len(_NO_TAGS))
    return found


def _text(text: str) -> bytes:
    octets = text.encode()
    return _count(len(octets)) + octets


def _count(count: int) -> bytes:
    """Render how many entries or bytes follow, as a varint of one more."""
    left, octets = count + 1, bytearray()
    while left >= 0x80:  # noqa: PLR2004 - seven bits in each byte
        octets.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*octets, left])


def _varint(answer: Answer) -> int:
    found, shift = 0, 0
    while True:
        octet = answer.take(1)[0]
        found |= (octet & 0x7F) << shift
        if octet < 0x80:  # noqa: PLR2004 - the last one
            return found
        shift += 7


def _entries(answer: Answer) -> range:
    return range(max(0, _varint(answer) - 1))
