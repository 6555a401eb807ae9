"""Rows as a server sends them in answer to a SELECT, many at a time, as columns of bytes.

Sources: MariaDB Server documentation and MySQL internals, "Result Set Packets"
("Text Protocol"), "Protocol Data Types" (length-encoded strings), "ERR_Packet" and
"EOF_Packet": a row is a packet with one length-encoded string for each column, of
which the first byte is 0xFB for NULL, and 0xFC to 0xFE for a length of 2, 3 or 8 bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa

from penstock.core.mysql.types.bytes_reader import MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

Row: TypeAlias = "tuple[bytes | None, ...]"

_HEADER: Final = struct.Struct("<I")
_LENGTH_MASK: Final = 0xFF_FFFF
_NULL: Final = 0xFB
_LENGTH_BYTES: Final = {0xFC: 2, 0xFD: 3, 0xFE: 8}
_EOF, _ERROR = 0xFE, 0xFF
_EOF_BYTES_MAX: Final = 9


@dataclass(frozen=True, slots=True)
class PrintedRows:
    """Rows, as one column after the other: NULL, or the bytes that were printed."""

    columns: tuple[pa.BinaryArray, ...]

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.columns[0]) if self.columns else 0

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory they take."""
        return sum(column.nbytes for column in self.columns)

    def row(self, place: int) -> Row:
        """Return one row; counted from the end where `place` is less than 0."""
        at = place % len(self)
        return tuple(column[at].as_py() for column in self.columns)

    @classmethod
    def of(cls, rows: Sequence[Row]) -> PrintedRows:
        """Return rows that were read one by one."""
        return cls(tuple(pa.array(values, pa.binary()) for values in zip(*rows, strict=True)))

    @classmethod
    def joined(cls, parts: Iterable[PrintedRows]) -> PrintedRows:
        """Return parts of the same columns, one behind the other."""
        both = zip(*(part.columns for part in parts), strict=True)
        return cls(tuple(pa.concat_arrays(arrays) for arrays in both))


@dataclass(frozen=True, slots=True)
class RowPackets:
    """Whole packets of rows at the beginning of a buffer: where their contents begin, and where the next one does.

    `sequence` is the number that the last of them had.
    """

    starts: tuple[int, ...]
    end: int
    sequence: int


def find_rows(buffer: bytes, rows_max: int) -> RowPackets:
    """Find the packets of up to `rows_max` rows; what is no whole one, or no row, ends them.

    The packets of a row of 16 MiB and more, the end of the rows and an error are left
    to whoever reads packet by packet.
    """
    starts: list[int] = []
    at = sequence = 0
    last, read = len(buffer) - _HEADER.size, _HEADER.unpack_from
    while len(starts) < rows_max and at < last:
        (header,) = read(buffer, at)
        length, begin = header & _LENGTH_MASK, at + _HEADER.size
        first = buffer[begin]
        is_row = length != _LENGTH_MASK and first != _ERROR and (first != _EOF or length >= _EOF_BYTES_MAX)
        if not is_row or begin + length > len(buffer):
            break
        starts.append(begin)
        at, sequence = begin + length, header >> 24
    return RowPackets(tuple(starts), at, sequence)


def read_rows(buffer: bytes, packets: RowPackets, columns: int) -> PrintedRows:
    """Return the rows in `packets` of `buffer`, which have so many columns. Raises MalformedError for others."""
    data = np.frombuffer(buffer, np.uint8)
    at = np.array(packets.starts, np.int64)
    ends = np.append(at[1:] - _HEADER.size, packets.end)
    read: list[pa.BinaryArray] = []
    for _ in range(columns):
        if (at >= ends).any():
            message = "a row of the server ends before its last column"
            raise MalformedError(message)
        begins, lengths, is_null = _values_at(data, at)
        if (lengths > ends - begins).any():
            message = "a value of the server ends behind its row"
            raise MalformedError(message)
        at = begins + lengths
        read.append(_gathered(buffer, begins, at, is_null))
    if (at != ends).any():
        message = "a row of the server does not end with its last column"
        raise MalformedError(message)
    return PrintedRows(tuple(read))


def _values_at(
    data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return where length-encoded strings that stand `at` begin, how long they are, and which are NULL."""
    first = data[at]
    lengths, begins, is_null = first.astype(np.int64), at + 1, first == _NULL
    if (first > _NULL).any():
        for said, count in _LENGTH_BYTES.items():
            chosen = np.flatnonzero(first == said)
            places = at[chosen, None] + np.arange(1, count + 1)
            shifts = np.arange(count, dtype=np.int64) * 8
            # What would be read beyond the buffer makes a length beyond the row's end, or a begin.
            lengths[chosen] = (data.take(places, mode="clip").astype(np.int64) << shifts).sum(axis=1)
            begins[chosen] += count
        # No length begins like an error.
        lengths[first == _ERROR] = len(data)
    lengths[is_null] = 0
    # Of 8 bytes the last one may be taken for a sign.
    lengths[lengths < 0] = len(data)
    return begins, lengths, is_null


def _gathered(
    buffer: bytes, begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], is_null: npt.NDArray[np.bool_]
) -> pa.BinaryArray:
    """Return what is between `begins` and `ends`, without a step of Python for each value.

    An array of the values and of what is between them needs no copy; the values are taken of it.
    """
    offsets = np.empty(2 * len(begins), np.int32)
    offsets[0::2], offsets[1::2] = begins, ends
    buffers: list[Any] = [None, pa.py_buffer(offsets.data), pa.py_buffer(buffer)]
    whole = pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)
    wanted: pa.Int32Array = pa.array(np.arange(0, len(offsets), 2, dtype=np.int32), pa.int32(), mask=is_null)
    return cast("pa.BinaryArray", whole.take(wanted))
