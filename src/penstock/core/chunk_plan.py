"""What of a table is left for a snapshot to read: ranges of keys, of which several are read at once.

A range is read in chunks from its beginning on. What ends a range was found by
whoever read the chunk before it, as the key that is a chunk's number of rows ahead
in the index: no table is scanned for it, and rows may come and go meanwhile, since a
range has whatever rows lie in it when it is read. Keys are in the words of whoever
reads rows; nothing here knows their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(slots=True, eq=False)
class KeyRange:
    """The rows behind the key `begin` ("" for the first row on) and up to `end` ("" for the last row).

    `is_chunk` says that it had about as many rows as one chunk when its end was found.
    """

    begin: str
    end: str
    is_chunk: bool = False
    is_taken: bool = False


class ChunkPlan:
    """The ranges that are left, in the order of their keys.

    Whoever reads one takes it; then it is done, as far as it was read, or free again.
    """

    def __init__(self, left: Sequence[tuple[str, str]]) -> None:
        """Plan what is left: pairs of `begin` and `end`."""
        self._ranges = [KeyRange(begin, end) for begin, end in left]

    def take(self, chunks_ahead: int) -> KeyRange | None:
        """Take the next chunk; or what is to be parted first, where fewer than `chunks_ahead` chunks are free."""
        free = [each for each in self._ranges if not each.is_taken]
        chunks = [each for each in free if each.is_chunk]
        wide = [each for each in free if not each.is_chunk]
        chosen = wide if wide and len(chunks) < chunks_ahead else chunks
        if not chosen:
            return None
        chosen[0].is_taken = True
        return chosen[0]

    def has(self, key_range: KeyRange) -> bool:
        """Whether nobody has read `key_range`, and it is one of this plan."""
        return any(each is key_range for each in self._ranges)

    def done(self, key_range: KeyRange, cursor: str | None, ahead: Sequence[str] = ()) -> None:
        """Note that a range is read up to the key `cursor`, None for all of it.

        `ahead` are keys in it behind `cursor`, in order, a chunk apart each.
        """
        index = next(index for index, each in enumerate(self._ranges) if each is key_range)
        bounds = [] if cursor is None else [cursor, *ahead]
        parts = [KeyRange(begin, end, is_chunk=True) for begin, end in pairwise([*bounds, key_range.end])]
        if parts:
            parts[-1].is_chunk = key_range.is_chunk
        # "" is before the first row where a range begins, and behind the last one where it ends.
        self._ranges[index : index + 1] = [part for part in parts if not part.end or part.begin != part.end]

    def left(self) -> tuple[tuple[str, str], ...]:
        """What is left, in as few ranges as can be; () for nothing."""
        merged: list[tuple[str, str]] = []
        for each in self._ranges:
            if merged and merged[-1][1] == each.begin:
                merged[-1] = merged[-1][0], each.end
            else:
                merged.append((each.begin, each.end))
        return tuple(merged)
