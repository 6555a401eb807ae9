"""Row changes to Kafka messages: Avro keys and envelopes in the Confluent wire format.

The bytes are those fastavro.schemaless_writer gives for the schemas of
`penstock.core.avro.schemas`, after the five bytes of the frame.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.arrow_types import arrow_type
from penstock.core.avro.encode_columns import encode_by_column
from penstock.core.avro.encode_rows import encode_by_row
from penstock.core.avro.message_fields import ColumnValues, Constant, MessageField, Numbers, OptionalText
from penstock.core.avro.value_bytes import NOT_NULL, NULL, sized_text
from penstock.core.avro.varints import varint
from penstock.core.avro.wire import frame
from penstock.core.errors import PenstockError, TableStoppedError
from penstock.release import RELEASE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.avro.arrays import ArrowArray
    from penstock.core.changes import MessageFormat, Op, RowBatch
    from penstock.core.tables import TableSchema

_BY_COLUMN_ROWS_MIN: Final = 128


@dataclass(frozen=True, slots=True)
class EncodableTable:
    """One table and what its messages say about where they come from.

    `source` is the source's name in the config, `connector` its kind ("mysql").
    The ids are the registry's; `key_schema_id` is None where there is no primary key.
    Where messages must be `repeatable`, the same change always gives the same bytes:
    the envelope's ts_ms is when it was committed, not when we came to it. `format` is how
    its messages are written: see core/message_format.
    """

    source: str
    connector: str
    schema: TableSchema
    key_schema_id: int | None
    value_schema_id: int
    repeatable: bool = False
    format: MessageFormat = "avro"


def encode_changes(
    table: EncodableTable, batch: RowBatch, processed_at_ms: int
) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """Return the keys and the values (binary[n] each) of the messages for `batch`, in its order.

    The key is that of the new row, for a DELETE that of the old one; keys are
    null where the table has none. `processed_at_ms` (Unix milliseconds) becomes
    the envelope's ts_ms, save where messages must be repeatable. `batch.schema`
    must be `table.schema`.
    Raises TableStoppedError when a column is not what the schema says (another
    Arrow type, or a NULL that may not be), PenstockError when the values of the
    batch come to 2 GiB or more.
    """
    require_fit(table.schema, batch)
    key, value = _key_fields(table, batch), _value_fields(table, batch, processed_at_ms)
    count = len(batch)
    keys = pa.nulls(count, pa.binary()) if key is None else _encode(key, count)
    return keys, _encode(value, count)


def _encode(fields: Sequence[MessageField], rows: int) -> pa.BinaryArray:
    try:
        return encode_by_row(fields, rows) if rows < _BY_COLUMN_ROWS_MIN else encode_by_column(fields, rows)
    except pa.ArrowCapacityError as error:
        reason = f"{rows} changes come to more bytes than one batch can hold: {error}"
        raise PenstockError(reason, "lower the rows or bytes per batch") from error


def _key_fields(table: EncodableTable, batch: RowBatch) -> Sequence[MessageField] | None:
    values = key_columns(table, batch)
    if table.key_schema_id is None or values is None:
        return None
    columns = map(ColumnValues, values, map(table.schema.column, table.schema.key))
    return [Constant(frame(table.key_schema_id)), *columns]


def key_columns(table: EncodableTable, batch: RowBatch) -> Sequence[ArrowArray] | None:
    """Return the values of the columns of the key, in its order, as keys have them; None where there is no key."""
    row = batch.before if batch.after is None else batch.after
    if table.key_schema_id is None or row is None:
        return None
    return [_key_values(row.column(name)) for name in table.schema.key]


def _key_values(values: ArrowArray) -> ArrowArray:
    """Return values as a key has them: see `penstock.core.key_changes` for -0.0, which 0.0 makes 0.0."""
    if not pa.types.is_floating(values.type):
        return values
    zero: Any = pa.scalar(0.0, values.type)
    summed: ArrowArray = pc.add(values, zero)
    return summed


def _value_fields(table: EncodableTable, batch: RowBatch, processed_at_ms: int) -> Sequence[MessageField]:
    """List the envelope's fields in the order of `value_schema`."""
    return [
        Constant(frame(table.value_schema_id)),
        *_row_fields(table.schema, batch.before),
        *_row_fields(table.schema, batch.after),
        Constant(source_front(table)),
        Numbers(batch.timestamps_ms),
        Constant(source_names(table, batch.server_id)),
        OptionalText(batch.gtids),
        Constant(sized_text(batch.file)),
        Numbers(batch.offsets),
        Numbers(batch.rows.astype(np.int64)),
        Constant(sized_text(batch.op)),
        Numbers(batch.timestamps_ms) if table.repeatable else Constant(varint(processed_at_ms)),
        Constant(lacking_columns(table, batch.before_lacks, batch.after_lacks)),
    ]


def source_front(table: EncodableTable) -> bytes:
    """Encode the fields of `source` before its time."""
    return sized_text(RELEASE) + sized_text(table.connector) + sized_text(table.source)


def source_names(table: EncodableTable, server_id: int) -> bytes:
    """Encode the fields of `source` between its time and its GTID."""
    name = table.schema.table
    return sized_text(name.schema) + sized_text(name.name) + varint(server_id)


def envelope_end(table: EncodableTable, op: Op, processed_at_ms: int) -> bytes:
    """Encode the fields behind `source` of a row that lacks nothing."""
    return sized_text(op) + varint(processed_at_ms) + lacking_columns(table, (), ())


def lacking_columns(table: EncodableTable, before_lacks: Sequence[str], after_lacks: Sequence[str]) -> bytes:
    """Encode the fields that name what the two row images lack, where tables have these fields."""
    if not table.schema.partial_rows:
        return b""
    lists = (before_lacks, after_lacks)
    return b"".join(NOT_NULL + sized_text(json.dumps(names)) if names else NULL for names in lists)


def _row_fields(schema: TableSchema, rows: pa.RecordBatch | None) -> Sequence[MessageField]:
    if rows is None:
        return [Constant(NULL)]
    return [Constant(NOT_NULL), *map(ColumnValues, rows.columns, schema.image_columns)]


def require_fit(schema: TableSchema, batch: RowBatch) -> None:
    """Raise TableStoppedError when rows of `batch` are not what `schema` says."""
    for rows in (batch.before, batch.after):
        if rows is not None:
            _require_rows_fit(schema, rows, batch)


def _require_rows_fit(schema: TableSchema, rows: pa.RecordBatch, batch: RowBatch) -> None:
    if rows.num_columns != len(schema.columns):
        raise _unfit(schema, "", batch, f"its rows have {rows.num_columns} columns, its schema {len(schema.columns)}")
    for values, column in zip(rows.columns, schema.image_columns, strict=True):
        if values.null_count and not column.nullable:
            raise _unfit(schema, column.name, batch, "a row has NULL where the table's schema says NOT NULL")
        if values.type != arrow_type(column.type):
            raise _unfit(schema, column.name, batch, f"its values came as {values.type}, not {arrow_type(column.type)}")


def _unfit(schema: TableSchema, column: str, batch: RowBatch, reason: str) -> TableStoppedError:
    position = f"{batch.file}:{batch.offsets[0]}" if len(batch) else batch.file
    hint = "the schema tracker and the log disagree about this table: type penstock snapshot FILE TABLE"
    return TableStoppedError(str(schema.table), column, position, reason, hint)
