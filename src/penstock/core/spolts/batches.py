"""The Arrow batches that user code gets and gives: the columns of the row, and of the message around it.

A batch that goes to user code has, beside the columns of the value (of a change:
of the row as it is now, or for a delete as it last was):

`_topic`      string         `_partition`  int32      `_offset`  int64
`_timestamp`  timestamp[ms, UTC], Kafka's
`_key`        binary, the key's bytes
`_op`         string, `c`, `u`, `d` or `r`; null for what is no change
`_before`     struct, of a change: the row before it
`_lacks`, `_before_lacks`  list of string, the columns that the source's log has no values
              of, in the row and in `_before`: they are null there, and not NULL

A batch that comes back has the columns of its values, and may have `_key` (binary
or string; without it messages have no key) and `_to` (string: the output's topic).
The other columns that begin like this are left out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.spolts.row_images import row_images

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.avro.arrays import ArrowArray
    from penstock.core.avro.envelope_decode import DecodedChanges
    from penstock.core.spolts.message import Message
    from penstock.core.spolts.raw import RawMessage

KEY: Final = "_key"
TO: Final = "_to"
_LACKS: Final = ("_lacks", "_before_lacks")
_AROUND: Final = ("_topic", "_partition", "_offset", "_timestamp", KEY, "_op", "_before", *_LACKS)
_NAMES: Final = pa.list_(pa.string())


def batch_of_changes(raws: Sequence[RawMessage], changes: DecodedChanges) -> pa.RecordBatch:
    """Return the batch for decoded changes of one table."""
    has_after = pa.array(changes.has_after)
    rows = [
        pc.if_else(has_after, after, before)
        for after, before in zip(changes.after.columns, changes.before.columns, strict=True)
    ]
    before = pa.StructArray.from_arrays(
        changes.before.columns, fields=list(changes.before.schema), mask=pa.array(~changes.has_before)
    )
    lacks = pc.if_else(has_after, changes.after_lacks, changes.before_lacks)
    lists = [_lists(lacks), _lists(changes.before_lacks)]
    return _batch(raws, pa.RecordBatch.from_arrays(rows, schema=changes.after.schema), changes.op, before, lists)


def batch_of_records(
    raws: Sequence[RawMessage], messages: Sequence[Message], schema: pa.Schema | None
) -> pa.RecordBatch:
    """Return the batch for decoded records, whose columns Arrow infers from all of them if `schema` is None.

    Then it has every column that one of them has, with NULL where a record has it
    not. Of a change in flat JSON, or in somebody else's envelope, the row is taken. ValueError for a
    value that is no record, ArrowInvalid for values that are not of one type.
    """
    for message in messages:
        if not isinstance(message.value, dict | None):
            text = f"its value is a {type(message.value).__name__}, and only records have columns"
            raise ValueError(text)  # noqa: TRY004 - one error for all values that are not as wanted
    changes = [row_images(message.value) for message in messages]
    rows = [
        dict(each.row or {}) if each else (message.value or {}) for message, each in zip(messages, changes, strict=True)
    ]
    befores = [each.before if each else None for each in changes]
    if schema is None:
        values = _inferred([*rows, *(dict(each or {}) for each in befores)]).slice(0, len(rows))
    else:
        values = pa.RecordBatch.from_pylist(rows, schema=schema)
    ops = pa.array([each.op if each else None for each in changes], pa.string())
    before = pa.array(befores, pa.struct(list(values.schema)))
    lacks: list[ArrowArray] = [
        pa.array([list(each.lacks) if each else [] for each in changes], _NAMES),
        pa.array([list(each.before_lacks) if each else [] for each in changes], _NAMES),
    ]
    return _batch(raws, values, ops, before, lacks)


def _inferred(rows: Sequence[dict[str, object]]) -> pa.RecordBatch:
    """Return rows with all columns that any of them has, in the order of first sight: Arrow takes the first row's."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.RecordBatch.from_arrays([pa.array([row.get(name) for row in rows]) for name in names], names=names)


def _lists(texts: pa.StringArray) -> ArrowArray:
    """Read JSON lists of names (string[n]), "" for none."""
    found = texts.dictionary_encode()
    lists: ArrowArray = pa.array([json.loads(text or "[]") for text in found.dictionary.to_pylist()], _NAMES)
    return lists.take(found.indices)


def _batch(
    raws: Sequence[RawMessage],
    values: pa.RecordBatch,
    ops: pa.StringArray,
    before: ArrowArray,
    lacks: Sequence[ArrowArray],
) -> pa.RecordBatch:
    taken = sorted({*_AROUND, TO} & set(values.schema.names))
    if taken:
        text = f"the row has a column called {taken[0]}, which Penstock uses in batches: take single messages instead"
        raise ValueError(text)
    around: list[ArrowArray] = [
        pa.array([raw.topic for raw in raws], pa.string()),
        pa.array([raw.partition for raw in raws], pa.int32()),
        pa.array([raw.offset for raw in raws], pa.int64()),
        pa.array([raw.timestamp_ms for raw in raws], pa.timestamp("ms", "UTC")),
        pa.array([raw.key for raw in raws], pa.binary()),
        ops,
        before,
        *lacks,
    ]
    return pa.RecordBatch.from_arrays([*around, *values.columns], names=[*_AROUND, *values.schema.names])


def values_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns of a batch that came back which are its values."""
    return batch.select([name for name in batch.schema.names if name not in {*_AROUND, TO}])


def told(batch: pa.RecordBatch, column: str) -> list[object]:
    """Return what a batch that came back tells in `_key` or `_to`; None for each row where it has no such column."""
    if column in batch.schema.names:
        return list(batch.column(column).to_pylist())
    return [None] * batch.num_rows
