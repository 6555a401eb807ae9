"""Rows of an input as the join keeps them: the Avro bytes of the columns that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.arrow_types import arrow_type
from penstock.core.avro.buffers import binary_octets, binary_offsets
from penstock.core.avro.decode_columns import read_column
from penstock.core.avro.encode_columns import encode_by_column
from penstock.core.avro.layout import parse_layout
from penstock.core.avro.lockstep import Cursors
from penstock.core.avro.message_fields import ColumnValues
from penstock.core.avro.schemas import value_schema
from penstock.core.errors import PenstockError
from penstock.core.joins.filters import filter_of
from penstock.core.joins.keys import comparable_kind
from penstock.core.tables import Column, TableId, TableSchema
from penstock.core.transforms.constants import fill_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.avro.arrays import ArrowArray, Flags
    from penstock.core.joins.described import Origin
    from penstock.core.joins.plan import PlannedInput
    from penstock.core.tables import ColumnType


def encode_stored(given: PlannedInput, rows: pa.RecordBatch) -> pa.BinaryArray:
    """The bytes that are kept of each row of an input.

    `rows` have the columns of their message's schema, which may have more than the
    plan knows, and lack some that can be null. Raises PenstockError for rows that the
    plan does not fit any more.
    """
    if not given.stored.columns or not rows.num_rows:
        return pa.array([b""] * rows.num_rows, pa.binary())
    fields = [ColumnValues(planned_values(given, column, rows), column) for column in given.stored.columns]
    return encode_by_column(fields, rows.num_rows)


def decode_stored(given: PlannedInput, rows: pa.BinaryArray) -> list[ArrowArray]:
    """What `encode_stored` wrote, as the columns that are stored, null where there is no row."""
    if not given.stored.columns:
        return []
    if rows.null_count:
        there = decode_stored(given, rows.drop_null())
        is_valid = np.asarray(rows.is_valid())
        places = pa.array(np.cumsum(is_valid) - 1, mask=~is_valid)
        return [column.take(places) for column in there]
    layout = parse_layout(value_schema(given.stored)).record("before")
    offsets = binary_offsets(rows).astype(np.int64)
    content = binary_octets(rows)[offsets[0] : offsets[-1]]
    cursors = Cursors(content, offsets[:-1] - offsets[0], offsets[1:] - offsets[0])
    columns = [read_column(cursors, *each) for each in zip(layout.fields, given.stored.columns, strict=True)]
    cursors.finish()
    return columns


def planned_values(given: PlannedInput, column: Column, rows: pa.RecordBatch) -> ArrowArray:
    """The values of a column as the plan knows it, null where the rows' schema has it no more."""
    wanted = arrow_type(column.type)
    index = rows.schema.get_field_index(column.name)
    if index < 0:
        if column.nullable:
            return _nulls(column, rows.num_rows)
        raise _lacking(given, column.name)
    values: Any = rows.column(index)
    try:
        values = values if values.type == wanted else values.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = f"{column.name} came as {values.type} and cannot be {wanted}: {error}"
        raise _unfit(given, reason) from error
    if values.null_count and not column.nullable:
        raise _unfit(given, f"a row has NULL in {column.name}, which could not be null")
    checked: ArrowArray = values
    return checked


def key_values(given: PlannedInput, names: Sequence[str], rows: pa.RecordBatch) -> list[ArrowArray]:
    """The values of columns of a key. Raises PenstockError where the rows' schema has one no more."""
    there = rows.schema.names
    for name in names:
        if name not in there:
            raise _lacking(given, name)
    return [rows.column(name) for name in names]


def join_key_values(given: PlannedInput, rows: pa.RecordBatch) -> list[ArrowArray]:
    """The values of the join keys as they are compared. Raises as `key_values`."""
    found: list[ArrowArray] = []
    for name, values in zip(given.join_keys, key_values(given, given.join_keys, rows), strict=True):
        compared: Any = values
        found.append(pc.utf8_rtrim(compared, characters=" ") if name in given.padded else compared)
    return found


def as_planned(
    given: PlannedInput, table: TableSchema, origins: Mapping[str, Origin], rows: pa.RecordBatch
) -> pa.RecordBatch:
    """Rows of some schema with the columns of `table` that the plan needs of an input, by the names that it knows.

    A column that came later has the value that the source gave to the rows there were.
    Raises PenstockError where nobody knows that.
    """
    if all(name == origin for name, origin in origins.items()):
        return rows
    found: dict[str, ArrowArray] = {}
    for column in table.columns:
        if column.name not in given.read_columns:
            continue
        match origins[column.name]:
            case str(name):
                found[column.name] = rows.column(name)
            case Column() as added:
                found[column.name] = _filled(given, added, rows.num_rows)
            case None if column.nullable:
                found[column.name] = _nulls(column, rows.num_rows)
            case None:
                raise _lacking(given, column.name)
    return pa.RecordBatch.from_pydict(found)


def require_same_meaning(
    given: PlannedInput, table: TableSchema, origins: Mapping[str, Origin], now: TableSchema
) -> None:
    """Raise PenstockError where a column is of another type in rows of `now` than in `table`, that of the plan.

    Wider and narrower ones are read. But a TIME is not the BIGINT that had its name, though both are numbers in Avro.
    """
    for column in table.columns:
        origin = origins[column.name]
        if column.name not in given.read_columns or origin is None:
            continue
        type_ = origin.type if isinstance(origin, Column) else now.column(origin).type
        kinds = comparable_kind(column.type), comparable_kind(type_)
        is_key = column.name in (*given.join_keys, *given.row_key)
        # Keys are compared as they come, as text.
        if (is_key and kinds[0] != kinds[1]) or not _reads(arrow_type(column.type), arrow_type(type_), kinds):
            reason = f"its column {column.name} was {_said(column.type)}, and rows have {_said(type_)} there"
            raise _unfit(given, reason)


def _reads(wanted: pa.DataType, came: pa.DataType, kinds: tuple[str | None, str | None]) -> bool:
    is_number = pa.types.is_floating(wanted) and pa.types.is_floating(came)
    return wanted == came or is_number or (kinds[0] is not None and kinds[0] == kinds[1])


def _said(type_: ColumnType) -> str:
    return comparable_kind(type_) or type(type_).__name__.removesuffix("Type")


def _filled(given: PlannedInput, added: Column, count: int) -> ArrowArray:
    """What `count` rows that are older than a column have in it."""
    if added.filled is None and added.default_is_expression and added.nullable:
        # Its capture stops the table there, and rows that are read anew come behind these.
        return _nulls(added, count)
    try:
        value = fill_value(added)[0].as_py()
    except ValueError as error:
        reason = f"rows are older than its column {added.name}, and their value there is not known: {error}"
        raise _unfit(given, reason) from error
    filled: ArrowArray = pa.array([value] * count, arrow_type(added.type))
    return filled


def _nulls(column: Column, count: int) -> ArrowArray:
    nulls: ArrowArray = pa.array([None] * count, arrow_type(column.type))
    return nulls


def find_seen(given: PlannedInput, rows: pa.RecordBatch) -> Flags:
    """Whether the condition of an input holds for each of n rows, as they came in messages (bool[n]).

    Raises PenstockError for rows that the plan does not fit any more.
    """
    schema = TableSchema(TableId("state", given.name), given.tested, ())
    values = [planned_values(given, column, rows) for column in given.tested]
    found: Flags = filter_of(given.where).matches(schema, pa.table(values, [column.name for column in given.tested]))
    return found


def _lacking(given: PlannedInput, name: str) -> PenstockError:
    return _unfit(given, f"its rows lack {name}, which could not be null")


def _unfit(given: PlannedInput, reason: str) -> PenstockError:
    message = f"the join cannot go on with {given.name}: {reason}"
    hint = (
        "put the column into exclude_fields where that is possible, or leave the table out; "
        "have a join that has begun made again then: penstock joinery rebuild FILE JOIN"
    )
    return PenstockError(message, hint)
