"""Reads the same field of many messages at once: one cursor per message, all of them moved field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.core.errors import START_ANEW, CorruptLogError

if TYPE_CHECKING:
    from penstock.core.avro.arrays import Flags, Integers, Octets, Unsigned

_PADDING_BYTES: Final = 16
_TOP_BITS: Final = np.uint64(0x8080808080808080)
_INT_BITS: Final = 32
_LOW_7: Final = np.uint8(0x7F)


@dataclass(frozen=True, slots=True)
class Spans:
    """Where the bytes of one field of every message are: `lengths[i]` bytes from `begins[i]` on."""

    begins: Integers
    lengths: Integers


class Cursors:
    """One cursor per message, over the bytes of all of them.

    Every `read_` moves the cursors of the messages that are `valid` (None: all)
    and answers for all messages; what it answers for the others means nothing.
    Raises CorruptLogError, with the index of the message and the field, for bytes
    that do not decode.
    """

    def __init__(self, octets: Octets, begins: Integers, ends: Integers, first: int = 0, count: int = 0) -> None:
        """Start at `begins`; message i ends before `ends[i]`. The offsets are into `octets`, and ascend.

        Errors call the messages `first`, `first` + 1 ... of `count`; 0 for that these are all.
        """
        self.octets = np.concatenate([octets, np.zeros(_PADDING_BYTES, dtype=np.uint8)])
        places = len(octets) + _PADDING_BYTES - 7
        # Eight bytes at any byte. As opaque values they are gathered faster than as integers that are not aligned.
        self._words = np.ndarray((places,), np.dtype("V8"), self.octets.data, strides=(1,))
        self._at = begins.copy()
        self._ends = ends
        self._messages: Integers = np.arange(first, first + len(begins), dtype=np.int64)
        self._count = count or len(begins)

    def __len__(self) -> int:
        """How many cursors there are."""
        return len(self._at)

    def chosen(self, flags: Flags) -> Cursors:
        """Return cursors of their own for the messages in `flags`; `rejoin` takes them back."""
        part = object.__new__(Cursors)
        part.octets, part._words = self.octets, self._words
        part._at, part._ends, part._messages = self._at[flags], self._ends[flags], self._messages[flags]
        part._count = self._count
        return part

    def rejoin(self, part: Cursors, flags: Flags) -> None:
        """Move on to where the cursors that `chosen(flags)` gave have come."""
        self._at[flags] = part._at

    def places(self) -> Integers:
        """Where the cursors are, for `go_to`."""
        return self._at.copy()

    def go_to(self, places: Integers) -> None:
        """Put the cursors where `places` says."""
        self._at = places.copy()

    def words(self, places: Integers) -> Unsigned:
        """Return the eight bytes at each of `places` as little-endian integers."""
        return self._words[places].view(np.dtype("<u8"))

    def read_branches(self, field: str) -> Flags:
        """Read which branch of a union with null each message has: whether there is a value."""
        branches = self.octets[self._at]
        self._forward(np.ones(len(self), dtype=np.int64), None, field)
        self.require((branches == 0) | (branches == 2), field, "its union has no such branch")  # noqa: PLR2004 - 1 in zig-zag
        there: Flags = branches != 0
        return there

    def read_numbers(self, valid: Flags | None, field: str, bits: int = 64) -> Integers:
        """Read an int (32 bits) or a long (64 bits) of every message."""
        words = self.words(self._at)
        stops = ~words & _TOP_BITS
        through: Unsigned = stops ^ (stops - np.uint64(1))
        lengths = (np.bitwise_count(through) >> 3).astype(np.int64)
        zigzag = _without_top_bits(np.bitwise_and(words, through))
        more = stops == 0
        if more.any():
            self._read_long(np.flatnonzero(more if valid is None else more & valid), zigzag, lengths, field)
        self._forward(lengths, valid, field)
        numbers = (zigzag >> np.uint64(1)).view(np.int64) ^ -(zigzag & np.uint64(1)).view(np.int64)
        if bits == _INT_BITS:
            self.require_all((numbers >> (_INT_BITS - 1)) == (numbers >> 63), valid, field, "it is no int")
        return numbers

    def pass_numbers(self, valid: Flags | None, field: str) -> None:
        """Pass over an int or a long of every message."""
        stops = ~self.words(self._at) & _TOP_BITS
        lengths = (np.bitwise_count(stops ^ (stops - np.uint64(1))) >> 3).astype(np.int64)
        more = stops == 0
        if more.any():
            those = np.flatnonzero(more if valid is None else more & valid)
            self._read_long(those, np.zeros(len(self), np.uint64), lengths, field)
        self._forward(lengths, valid, field)

    def read_spans(self, valid: Flags | None, field: str) -> Spans:
        """Read the length of a string or of bytes and pass over its content; empty where not valid."""
        lengths = self._read_lengths(valid, field)
        if valid is not None:
            lengths *= valid
        self.require((lengths >= 0) & (lengths <= self._ends - self._at), field, "it is longer than the message")
        begins = self._at.copy()
        self._at += lengths
        return Spans(begins, lengths)

    def read_blocks(self, item_bytes: int, valid: Flags | None, field: str) -> Spans:
        """Read an array that is one block of items of `item_bytes`, or none; return where the items are."""
        counts = self.read_numbers(valid, field)
        if valid is not None:
            counts *= valid
        room = (self._ends - self._at) // item_bytes
        self.require((counts >= 0) & (counts <= room), field, "it is longer than the message")
        begins, lengths = self._at.copy(), counts * item_bytes
        self._at += lengths
        has_end = counts > 0
        ends = self.read_numbers(has_end, field)
        self.require_all(ends == 0, has_end, field, "it has several blocks, or no end")
        return Spans(begins, lengths)

    def read_fixed(self, octets: int, valid: Flags | None, field: str) -> Unsigned:
        """Read `octets` (4 or 8) bytes of every message as a little-endian integer."""
        words = self.words(self._at)
        self._forward(np.full(len(self), octets, dtype=np.int64), valid, field)
        return words & np.uint64(0xFFFFFFFF) if octets == 4 else words  # noqa: PLR2004 - the width of a float

    def finish(self) -> None:
        """Check that every message is read to its end."""
        self.require(self._at == self._ends, "its end", "bytes are left over")

    def require(self, fits: Flags, field: str, reason: str) -> None:
        """Raise CorruptLogError for the first message that does not fit."""
        if not fits.all():
            message = int(self._messages[np.flatnonzero(~fits)[0]])
            text = f"message {message} of {self._count} does not decode at {field}: {reason}"
            raise CorruptLogError(text, f"let only Penstock write to this topic; then {START_ANEW}")

    def require_all(self, fits: Flags, valid: Flags | None, field: str, reason: str) -> None:
        """Do as `require`, of the messages that are valid."""
        self.require(fits if valid is None else fits | ~valid, field, reason)

    def _read_lengths(self, valid: Flags | None, field: str) -> Integers:
        """Read a long of every message, quicker where each is a single byte, as those of short texts are."""
        first = self.octets[self._at]
        if first.max(initial=0) > _LOW_7:
            return self.read_numbers(valid, field)
        self._forward(np.ones(len(self), dtype=np.int64), valid, field)
        return (first >> 1).astype(np.int64) ^ -(first & 1).astype(np.int64)

    def _forward(self, lengths: Integers, valid: Flags | None, field: str) -> None:
        self._at += lengths if valid is None else lengths * valid
        self.require(self._at <= self._ends, field, "the message ends before it")

    def _read_long(self, those: Integers, zigzag: Unsigned, lengths: Integers, field: str) -> None:
        """Add the ninth and the tenth byte to the varints of `those` messages."""
        ninth, tenth = self.octets[self._at[those] + 8], self.octets[self._at[those] + 9]
        ten = ninth > _LOW_7
        fits = np.ones(len(self), dtype=np.bool_)
        fits[those] = ~ten | (tenth <= 1)
        self.require(fits, field, "it is longer than 64 bits")
        zigzag[those] |= (ninth & _LOW_7).astype(np.uint64) << np.uint64(56)
        zigzag[those] |= (tenth * ten).astype(np.uint64) << np.uint64(63)
        lengths[those] = 9 + ten


def _without_top_bits(varints: Unsigned) -> Unsigned:
    """Put the low seven bits of all eight bytes together."""
    sevens = varints & ~_TOP_BITS
    pairs = (sevens & np.uint64(0x007F007F007F007F)) | ((sevens & np.uint64(0x7F007F007F007F00)) >> np.uint64(1))
    fours = (pairs & np.uint64(0x00003FFF00003FFF)) | ((pairs & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
    return (fours & np.uint64(0x000000000FFFFFFF)) | ((fours & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))
