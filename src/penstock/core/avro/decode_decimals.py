"""Reads Avro's decimals, big-endian in two's complement, into Arrow's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.core.arrow_types import arrow_type

if TYPE_CHECKING:
    from penstock.core.avro.arrays import Flags, Integers, Unsigned
    from penstock.core.avro.lockstep import Cursors, Spans
    from penstock.core.tables import Column

_WORD_BYTES = 8
_NO_BYTES = "a decimal has no bytes"


def read_unscaled(cursors: Cursors, spans: Spans, valid: Flags | None, column: Column) -> Unsigned:
    """Return the unscaled values, uint64[n, w], two's complement with the lowest word first.

    w is that of the column's Arrow type: 2 for decimal128, 4 for decimal256.
    Raises CorruptLogError for a value of no bytes, or of more than w words hold.
    """
    words = arrow_type(column.type).bit_width // 64
    cursors.require_all(spans.lengths > 0, valid, column.name, _NO_BYTES)
    if int(spans.lengths.max(initial=0)) <= _WORD_BYTES:
        low = _leading(cursors, spans.begins).view(np.int64) >> _shifts(spans.lengths)
        return np.stack([low, *[low >> 63] * (words - 1)], axis=1).view(np.uint64)
    fits = spans.lengths <= words * _WORD_BYTES
    cursors.require_all(fits, valid, column.name, f"a decimal has more than {words * _WORD_BYTES} bytes")
    return _wide(cursors, spans, words * _WORD_BYTES)


def read_unsigned(cursors: Cursors, spans: Spans, valid: Flags | None, field: str) -> Unsigned:
    """Return values of 64 bits without a sign, uint64[n]; CorruptLogError for a value that is none."""
    first = cursors.octets[spans.begins]
    nine = spans.lengths == _WORD_BYTES + 1
    cursors.require_all(spans.lengths > 0, valid, field, _NO_BYTES)
    fits = np.where(nine, first == 0, (first >> 7 == 0) & (spans.lengths <= _WORD_BYTES))
    cursors.require_all(fits, valid, field, "it is no unsigned integer of 64 bits")
    lengths = np.minimum(spans.lengths, _WORD_BYTES)
    return _leading(cursors, spans.begins + nine) >> _shifts(lengths).view(np.uint64)


def _leading(cursors: Cursors, begins: Integers) -> Unsigned:
    """Read eight bytes, of which the value is the first few."""
    return cursors.words(begins).byteswap()


def _shifts(lengths: Integers) -> Integers:
    """Return the bits behind a value of one to eight bytes; those of a null mean nothing, but are in range."""
    return 64 - 8 * np.maximum(lengths, 1)


def _wide(cursors: Cursors, spans: Spans, width: int) -> Unsigned:
    """Read each value from its last byte back to its first, and go on with its sign up to `width` bytes."""
    begins = spans.begins[:, np.newaxis]
    places = begins + spans.lengths[:, np.newaxis] - 1 - np.arange(width)
    sign = (cursors.octets[begins] >> 7) * np.uint8(0xFF)
    octets = np.where(places >= begins, cursors.octets[np.maximum(places, begins)], sign)
    return np.ascontiguousarray(octets).view(np.uint64)
