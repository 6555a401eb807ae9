"""Reading the CSV of `core.csv_dialect`, exactly, by column; and telling where a file is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from penstock.core.printed_arrays import from_hexadecimal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyarrow.csv import InvalidRow

    from penstock.core.csv_dialect import CsvDialect

_SHOWN_MAX = 80


def parse_csv(layout: pa.Schema, content: pa.Buffer, dialect: CsvDialect) -> pa.Table:
    """Return the rows of a file that `render_csv` wrote of columns as in `layout`.

    Raises ValueError for another file, with the line, the column and the value
    that are wrong. A row may have several lines.
    """
    read_types = {field.name: _read_type(field.type) for field in layout}
    try:
        read = _read(layout, content, dialect, read_types)
        columns = [_convert(read.column(field.name), field.type) for field in layout]
    except (pa.ArrowException, ValueError) as error:
        raise _explain(layout, content, dialect, error) from error
    return pa.Table.from_arrays(columns, schema=layout)


def _read(
    layout: pa.Schema,
    content: pa.Buffer,
    dialect: CsvDialect,
    types: Mapping[str, pa.DataType],
    on_bad_row: Callable[[InvalidRow], Literal["skip", "error"]] | None = None,
) -> pa.Table:
    if not content.size:
        return pa.table({field.name: pa.array([], types[field.name]) for field in layout})
    return pyarrow.csv.read_csv(
        pa.BufferReader(content),  # type: ignore[arg-type]
        # In one block, for a value may be longer than any block; in one thread, for only then rows are numbered.
        pyarrow.csv.ReadOptions(column_names=layout.names, use_threads=False, block_size=content.size + 1),
        pyarrow.csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote,
            newlines_in_values=True,
            ignore_empty_lines=False,
            invalid_row_handler=on_bad_row,
        ),
        pyarrow.csv.ConvertOptions(
            column_types=dict(types),
            null_values=[dialect.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _read_type(type_: pa.DataType) -> pa.DataType:
    """Return the type as which Arrow is to read a column: text for what it does not read, or not as we write it."""
    is_text = pa.types.is_binary(type_) or pa.types.is_list(type_) or pa.types.is_decimal256(type_)
    is_instant = pa.types.is_timestamp(type_) and type_.tz is not None
    return pa.string() if is_text or is_instant else type_


def _convert(column: pa.ChunkedArray[Any], type_: pa.DataType) -> pa.Array[Any]:
    array: Any = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], column.type)
    if array.type == type_ and not pa.types.is_binary(type_):
        return array  # type: ignore[no-any-return]
    if pa.types.is_binary(array.type):
        # Where a broken value is looked for, every column was read as bytes.
        array = array.cast(pa.string())
        array = array.cast(pa.int64()) if pa.types.is_duration(type_) else array
    if pa.types.is_binary(type_):
        return from_hexadecimal(array)
    if pa.types.is_list(type_):
        return _from_json(array, type_)
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        return _from_instants(array, type_)
    return array.cast(type_)  # type: ignore[no-any-return]


def _from_instants(array: pa.StringArray, type_: pa.TimestampType[Any]) -> pa.Array[Any]:
    if not pc.all(pc.ends_with(array, "+00:00"), min_count=0).as_py():
        message = "not an instant in UTC"
        raise ValueError(message)
    local = pc.utf8_slice_codeunits(array, 0, -len("+00:00")).cast(pa.timestamp("us"))
    return local.cast(pa.int64()).cast(type_)


def _from_json(array: pa.StringArray, type_: pa.ListType[Any]) -> pa.Array[Any]:
    """Return the lists that JSON arrays of numbers stand for."""
    whole = pc.and_(pc.starts_with(array, "["), pc.ends_with(array, "]"))
    if not pc.all(whole, min_count=0).as_py():
        message = "not a JSON array of numbers"
        raise ValueError(message)
    filled: pa.StringArray = array.fill_null("[]")  # type: ignore[assignment]
    inner = pc.utf8_slice_codeunits(filled, 1, -1)
    parts = pc.split_pattern(inner, ",")
    is_empty = pc.equal(inner, pa.scalar("")).to_numpy(zero_copy_only=False)
    lengths = np.where(is_empty, 0, pc.list_value_length(parts).to_numpy(zero_copy_only=False))
    # An empty text splits into one empty part.
    kept = np.repeat(~is_empty, np.where(is_empty, 1, lengths))
    values = pc.list_flatten(parts).filter(pa.array(kept)).cast(type_.value_type)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, values, type=type_, mask=pc.is_null(array))


def _explain(layout: pa.Schema, content: pa.Buffer, dialect: CsvDialect, cause: Exception) -> ValueError:
    """Say where the first mistake is: rows of another number of columns come before values of another type."""
    bad_rows: list[InvalidRow] = []

    def skip(row: InvalidRow) -> Literal["skip"]:
        bad_rows.append(row)
        return "skip"

    as_bytes = {field.name: pa.binary() for field in layout}
    try:
        raw = _read(layout, content, dialect, as_bytes, skip)
    except pa.ArrowException as error:
        return ValueError(f"it does not parse as CSV: {error}")
    if bad_rows:
        row = bad_rows[0]
        index = (row.number or 1) - 1
        text = f"{row.actual_columns} columns instead of {row.expected_columns}: {_shown(row.text)}"
        return ValueError(f"line {_line(raw, index)} (row {index + 1}) has {text}")
    for field in layout:
        column = raw.column(field.name)
        found = _first_bad(column, field.type)
        if found is not None:
            where = f"line {_line(raw, found)} (row {found + 1}), column {field.name}"
            return ValueError(f"{where}: {_shown(column[found].as_py())} is no {field.type}")
    return ValueError(str(cause))


def _first_bad(column: pa.ChunkedArray[Any], type_: pa.DataType) -> int | None:
    """Return the index of the first value that does not convert, found by halves; None if all do."""
    if _converts(column, type_):
        return None
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _converts(column.slice(low, middle - low), type_) else (low, middle)
    return low


def _converts(column: pa.ChunkedArray[Any], type_: pa.DataType) -> bool:
    try:
        _convert(column, type_)
    except (pa.ArrowException, ValueError):
        return False
    return True


def _line(raw: pa.Table, row: int) -> int:
    """Return the number of the line in which a row begins, from 1."""
    before = raw.slice(0, row)
    inside = [pc.sum(pc.count_substring(column, "\n")).as_py() or 0 for column in before.columns]
    return row + sum(inside) + 1


def _shown(value: bytes | str | None) -> str:
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    return repr(text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}...")
