"""Rows of batch files as JSON messages, whose values are texts: exact in every reader of JSON."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.core.files import LACKS, OFFSET, OP
from penstock.core.tables import DecimalType, EnumType, IntegerType, SetType, TextType
from penstock.core.warehouse.columns import CORRECT_VALUE, stopped
from penstock.core.warehouse.landing import render_position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from penstock.core.batches import Batch
    from penstock.core.errors import TableStoppedError
    from penstock.core.tables import TableSchema

_VARIANT_BYTES_MAX: Final = 16_777_216
_PRINTED_AS_IS: Final = (IntegerType, DecimalType, TextType, EnumType, SetType)
"""Types whose defaults are printed as values are in messages."""


def find_later_values(arriving: TableSchema, known: TableSchema) -> Mapping[str, str | None]:
    """Return what rows of an older schema took in columns that came later, where a message says it as the source does.

    Such rows come late from another partition, and the table has those columns already.
    """
    names = {column.name for column in arriving.columns}
    # One that was renamed has its number still, where the source has numbers.
    numbers = {column.number for column in arriving.columns} - {0}
    values = {}
    for column in known.columns:
        value = column.default if column.filled is None else column.filled
        is_computed = column.filled is None and column.default_is_expression
        is_same = column.nullable if value is None else isinstance(column.type, _PRINTED_AS_IS)
        if is_same and not is_computed and column.name not in names and column.number not in numbers:
            values[column.name] = value
    return values


def render_rows(
    schema: TableSchema, batch: Batch, rows: pa.Table, later: Mapping[str, str | None] = MappingProxyType({})
) -> Iterator[str]:
    """Yield each of `rows` of `batch` as what `plan_landing` inserts, in order; a message lacks what its row lacks.

    All have the values `later`, of columns that are none of theirs.
    """
    names = [column.name for column in schema.columns]
    columns = [_texts(rows.column(name)) for name in names]
    place = {"topic": batch.topic, "partition": batch.partition, "position": render_position(batch.last_order)}
    ops, offsets = rows.column(OP).to_pylist(), rows.column(OFFSET).to_pylist()
    lacks = rows.column(LACKS).to_pylist() if LACKS in rows.column_names else [""] * len(ops)
    for op, offset, flags, *values in zip(ops, offsets, lacks, *columns, strict=True):
        row = dict(zip(names, values, strict=True)) | dict(later)
        for name, flag in zip(names, flags or "", strict=False):
            if flag == "1":
                del row[name]
        yield json.dumps({"message": {"op": op, "row": row}, **place, "offset": offset}, ensure_ascii=False)


def render_staged_rows(rows: pa.Table) -> Iterator[str]:
    """Yield each of `rows`, laid out as files, as an object of texts, with all of its columns."""
    names = rows.column_names
    for values in zip(*(_texts(rows.column(name)) for name in names), strict=True):
        yield json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False)


def render_barrier(batch: Batch) -> str:
    """Return the entry of a landing table that says what became of the whole table.

    A merge takes what is behind its position, and rows are numbered from the barrier's own place on where they are
    those of an initial snapshot that began again: so the position is that of the row before.
    """
    file, offset, row = batch.last_order
    position = render_position((file, offset, row - 1 if row > 0 else row))
    return json.dumps({"message": {"op": str(batch.kind)}, "topic": batch.topic, "position": position})


def render_schema_changes(landed: Mapping[tuple[str, int], int], order: tuple[int, int, int]) -> str:
    """Return the entries that say what is merged with the columns that a table had until they changed at `order`.

    `landed` are the first offsets not landed, by topic and partition.
    """
    entries = (
        {"message": {"op": "schema"}, "topic": topic, "partition": partition, "offset": offset}
        for (topic, partition), offset in sorted(landed.items())
    )
    return json.dumps([{**entry, "position": render_position(order)} for entry in entries])


def render_of_table(number: int, text: str) -> str:
    """Return a message as `plan_landings` takes it."""
    return f'{{"table": {number}, {text[1:]}'


def require_fitting(schema: TableSchema, texts: Iterator[str]) -> Iterator[str]:
    """Yield `texts`, each of which has a row; TableStoppedError for the first that no VARIANT holds."""
    for text in texts:
        if len(text) > _VARIANT_BYTES_MAX or len(text.encode()) > _VARIANT_BYTES_MAX:
            raise _too_large(schema, text)
        yield text


def split_texts(texts: Iterator[str], bytes_max: int, *, as_array: bool = True) -> Iterator[str]:
    """Yield JSON arrays of `texts`, or lines, in order, none much larger than `bytes_max` unless one text is."""
    held: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode())
        if held and size + length > bytes_max:
            yield f"[{','.join(held)}]" if as_array else "\n".join(held)
            held, size = [], 0
        held.append(text)
        size += length
    if held:
        yield f"[{','.join(held)}]" if as_array else "\n".join(held)


def _too_large(schema: TableSchema, text: str) -> TableStoppedError:
    """Name the row and its largest value; a VARIANT holds 16 MiB (SQL reference, "Semi-structured data types")."""
    given = json.loads(text)
    row = given["message"]["row"] if "message" in given else given
    largest = max(row, key=lambda name: len(row[name] or ""))
    key = ", ".join(f"{name} = {row.get(name)!r}" for name in schema.key)
    of = f" ({key})" if key else ""
    reason = f"a row{of} has {len(text.encode())} bytes as JSON, and VARIANT holds {_VARIANT_BYTES_MAX}"
    return stopped(schema, largest, reason, CORRECT_VALUE)


def _texts(column: pa.ChunkedArray[Any]) -> list[str | None]:
    """Return values as texts that SQL casts back to the same values."""
    type_ = column.type
    if pa.types.is_duration(type_):
        column = column.cast(pa.int64())
    if pa.types.is_timestamp(type_):
        zone = "" if type_.tz is None else "+00:00"
        local = column.cast(pa.timestamp("us")).cast(pa.string()).to_pylist()
        return [None if text is None else f"{text.replace(' ', 'T')}{zone}" for text in local]
    for is_type, render in _BY_VALUE:
        if is_type(type_):
            return [None if value is None else render(value) for value in column.to_pylist()]
    texts: list[str | None] = column.cast(pa.string()).to_pylist()
    return texts


_BY_VALUE: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], str]], ...]] = (
    (pa.types.is_string, str),
    (pa.types.is_binary, bytes.hex),
    (pa.types.is_floating, repr),
    (pa.types.is_list, json.dumps),
)
