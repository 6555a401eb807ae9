r"""The one CSV that batch files are written in, such that COPY of Redshift, Snowflake and PostgreSQL reads it too.

RFC 4180 with `\n` between rows and no header: commas, and quotes that are
doubled inside of quotes; nothing is escaped by a backslash. Every text is in
quotes, whatever is in it: delimiters, CR, LF, NUL, backslashes, an empty text.
NULL is a word without quotes: `\N`, unless a text of the file is just that; then
it is the first of `\N1`, `\N2`, ... that no text is. So a reader that compares
without regard to quotes, as Redshift's and Snowflake's do, mistakes nothing.

| type | written as |
|---|---|
| integer | digits |
| decimal | digits, with as many behind the point as the scale says, never with an exponent |
| float | the shortest digits that mean this number in its width |
| text | in quotes |
| bytes | hexadecimal digits in lower case, in quotes |
| date | `2024-02-29` |
| timestamp | `2024-02-29 23:59:59.999999`; an instant with `+00:00` behind it, in UTC, in quotes |
| duration | microseconds, an integer |
| vector | a JSON array of numbers, in quotes |

The readers' options are in docs/objects.md, with their documentation.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from penstock.core.printed_arrays import hexadecimal, joined, plain_decimal, with_commas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ROWS_AT_ONCE = 16_384
_NULL = "\\N"
_PLAIN_SCALE_MAX = 6
"""Up to this scale, Arrow writes no exponent (as Python's Decimal: not before the seventh digit)."""


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """How one file is written, as its batch message tells. Only `null` and `has_nul` differ from file to file.

    `has_nul` says that a text has the character NUL, which some databases cannot hold.
    """

    null: str = _NULL
    has_nul: bool = False
    delimiter: str = ","
    quote: str = '"'
    line_end: str = "\n"
    encoding: str = "UTF-8"
    header: bool = False
    binary: str = "hex"
    duration: str = "microseconds"

    @classmethod
    def from_mapping(cls, told: Mapping[str, object]) -> CsvDialect:
        """Read what a message says; ValueError for a dialect that is not the one of this module."""
        dialect = cls(str(told.get("null", "")), told.get("has_nul") is True)
        if asdict(dialect) != dict(told) or not dialect.null:
            known = ", ".join(field.name for field in fields(cls))
            text = f"a CSV dialect that this release does not read: {dict(told)} (it knows {known})"
            raise ValueError(text)
        return dialect


def render_csv(rows: pa.Table) -> tuple[pa.Buffer, CsvDialect]:
    """Return `rows` as CSV, and how to read it. The same rows give the same bytes."""
    columns = [_printable(column.combine_chunks()) for column in rows.columns]
    null = _unused_null(columns)
    sink = pa.BufferOutputStream()
    options = pyarrow.csv.WriteOptions(
        include_header=False,
        batch_size=_ROWS_AT_ONCE,
        quoting_style="needed",
        null_string=null,  # type: ignore[call-arg] # of Arrow 26; the stubs are older
    )
    pyarrow.csv.write_csv(pa.table(columns, names=[str(n) for n in range(len(columns))]), sink, options)
    content = sink.getvalue()
    # Bytes are digits here, and Arrow's buffers have no search of their own.
    has_nul = bool((np.frombuffer(memoryview(content), np.uint8) == 0).any())
    return content, CsvDialect(null, has_nul)


def _printable(array: pa.Array[Any]) -> pa.Array[Any]:
    """Return `array` as something that Arrow writes as this module says; most types are that already."""
    type_ = array.type
    if isinstance(array, pa.BinaryArray):
        return hexadecimal(array)
    if isinstance(array, pa.ListArray):
        return joined("[", with_commas(array), "]")
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        return joined("", array.cast(pa.timestamp("us")).cast(pa.string()), "+00:00")
    if pa.types.is_decimal(type_) and type_.scale > _PLAIN_SCALE_MAX:
        return plain_decimal(array)
    return array


def _unused_null(columns: Sequence[pa.Array[Any]]) -> str:
    texts = [column for column in columns if pa.types.is_string(column.type) or pa.types.is_large_string(column.type)]
    for null in chain([_NULL], (f"{_NULL}{number}" for number in count(1))):
        if not any(pc.any(pc.equal(text, pa.scalar(null, text.type))).as_py() for text in texts):
            return null
    raise AssertionError
