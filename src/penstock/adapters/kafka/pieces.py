"""Messages in pieces that the queue of Kafka's client takes, however large they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Contents: TypeAlias = "Sequence[bytes | None]"

QUEUE_MESSAGES: Final = 500_000
QUEUE_KIBIBYTES: Final = 1 << 20
PIECE_MESSAGES: Final = 5_000
PIECE_BYTES: Final = 64 << 20
ROOM_MESSAGES: Final = QUEUE_MESSAGES // 2
ROOM_BYTES: Final = QUEUE_KIBIBYTES // 4 << 10
"""So much may be in the queue when another piece comes: a client that has no room drops messages."""


def cut(keys: Contents, values: Contents) -> Iterator[tuple[Contents, Contents, int]]:
    """Yield keys and values of some messages at once, with the bytes of those values; a large message stands alone."""
    for start in range(0, len(values), PIECE_MESSAGES):
        some_keys, some = keys[start : start + PIECE_MESSAGES], values[start : start + PIECE_MESSAGES]
        size = sum(map(len, filter(None, some)))
        if size <= PIECE_BYTES:
            yield some_keys, some, size
        else:
            yield from _cut_large(some_keys, some)


def _cut_large(keys: Contents, values: Contents) -> Iterator[tuple[Contents, Contents, int]]:
    start = size = 0
    for index, value in enumerate(values):
        length = len(value or b"")
        if size + length > PIECE_BYTES and index > start:
            yield keys[start:index], values[start:index], size
            start, size = index, 0
        size += length
    yield keys[start:], values[start:], size
