"""Row changes to flat JSON messages: the fields of ours, then the row as it is after the change.

Of a deleted row it is the row as it was, as far as it is known; of an update, the row as it
was stands in a field of ours. What the log has no value of is left out, and named.
"""

from __future__ import annotations

import json
from itertools import repeat
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.core.changes import Op
from penstock.core.errors import PenstockError
from penstock.core.json_messages.fields import (
    BEFORE,
    BEFORE_LACKS,
    FRONT,
    LACKS,
    OP,
    POSITION,
    ROW,
    SERVER_ID,
    SOURCE,
    TABLE,
    TRANSACTION,
    TS_MS,
)
from penstock.core.json_messages.texts import NULL, json_texts, quote
from penstock.core.positions import place_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from penstock.core.avro.arrays import ArrowArray
    from penstock.core.changes import RowBatch
    from penstock.core.tables import Column, TableSchema

_ARRAY_BYTES_MAX = 2**31 - 2


def encode_json_keys(schema: TableSchema, columns: Sequence[ArrowArray]) -> pa.BinaryArray:
    """Return keys of the columns of the key, in its order: an object by column, the same key always the same bytes."""
    key = [schema.column(name) for name in schema.key]
    pieces = [_member_texts(column, values) for column, values in zip(key, columns, strict=True)]
    return _binary(b"{" + ",".join(row).encode() + b"}" for row in zip(*pieces, strict=True))


def encode_json_values(source: str, connector: str, schema_id: int, batch: RowBatch) -> pa.BinaryArray:
    """Return the values (binary[n]) of the messages for `batch`, in its order.

    Raises PenstockError when they come to 2 GiB or more.
    """
    row, lacks = (batch.after, batch.after_lacks) if batch.after is not None else (batch.before, batch.before_lacks)
    count = len(batch)
    pieces = [*_own_fields(source, connector, batch)]
    if lacks:
        pieces.append(repeat(f'"{LACKS}":{json.dumps(list(lacks))}', count))
    if batch.op is Op.UPDATE and batch.before is not None:
        pieces.append(f'"{BEFORE}":{text}' for text in _objects(batch.schema, batch.before, batch.before_lacks))
        if batch.before_lacks:
            pieces.append(repeat(f'"{BEFORE_LACKS}":{json.dumps(list(batch.before_lacks))}', count))
    if row is not None:
        pieces += _members(batch.schema, row, lacks)
    front = FRONT + str(schema_id).encode() + b","
    return _binary(front + ",".join(members).encode() + b"}" for members in zip(*pieces, strict=True))


def _own_fields(source: str, connector: str, batch: RowBatch) -> Iterator[Iterable[str]]:
    constants = {OP: batch.op.value, SOURCE: source, TABLE: str(batch.schema.table)}
    yield repeat(",".join(f'"{name}":{quote(text)}' for name, text in constants.items()), len(batch))
    yield [f'"{TS_MS}":{number}' for number in batch.timestamps_ms.tolist()]
    yield [f'"{TRANSACTION}":{quote(text) if text else NULL}' for text in batch.gtids.to_pylist()]
    places = (place_text(connector, batch.file, offset) for offset in batch.offsets.tolist())
    yield [f'"{POSITION}":{quote(text)}' for text in places]
    yield [f'"{ROW}":{number}' for number in batch.rows.tolist()]
    yield repeat(f'"{SERVER_ID}":{batch.server_id}', len(batch))


def _objects(schema: TableSchema, rows: pa.RecordBatch, lacks: Collection[str]) -> Iterable[str]:
    members = _members(schema, rows, lacks)
    if not members:
        # It is known that there was a row, and nothing else of it.
        return repeat("{}", len(rows))
    return (f"{{{','.join(row)}}}" for row in zip(*members, strict=True))


def _members(schema: TableSchema, rows: pa.RecordBatch, lacks: Collection[str]) -> list[list[str]]:
    columns = zip(schema.columns, rows.columns, strict=True)
    return [_member_texts(column, values) for column, values in columns if column.name not in lacks]


def _member_texts(column: Column, values: ArrowArray) -> list[str]:
    name = quote(column.name)
    return [f"{name}:{text}" for text in json_texts(values, column.type)]


def _binary(messages: Iterable[bytes]) -> pa.BinaryArray:
    listed = list(messages)
    if sum(map(len, listed)) > _ARRAY_BYTES_MAX:
        reason = f"{len(listed)} changes come to more bytes than one batch can hold"
        raise PenstockError(reason, "lower the rows or bytes per batch")
    return pa.array(listed, pa.binary())
