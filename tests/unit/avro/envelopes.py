"""Messages as this package and as fastavro encode them."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, cast

import fastavro
import numpy as np
import pyarrow as pa

from penstock.core.arrow_types import arrow_schema
from penstock.core.avro.envelope_encode import EncodableTable, encode_changes
from penstock.core.avro.names import avro_name
from penstock.core.avro.schemas import key_schema, value_schema
from penstock.core.avro.wire import frame
from penstock.core.changes import Op, RowBatch
from penstock.core.tables import (
    BitType,
    Column,
    DateTimeType,
    DateType,
    IntegerType,
    TableId,
    TableSchema,
    TextType,
    TimestampType,
    TimeType,
)
from penstock.release import RELEASE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.core.avro.arrays import ArrowArray

PROCESSED_AT_MS = 1_790_000_000_500
LARGE_ROWS = 150
SHOP = TableSchema(
    TableId("shop", "orders"),
    (
        Column("id", IntegerType(64, unsigned=False), nullable=False),
        Column("note", TextType(64, "utf8mb4"), nullable=True),
    ),
    ("id",),
)


def of_every_operation(batch: RowBatch) -> pa.BinaryArray:
    """The messages of `batch`, and the same rows created and deleted, in any order."""
    others = [replace(batch, op=Op.CREATE, before=None, after=batch.after or batch.before)]
    others.append(replace(batch, op=Op.DELETE, before=batch.before or batch.after, after=None))
    parts = [encode_changes(encodable(batch.schema), part, PROCESSED_AT_MS)[1] for part in (batch, *others)]
    return pa.concat_arrays(parts).take(pa.array(np.random.default_rng(1).permutation(3 * len(batch)), pa.int64()))


def binary(messages: Iterable[bytes | None]) -> pa.BinaryArray:
    return pa.array(list(messages), pa.binary())


def contents(values: pa.BinaryArray) -> list[bytes]:
    return [message for message in values.to_pylist() if message is not None]


def encodable(schema: TableSchema) -> EncodableTable:
    return EncodableTable("shopdb", "mysql", schema, 7 if schema.key else None, 70_000)


def batch_of(rows: int) -> RowBatch:
    after = pa.RecordBatch.from_pylist([{"id": i, "note": "note"} for i in range(rows)], schema=arrow_schema(SHOP))
    return RowBatch(
        schema=SHOP,
        op=Op.CREATE,
        before=None,
        after=after,
        file="bin.000001",
        offsets=np.full(rows, 100, dtype=np.int64),
        rows=np.arange(rows, dtype=np.int32),
        timestamps_ms=np.zeros(rows, dtype=np.int64),
        gtids=pa.array([""] * rows, pa.string()),
        server_id=1,
    )


def repeated(batch: RowBatch, rows: int) -> RowBatch:
    places = np.resize(np.arange(len(batch)), rows)
    taken = pa.array(places, pa.int64())
    return replace(
        batch,
        before=None if batch.before is None else batch.before.take(taken),
        after=None if batch.after is None else batch.after.take(taken),
        offsets=batch.offsets[places],
        rows=batch.rows[places],
        timestamps_ms=batch.timestamps_ms[places],
        gtids=batch.gtids.take(taken),
    )


def written_values(batch: RowBatch) -> list[bytes]:
    """Write the batch with fastavro."""
    count = len(batch)
    nothing: list[dict[str, object] | None] = [None] * count
    before, after = (avro_rows(batch.schema, rows) or nothing for rows in (batch.before, batch.after))
    envelopes: list[dict[str, object]] = [
        {
            "before": before[i],
            "after": after[i],
            "source": {
                "version": RELEASE,
                "connector": "mysql",
                "name": "shopdb",
                "ts_ms": int(batch.timestamps_ms[i]),
                "db": batch.schema.table.schema,
                "table": batch.schema.table.name,
                "server_id": batch.server_id,
                "gtid": batch.gtids[i].as_py() or None,
                "file": batch.file,
                "pos": int(batch.offsets[i]),
                "row": int(batch.rows[i]),
            },
            "op": str(batch.op),
            "ts_ms": PROCESSED_AT_MS,
            "before_lacks": json.dumps(batch.before_lacks) if batch.before_lacks else None,
            "after_lacks": json.dumps(batch.after_lacks) if batch.after_lacks else None,
        }
        for i in range(count)
    ]
    return written(value_schema(batch.schema), 70_000, envelopes)


def written_keys(batch: RowBatch) -> Sequence[bytes | None]:
    text = key_schema(batch.schema)
    if text is None:
        return [None] * len(batch)
    rows = avro_rows(batch.schema, batch.before if batch.op is Op.DELETE else batch.after)
    names = [avro_name(name) for name in batch.schema.key]
    return written(text, 7, [{name: _in_key(row[name]) for name in names} for row in rows])


def _in_key(value: object) -> object:
    return value + 0.0 if isinstance(value, float) else value


def written(schema: str, schema_id: int, records: Sequence[dict[str, object]]) -> list[bytes]:
    parsed = fastavro.parse_schema(json.loads(schema))
    messages = []
    for record in records:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, record)
        messages.append(frame(schema_id) + stream.getvalue())
    return messages


def avro_rows(schema: TableSchema, rows: pa.RecordBatch | None) -> list[dict[str, object]]:
    """Return the rows as fastavro takes them: dates and times as the integers Avro has for them."""
    if rows is None:
        return []
    columns = [avro_values(array, column) for array, column in zip(rows.columns, schema.columns, strict=True)]
    names = [avro_name(column.name) for column in schema.columns]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def avro_values(array: ArrowArray, column: Column) -> Sequence[object]:
    match column.type:
        case DateType():
            return cast("pa.Int32Array", array.view(pa.int32())).to_pylist()
        case TimeType() | DateTimeType() | TimestampType():
            return cast("pa.Int64Array", array.view(pa.int64())).to_pylist()
        case IntegerType() | BitType() if array.type == pa.uint64():
            values = cast("pa.UInt64Array", array).to_pylist()
            return [None if value is None else Decimal(value) for value in values]
        case _:
            return cast("pa.StringArray", array).to_pylist()
