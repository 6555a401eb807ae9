"""Rows of many ROWS events walked in lockstep: one row of every event at each step, all in numpy.

A row says only after the fact where the next one begins, but the events of a
batch know nothing of each other, so one cursor per event moves through all of
them at once. The cost is that of the steps (the rows of the longest event), not
of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.core.mysql.rows.rows_plain import OPTIONS_MAX, walk_rows
from penstock.core.mysql.types.bytes_reader import MalformedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.mysql.rows.rows_plain import Span
    from penstock.core.mysql.types.row_layout import RowLayout

Int64s: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

PADDING: Final = bytes(40)
"""What must follow the bytes that are walked: where a NULL ends them, words are still read as if a value followed.

The longest value of fixed width, a DECIMAL, has 32 bytes, and a word up to 8.
"""

_LOCKSTEP_EVENTS_MIN: Final = 12
"""With fewer events than this under way, walking them one by one in Python is faster (measured)."""


class WordViews:
    """A buffer seen as numbers of several widths, one at every byte."""

    __slots__ = ("_buffer", "u1")

    def __init__(self, buffer: bytes | memoryview) -> None:
        """Look at `buffer`."""
        self._buffer = buffer
        self.u1 = np.frombuffer(buffer, np.uint8)

    def at_every_byte(self, dtype: str) -> npt.NDArray[np.generic]:
        """Return the numbers of type `dtype` that begin at each byte; a view, without a copy."""
        kind = np.dtype(dtype)
        return np.ndarray((len(self._buffer) - kind.itemsize + 1,), kind, self._buffer, strides=(1,))


@dataclass(frozen=True, slots=True)
class Cells:
    """Where every value is. c columns (those of each image, one image after the other), n rows in log order.

    `counts`  int64[events]  the number of rows of each event
    `starts`  int64[c, n]    where the bytes of the value begin
    `lengths` int64[c, n]    how many there are; 0 for NULL
    `nulls`   bool[c, n]     whether the value is NULL
    """

    counts: Int64s
    starts: Int64s
    lengths: Int64s
    nulls: Bools


@dataclass(frozen=True, slots=True)
class _Block:
    """Some rows in the order they were found: k rows, of which `events` and `steps` tell the place."""

    events: Int64s
    steps: Int64s
    starts: Int64s
    lengths: Int64s
    nulls: Bools


def walk_events(
    buffer: bytes, begins: Int64s, ends: Int64s, images: Sequence[RowLayout], *, partial: bool = False
) -> Cells:
    """Find every value of the events whose rows, with these `images`, are at `buffer[begins:ends]`.

    PADDING follows the last. `partial` says that they are PARTIAL_UPDATE_ROWS events, of a table without JSON columns.
    Raises MalformedError, or IndexError where a length leads out of the buffer:
    the plain decoder will name the place.
    """
    active = np.flatnonzero(begins < ends)
    at = begins[active]
    blocks: list[_Block] = []
    walker = _Walker(WordViews(buffer), images, partial=partial)
    columns = sum(len(layout.cells) for layout in images)
    step = 0
    while len(active) >= _LOCKSTEP_EVENTS_MIN:
        block, at = walker.step(active, at, step)
        blocks.append(block)
        last = ends[active]
        if (at > last).any():
            message = "a row ends after its event"
            raise MalformedError(message)
        more = at < last
        active, at = active[more], at[more]
        step += 1
    for event, begin in zip(active.tolist(), at.tolist(), strict=True):
        rows = walk_rows(buffer, begin, int(ends[event]), images, partial=partial)
        blocks.append(_block_of(rows, event, step, columns))
    return _in_log_order(blocks, len(begins), columns)


class _Walker:
    """Reads one row of many events at once."""

    def __init__(self, words: WordViews, images: Sequence[RowLayout], *, partial: bool) -> None:
        self._images = images
        self._columns = sum(len(layout.cells) for layout in images)
        self._partial = partial
        self._u1 = words.u1
        self._lengths = {width: words.at_every_byte(f"<u{4 if width == 3 else width}") for width in (1, 2, 3, 4)}  # noqa: PLR2004 - three bytes are read as four

    def step(self, active: Int64s, at: Int64s, step: int) -> tuple[_Block, Int64s]:
        """Read the row at `at` of the events `active`; return it, and where each next one begins."""
        starts = np.empty((self._columns, len(at)), np.int64)
        lengths = np.empty((self._columns, len(at)), np.int64)
        nulls = np.zeros((self._columns, len(at)), np.bool_)
        after = 0
        for image, layout in enumerate(self._images):
            first, after = after, after + len(layout.cells)
            if image and self._partial:
                at = self._past_options(at)
            at = self._image(layout, at, starts[first:after], lengths[first:after], nulls[first:after])
        return _Block(active, np.full(len(active), step, np.int64), starts, lengths, nulls), at

    def _past_options(self, at: Int64s) -> Int64s:
        if (self._u1[at] > OPTIONS_MAX).any():
            message = "a row whose value options are unknown"
            raise MalformedError(message)
        return at + 1

    def _image(self, layout: RowLayout, at: Int64s, starts: Int64s, lengths: Int64s, nulls: Bools) -> Int64s:
        bitmaps = [self._u1[at + byte] for byte in range(layout.null_bytes)]
        some_null = [int(np.bitwise_or.reduce(bitmap)) for bitmap in bitmaps]
        at = at + layout.null_bytes
        ahead = 0  # Bytes of fixed cells since `at` that no event has as NULL.
        for index, cell in enumerate(layout.cells):
            byte, bit = index >> 3, index & 7
            is_null = (bitmaps[byte] >> bit & 1).astype(np.bool_) if some_null[byte] >> bit & 1 else None
            if cell.fixed_bytes and is_null is None:
                starts[index] = at + ahead
                lengths[index] = cell.fixed_bytes
                ahead += cell.fixed_bytes
                continue
            if ahead:
                at, ahead = at + ahead, 0
            if cell.fixed_bytes:
                size = np.full(len(at), cell.fixed_bytes, np.int64)
            else:
                size = self._lengths[cell.length_bytes][at].astype(np.int64)
                if cell.length_bytes == 3:  # noqa: PLR2004 - read as four bytes
                    size &= 0xFF_FFFF
            if is_null is None:
                starts[index] = at + cell.length_bytes
                lengths[index] = size
            else:
                nulls[index] = is_null
                lengths[index] = size = np.where(is_null, 0, size)
                starts[index] = at + np.where(is_null, 0, cell.length_bytes)
            at = starts[index] + size
        return at + ahead


def _block_of(rows: Sequence[Sequence[Span]], event: int, step: int, columns: int) -> _Block:
    """Take over the rest of one event, found by the plain walk, from row `step` on."""
    spans = np.array([span or (0, -1) for row in rows for span in row], np.int64).reshape(len(rows), columns, 2)
    starts, ends = spans[:, :, 0].T, spans[:, :, 1].T
    nulls = ends < 0
    return _Block(
        np.full(len(rows), event, np.int64),
        np.arange(step, step + len(rows), dtype=np.int64),
        starts,
        np.where(nulls, 0, ends - starts),
        nulls,
    )


def _in_log_order(blocks: Sequence[_Block], events: int, columns: int) -> Cells:
    """Put rows that were found step by step into the order of the log: event after event."""
    if not blocks:
        none = np.empty((columns, 0), np.int64)
        return Cells(np.zeros(events, np.int64), none, none, none.astype(np.bool_))
    event = np.concatenate([block.events for block in blocks])
    counts = np.bincount(event, minlength=events).astype(np.int64)
    place = (np.cumsum(counts) - counts)[event] + np.concatenate([block.steps for block in blocks])
    order = np.empty_like(place)
    order[place] = np.arange(len(place))
    return Cells(
        counts,
        np.concatenate([block.starts for block in blocks], axis=1).take(order, axis=1),
        np.concatenate([block.lengths for block in blocks], axis=1).take(order, axis=1),
        np.concatenate([block.nulls for block in blocks], axis=1).take(order, axis=1),
    )
