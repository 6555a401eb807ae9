"""Rows read one after the other: the plain decoder, for few rows and as the reference of the fast one.

Sources: MariaDB Knowledge Base, "Rows_event_v1/v2"; MySQL internals, `Rows_event`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import pyarrow as pa

from penstock.core.arrow_types import arrow_type
from penstock.core.mysql.types.bad_values import WHOLE_JSON, BadValueError
from penstock.core.mysql.types.bytes_reader import MalformedError
from penstock.core.mysql.types.json_diff import ChangedJson
from penstock.core.mysql.types.values import value_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.core.mysql.rows.rows_image import RowImages
    from penstock.core.mysql.types.row_layout import Cell, RowLayout
    from penstock.core.mysql.types.values import Reader, Value

ArrowArray: TypeAlias = "pa.Array[pa.Scalar[pa.DataType]]"
Span: TypeAlias = tuple[int, int] | None
"""Where the bytes of a value are, [start, end); None where it is NULL."""
OPTIONS_MAX: Final = 1
"""Before a new image in a PARTIAL_UPDATE_ROWS event: no options, or the only one there is, of JSON."""
_Raw = TypeVar("_Raw", bound=bytes | ChangedJson)


class BadCellError(ValueError):
    """The value at `index` (of all rows, counted from 0) of `cell` cannot be carried."""

    def __init__(self, cell: Cell, index: int, cause: BadValueError) -> None:
        """Keep where, and why."""
        super().__init__(cell, index, cause)
        self.cell = cell
        self.index = index
        self.cause = cause


def walk_rows(
    data: bytes | bytearray, start: int, end: int, images: Sequence[RowLayout], *, partial: bool = False
) -> list[list[Span]]:
    """Find every value of the rows in `data[start:end]`; `partial` ones have no JSON columns.

    Returns one list per row: the cells of its `images`, one after the other. Raises
    MalformedError unless the last row ends at `end`.
    """
    rows = []
    at = start
    while at < end:
        spans: list[Span] = []
        for image, layout in enumerate(images):
            if image and partial:
                at = _past_options(data, at, end)
            at = walk_image(data, at, end, layout, spans)
        rows.append(spans)
    return rows


@dataclass(frozen=True, slots=True)
class PlainColumn:
    """Reads the values of one column, one by one."""

    cell: Cell
    read: Reader
    arrow: pa.DataType

    @classmethod
    def of(cls, cell: Cell) -> PlainColumn:
        """Prepare to read `cell`."""
        return cls(cell, value_reader(cell), arrow_type(cell.column.type))

    def decode(self, raw: Sequence[bytes | None]) -> ArrowArray:
        """Return the values, None for NULL; BadCellError for the first that cannot be carried."""
        return self._decode(raw, self.read)

    def decode_changed(self, raw: Sequence[bytes | ChangedJson | None]) -> ArrowArray:
        """Return the values as `decode` does, some of which are the old ones with their differences."""
        return self._decode(raw, self._read_changed)

    def _read_changed(self, value: bytes | ChangedJson) -> Value | None:
        if isinstance(value, bytes):
            return self.read(value)
        try:
            return value.print_after()
        except MalformedError as error:
            raise BadValueError(str(error), WHOLE_JSON) from error

    def _decode(self, raw: Sequence[_Raw | None], read: Callable[[_Raw], Value | None]) -> ArrowArray:
        values: list[Value | None] = []
        try:
            for value in raw:
                values.append(None if value is None else read(value))  # noqa: PERF401 - its length names the bad value
        except BadValueError as error:
            raise BadCellError(self.cell, len(values), error) from error
        return pa.array(values, self.arrow)


def read_rows(payload: bytes, images: RowImages) -> list[list[bytes | None]]:
    """Cut the rows of one event, whose images are like `images`, into values.

    Returns one list per row: the cells of its images, one after the other, None for
    NULL. Raises MalformedError unless the last row ends with the payload.
    """
    rows = walk_rows(payload, images.begin, len(payload), images.layouts)
    return [[None if span is None else payload[span[0] : span[1]] for span in spans] for spans in rows]


def walk_image(data: bytes | bytearray, at: int, end: int, layout: RowLayout, spans: list[Span]) -> int:
    """Append the spans of the row image at `at` and return where it ends; MalformedError if that is behind `end`."""
    nulls = int.from_bytes(data[at : at + layout.null_bytes], "little")
    at += layout.null_bytes
    for index, cell in enumerate(layout.cells):
        if nulls >> index & 1:
            spans.append(None)
            continue
        begin = at + cell.length_bytes
        at = begin + (cell.fixed_bytes or int.from_bytes(data[at:begin], "little"))
        if at > end:
            break
        spans.append((begin, at))
    if at > end:
        message = f"a row ends {at - end} bytes after its event"
        raise MalformedError(message)
    return at


def _past_options(data: bytes | bytearray, at: int, end: int) -> int:
    if at >= end or data[at] > OPTIONS_MAX:
        message = "a row whose value options are unknown"
        raise MalformedError(message)
    return at + 1
