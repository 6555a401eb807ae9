"""Where in the log a reader is, with whole offsets where the events have only 32 bits of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.core.mysql.types.bytes_reader import MalformedError

if TYPE_CHECKING:
    from penstock.core.mysql.events.event_frame import Header
    from penstock.core.mysql.rows.rows_columns import Bools, Int64s
    from penstock.core.positions import BinlogPosition

_FIRST_OFFSET: Final = 4
OFFSET_MASK: Final = 0xFFFF_FFFF
_BACKWARDS: Final = 1 << 31


class LogCursor:
    """The event being read, from `start` to `offset` in `file`; `rows_from` as in the position we came from.

    `file_created` is when the file was begun, Unix seconds, 0 as long as it has not said so.

    `inside` is where in a compressed transaction, uncompressed, the event begins; 0 for one on its own.
    """

    __slots__ = ("_first", "entered", "file", "file_created", "inside", "offset", "rows_from", "start")

    def __init__(self, position: BinlogPosition) -> None:
        """Begin at `position`; the bytes of a file begin at offset 4."""
        self.file = position.file
        self.file_created = 0
        self._first = max(position.offset, _FIRST_OFFSET)
        self.offset = self.start = self._first
        self.inside = 0
        self.rows_from = position.rows_from
        self.entered = False

    @property
    def rows_place(self) -> int:
        """Where rows begin, comparable with `rows_from`: it only grows within a transaction."""
        return self.start + self.inside

    def enter(self, file: str, offset: int) -> bool:
        """Take the server's word for where it begins to send; False if that is not where we want to be, or before."""
        self.entered = True
        if file != self.file or offset > self._first:
            return False
        self.offset = self.start = offset
        return True

    def change_file(self, file: str, offset: int) -> None:
        """Go to another file."""
        self.file = file
        self.file_created = 0
        self.offset = self.start = offset
        self.rows_from = self._first = 0

    def advance(self, header: Header) -> bool:
        """Move to the event with this header; False if it is from before the place we want to be.

        The header has only 32 bits of the event's end, and the server leaves out
        events that it does not send to replicas: the end is the next offset with
        these bits that leaves room for the event. Inside a transaction MariaDB 11.7
        and newer write no end at all: there the events follow one another.
        MalformedError if it goes back.
        """
        self.inside = 0
        end = self.offset + header.length
        left_out = (header.end - end) & OFFSET_MASK if header.end else 0
        if left_out >= _BACKWARDS:
            message = f"the log goes back to {header.end}"
            raise MalformedError(message)
        self.offset = end + left_out
        self.start = self.offset - header.length
        return self.start >= self._first

    @property
    def reached(self) -> bool:
        """Whether we have come to the place we want to be."""
        return self.offset >= self._first

    def ends_behind(self, lengths: Int64s, ends: Int64s) -> tuple[Int64s, Bools]:
        """Return where the events behind this place end, and whether the log goes back there, as `advance` tells.

        They have these lengths, and these ends in their headers.
        """
        through = np.cumsum(lengths)
        known = np.maximum.accumulate(np.where(ends != 0, np.arange(len(ends)), -1))
        ends_known, through_known = np.append(ends, self.offset), np.append(through, 0)
        low = (ends_known[known] + through - through_known[known]) & OFFSET_MASK
        left_out = (low - np.append(self.offset, low[:-1]) - lengths) & OFFSET_MASK
        return self.offset + through + np.cumsum(left_out), left_out >= _BACKWARDS

    def move(self, start: int, offset: int) -> None:
        """Move to the event from `start` to `offset`, which is not in a compressed transaction."""
        self.start, self.offset, self.inside = start, offset, 0

    def __str__(self) -> str:
        """`file:offset` of the event being read, and how far into a compressed transaction it is."""
        inside = f" (byte {self.inside} of the compressed transaction)" if self.inside else ""
        return f"{self.file}:{self.start}{inside}"
