r"""Rows as PostgreSQL's COPY reads them: CSV, in which an unquoted nothing is NULL.

The dialect is that of COPY with FORMAT csv (PostgreSQL documentation, "COPY"),
input formats those of its "Data Types": `\x` and hexadecimal digits for bytea,
`{1,2}` for an array, `-3020399 s -999999 us` for an interval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from penstock.core.printed_arrays import hexadecimal, joined, with_commas

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROWS_AT_ONCE = 16_384
_MICROS = 1_000_000


def render_csv(rows: pa.Table) -> Iterator[memoryview]:
    """Yield `rows` as CSV without a header, in UTF-8, some at a time: PostgreSQL reads them while we print more."""
    options = pyarrow.csv.WriteOptions(include_header=False, batch_size=_ROWS_AT_ONCE, quoting_style="needed")
    for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
        columns = [_printable(column.combine_chunks()) for column in rows.slice(start, _ROWS_AT_ONCE).columns]
        sink = pa.BufferOutputStream()
        pyarrow.csv.write_csv(pa.table(columns, names=[str(n) for n in range(len(columns))]), sink, options)
        yield memoryview(sink.getvalue())


def _printable(array: pa.Array[Any]) -> pa.Array[Any]:
    """Return `array` so that its CSV is what PostgreSQL reads; most types are that already."""
    if isinstance(array, pa.BinaryArray):
        return joined("\\x", hexadecimal(array), "")
    if isinstance(array, pa.DurationArray):
        return _interval(array)
    if isinstance(array, pa.ListArray):
        return joined("{", with_commas(array), "}")
    return array


def _interval(array: pa.DurationArray[Any]) -> pa.Array[Any]:
    """Return durations as text with two numbers, each with its sign, as a server before 15 reads no larger ones."""
    micros = array.cast(pa.int64())
    # What is left has the sign of the whole: integers are divided towards zero.
    seconds = pc.divide(micros, _MICROS)
    left = pc.subtract(micros, pc.multiply(seconds, _MICROS))
    parts = [joined("", seconds, " s"), joined("", left, " us"), pa.scalar(" ", pa.large_string())]
    together: pa.Array[Any] = pc.binary_join_element_wise(*parts)  # type: ignore[call-overload]
    return together
