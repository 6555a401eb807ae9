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

    One that `lacks` columns is a change, of a row that nobody knows.
    """

    topic: str
    partition: int
    offset: int
    value: bytes
    reason: str
    lacks: bool = False


def pack_unreadable(messages: Sequence[Unreadable]) -> bytes:
    """One block for messages."""
    said = [[m.topic, m.partition, m.offset, base64.b64encode(m.value).decode(), m.reason, m.lacks] for m in messages]
    return MARK + json.dumps(said).encode()


def split_blocks(blocks: Sequence[Block]) -> tuple[Sequence[Block], Sequence[Unreadable]]:
    """The blocks of differences, and the messages of the others in the order of their places."""
    messages = [
        Unreadable(topic, partition, offset, base64.b64decode(value), reason, lacks)
        for block in blocks
        if block[:4] == MARK
        for topic, partition, offset, value, reason, lacks in json.loads(bytes(block[4:]))
    ]
    differences = [block for block in blocks if block[:4] != MARK]
    return differences, sorted(messages, key=lambda each: (each.topic, each.partition, each.offset))
