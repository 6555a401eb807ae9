"""Whole columns at once: Arrow arrays from where a column's values are in a buffer.

The formats are those of `values`, with its sources. A function here returns None
when it has no fast way for a column or finds a value that cannot be carried; the
plain reading then does the column, or names the value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from penstock.core.mysql.types.charsets import has_ascii, is_utf8
from penstock.core.mysql.types.packed_values import decimal_groups
from penstock.core.mysql.types.special_values import set_text
from penstock.core.tables import (
    BitType,
    BytesType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    SetType,
    TextType,
    TimestampType,
    TimeType,
    VectorType,
    YearType,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from penstock.core.mysql.rows.rows_columns import Bools, Int64s, WordViews
    from penstock.core.mysql.rows.rows_plain import ArrowArray
    from penstock.core.mysql.types.row_layout import Cell

_INT64_DIGITS: Final = 18
_DECIMAL128_DIGITS: Final = 38
_MONTH_DAYS: Final = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0, 0, 0], np.int64)
_SECOND: Final = 1_000_000
_PAIR_MICROSECONDS: Final = (1_000_000, 10_000, 100, 1)
_SIGN_24: Final = 1 << 23
_FLOAT_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class ColumnBytes:
    """Where the n values of one column are: int64[n], int64[n] and bool[n], as in `rows_columns.Cells`."""

    words: WordViews
    starts: Int64s
    lengths: Int64s
    nulls: Bools

    def word(self, dtype: str, offset: int = 0) -> npt.NDArray[np.generic]:
        """Return the number of type `dtype` that stands `offset` bytes behind the start of each value."""
        return self.words.at_every_byte(dtype)[self.starts + offset if offset else self.starts]

    def little(self, width: int) -> Int64s:
        """Return the little-endian unsigned number of `width` bytes (at most 4) of each value."""
        numbers = self.word("<u4").astype(np.int64)
        return numbers & ((1 << 8 * width) - 1)

    def big(self, width: int, offset: int = 0) -> Int64s:
        """Return the big-endian unsigned number of `width` bytes (at most 4) that stands `offset` bytes behind."""
        numbers = self.word(">u4", offset).astype(np.int64)
        return numbers >> (32 - 8 * width)

    def array(self, type_: pa.DataType, values: npt.NDArray[np.generic]) -> ArrowArray:
        """Return the Arrow array of n fixed-width values, whose memory `values` is."""
        validity, null_count = self.validity()
        buffers = [validity, pa.py_buffer(np.ascontiguousarray(values).data)]
        return pa.Array.from_buffers(type_, len(self.starts), buffers, null_count)

    def validity(self) -> tuple[pa.Buffer | None, int]:
        """Return Arrow's validity bitmap, None if no value is NULL, and how many are."""
        null_count = int(self.nulls.sum())
        return (pa.py_buffer(np.packbits(~self.nulls, bitorder="little").data) if null_count else None), null_count


def vector_column(cell: Cell, type_: pa.DataType, data: ColumnBytes) -> ArrowArray | None:  # noqa: PLR0912, C901, PLR0911 - one return per member of the union
    """Return the column, or None: see the module; `type_` is the column's in `arrow_types`."""
    if cell.compressed or _may_be_two_keys(cell):
        return None
    match cell.column.type:
        case IntegerType(24, unsigned):
            numbers = data.little(3)
            return data.array(type_, (numbers if unsigned else (numbers ^ _SIGN_24) - _SIGN_24).astype(np.int32))
        case IntegerType(bits, unsigned):
            return data.array(type_, data.word(f"<{'u' if unsigned else 'i'}{bits // 8}"))
        case BitType():
            return data.array(type_, _bits(data, cell.fixed_bytes).astype(f"u{type_.bit_width // 8}"))
        case FloatType(bits):
            return data.array(type_, data.word(f"<f{bits // 8}"))
        case DecimalType(precision, scale):
            return _decimals(data, type_, precision, scale)
        case TextType(charset=charset):
            return _texts(data, charset)
        case BytesType(bytes_max, fixed):
            return _padded(data, bytes_max) if fixed else _binaries(data)
        case DateType():
            packed = data.little(3)
            days = _days(packed >> 9, packed >> 5 & 15, packed & 31, data.nulls)
            return None if days is None else data.array(type_, days.astype(np.int32))
        case TimeType(digits):
            return None if cell.old_format else _times(data, type_, digits)
        case DateTimeType(digits):
            return None if cell.old_format else _datetimes(data, type_, digits)
        case TimestampType(digits):
            return None if cell.old_format else _timestamps(data, type_, digits)
        case YearType():
            years = data.little(1)
            return data.array(type_, np.where(years == 0, 0, years + 1900).astype(np.int16))
        case EnumType(labels):
            return _enums(data, cell.fixed_bytes, labels)
        case SetType(labels):
            return _sets(data, cell.fixed_bytes, labels)
        case VectorType():
            return _float_lists(data, type_)
        case _:
            return None


def _decimals(data: ColumnBytes, type_: pa.DataType, precision: int, scale: int) -> ArrowArray | None:
    groups = []
    offset = 0
    first = True
    negative = data.big(1) < 0x80  # noqa: PLR2004 - the sign bit
    for digits, width in decimal_groups(precision, scale):
        group = data.big(width, offset)
        if first:
            group ^= 1 << (8 * width - 1)
            first = False
        group = np.where(negative, group ^ ((1 << 8 * width) - 1), group)
        if ((group >= 10**digits) & ~data.nulls).any():
            return None
        groups.append((10**digits, group))
        offset += width
    if precision <= _INT64_DIGITS:
        return data.array(type_, _in_128_bits(groups, negative))
    words = 4 if precision <= _DECIMAL128_DIGITS else 8
    return data.array(type_, _in_words(groups, negative, words))


def _in_128_bits(groups: list[tuple[int, Int64s]], negative: Bools) -> Int64s:
    """Put groups that fit in 64 bits together as two's complement of 128 bits, little-endian: int64[n, 2]."""
    value = np.zeros(len(negative), np.int64)
    for factor, group in groups:
        value = value * factor + group
    value = np.where(negative, -value, value)
    return np.stack([value, value >> 63], axis=1)


def _in_words(groups: list[tuple[int, Int64s]], negative: Bools, count: int) -> npt.NDArray[np.uint32]:
    """Put groups together as two's complement in `count` words of 32 bits, little-endian: uint32[n, count]."""
    words = np.zeros((count, len(negative)), np.uint64)
    for factor, group in groups:
        carry = group.astype(np.uint64)
        for word in words:
            product = word * np.uint64(factor) + carry
            word[:] = product & np.uint64(0xFFFF_FFFF)
            carry = product >> np.uint64(32)
    carry = negative.astype(np.uint64)
    for word in words:
        inverted = np.where(negative, word ^ np.uint64(0xFFFF_FFFF), word) + carry
        word[:] = inverted & np.uint64(0xFFFF_FFFF)
        carry = inverted >> np.uint64(32)
    return words.astype(np.uint32).T


def _binaries(data: ColumnBytes) -> ArrowArray:
    """Copy values of any length out of the buffer.

    One binary array over the whole buffer, with the offsets start, end, start,
    end, ..., has the values at its even places and what is between them at its
    odd ones; `take` keeps the even ones.
    """
    count = len(data.starts)
    ends = data.starts + data.lengths
    starts = data.starts
    has_nulls = bool(data.nulls.any())
    if has_nulls:
        ends = np.maximum.accumulate(ends)
        starts = np.where(data.nulls, ends, starts)
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0:-1:2], offsets[1::2] = starts, ends
    offsets[-1] = ends[-1] if count else 0
    all_bytes = pa.py_buffer(data.words.u1.data)
    everything = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets.data), all_bytes])
    even = np.arange(0, 2 * count, 2, dtype=np.int32)
    return everything.take(pa.array(even, pa.int32(), mask=data.nulls if has_nulls else None))


def _texts(data: ColumnBytes, charset: str) -> ArrowArray | None:
    binaries = _binaries(data)
    if not is_utf8(charset) and not (has_ascii(charset) and _is_ascii(binaries)):
        return None
    try:
        return binaries.cast(pa.string())
    except pa.ArrowInvalid:
        return None


def _is_ascii(binaries: ArrowArray) -> bool:
    """Whether no byte of a fresh binary array is over 127."""
    content = binaries.buffers()[2]
    return content is None or not (np.frombuffer(memoryview(content), np.uint8) & 0x80).any()


def _padded(data: ColumnBytes, width: int) -> ArrowArray:
    """Give values back the NULs at their end, which the server does not log."""
    count = len(data.starts)
    content = np.zeros((count, width), np.uint8)
    for index in range(int(data.lengths.max(initial=0))):
        rows = np.flatnonzero(data.lengths > index)
        content[rows, index] = data.words.u1[data.starts[rows] + index]
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    validity, null_count = data.validity()
    return pa.Array.from_buffers(
        pa.binary(), count, [validity, pa.py_buffer(offsets.data), pa.py_buffer(content.data)], null_count
    )


def _datetimes(data: ColumnBytes, type_: pa.DataType, digits: int) -> ArrowArray | None:
    packed = (data.big(4) << 8 | data.big(1, 4)) - (1 << 39)
    months = packed >> 22
    days = _days(months // 13, months % 13, packed >> 17 & 31, data.nulls)
    hour, minute, second = packed >> 12 & 31, packed >> 6 & 63, packed & 63
    fraction = _fractions(data, 5, digits)
    bad = (packed < 0) | (hour > 23) | (minute > 59) | (second > 59) | (fraction >= _SECOND)  # noqa: PLR2004 - the clock's
    if days is None or (bad & ~data.nulls).any():
        return None
    return data.array(type_, (days * 86_400 + hour * 3600 + minute * 60 + second) * _SECOND + fraction)


def _timestamps(data: ColumnBytes, type_: pa.DataType, digits: int) -> ArrowArray | None:
    fraction = _fractions(data, 4, digits)
    microseconds = data.big(4) * _SECOND + fraction
    bad = (microseconds == 0) | (fraction >= _SECOND)
    return None if (bad & ~data.nulls).any() else data.array(type_, microseconds)


def _fractions(data: ColumnBytes, offset: int, digits: int) -> Int64s:
    """Return microseconds."""
    pairs = (digits + 1) // 2
    if not pairs:
        return np.zeros(len(data.starts), np.int64)
    return data.big(pairs, offset) * _PAIR_MICROSECONDS[pairs]


def _days(year: Int64s, month: Int64s, day: Int64s, nulls: Bools) -> Int64s | None:
    """Return days since 1970 by the proleptic Gregorian calendar; None if one of them is no date.

    Counted as in Howard Hinnant's "chrono-Compatible Low-Level Date Algorithms"
    (`days_from_civil`): years begin in March, so that the leap day is their last.
    """
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    last = _MONTH_DAYS[month] + (leap & (month == 2))  # noqa: PLR2004 - February
    bad = (year < 1) | (year > 9999) | (day < 1) | (day > last)  # noqa: PLR2004 - the calendar's
    if (bad & ~nulls).any():
        return None
    shifted = year - (month <= 2)  # noqa: PLR2004 - January and February
    year_day = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days: Int64s = shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400 + year_day - 719_468
    return days


def _times(data: ColumnBytes, type_: pa.DataType, digits: int) -> ArrowArray | None:
    pairs = (digits + 1) // 2
    packed = data.big(3) - _SIGN_24 << 8 * pairs
    if pairs:
        packed += data.big(pairs, 3)
    magnitude = np.abs(packed)
    clock = magnitude >> 8 * pairs
    fraction = (magnitude & (1 << 8 * pairs) - 1) * _PAIR_MICROSECONDS[pairs] * bool(pairs)
    minute, second = clock >> 6 & 63, clock & 63
    if (((minute > 59) | (second > 59) | (fraction >= _SECOND)) & ~data.nulls).any():  # noqa: PLR2004 - the clock's
        return None
    span = ((clock >> 12) * 3600 + minute * 60 + second) * _SECOND + fraction
    return data.array(type_, np.where(packed < 0, -span, span))


def _bits(data: ColumnBytes, width: int) -> npt.NDArray[np.uint64]:
    """Return the big-endian unsigned number of `width` bytes of each value."""
    return data.word(">u8").astype(np.uint64) >> np.uint64(64 - 8 * width)


def _sets(data: ColumnBytes, width: int, labels: tuple[str, ...]) -> ArrowArray | None:
    mask = np.uint64((1 << 8 * width) - 1)
    found, places = np.unique(data.word("<u8").astype(np.uint64) & mask, return_inverse=True)
    known = (1 << len(labels)) - 1
    texts = [set_text(int(bits) & known, labels) for bits in found]
    if ((found > np.uint64(known))[places] & ~data.nulls).any():
        return None
    return pa.array(texts, pa.string()).take(pa.array(places, pa.int64(), mask=data.nulls))


def _float_lists(data: ColumnBytes, type_: pa.DataType) -> ArrowArray | None:
    if (data.lengths % _FLOAT_BYTES).any():
        return None
    binaries = _binaries(data)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(data.lengths)]) // _FLOAT_BYTES
    content = binaries.buffers()[2] or pa.py_buffer(b"")
    floats = pa.Array.from_buffers(pa.float32(), int(offsets[-1]), [None, content])
    validity, null_count = data.validity()
    buffers = [validity, pa.py_buffer(offsets.astype(np.int32).data)]
    return pa.Array.from_buffers(type_, len(binaries), buffers, null_count, children=[floats])


def _may_be_two_keys(cell: Cell) -> bool:
    """Whether two values of a key may print alike: the plain reading tells them apart."""
    if not cell.in_key or not isinstance(cell.column.type, EnumType | SetType):
        return False
    labels = cell.column.type.labels
    return "" in labels or len(set(labels)) < len(labels)


def _enums(data: ColumnBytes, width: int, labels: tuple[str, ...]) -> ArrowArray | None:
    index = data.little(width)
    if ((index > len(labels)) & ~data.nulls).any():
        return None
    return pa.array(("", *labels), pa.string()).take(pa.array(index, pa.int64(), mask=data.nulls))
