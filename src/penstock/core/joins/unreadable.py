"""Messages of inputs that cannot be read, on their way past the join to its dead letters."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Block: TypeAlias = "bytes | memoryview"

BUCKET: Final = -1
"""The bucket of their blocks, which the kernel gives back as they are."""

MARK: Final = (-1).to_bytes(4, "little", signed=True)
"""Stands where a block of differences has its count."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message that is no change of its input, and why.

    One that `lacks` columns is a change, of a row that nobody knows. Of a tombstone, which
    has no `value`, there is the `key`.
    """

    topic: str
    partition: int
    offset: int
    value: bytes | None
    reason: str
    lacks: bool = False
    key: bytes | None = None


def pack_unreadable(messages: Sequence[Unreadable]) -> bytes:
    """One block for messages."""
    said = [[m.topic, m.partition, m.offset, _to_text(m.value), m.reason, m.lacks, _to_text(m.key)] for m in messages]
    return MARK + json.dumps(said).encode()


def split_blocks(blocks: Sequence[Block]) -> tuple[Sequence[Block], Sequence[Unreadable]]:
    """The blocks of differences, and the messages of the others in the order of their places."""
    messages = [
        Unreadable(topic, partition, offset, _from_text(value), reason, lacks, _from_text(key))
        for block in blocks
        if block[:4] == MARK
        for topic, partition, offset, value, reason, lacks, key in json.loads(bytes(block[4:]))
    ]
    differences = [block for block in blocks if block[:4] != MARK]
    return differences, sorted(messages, key=lambda each: (each.topic, each.partition, each.offset))


def _to_text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _from_text(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
