"""The two forms of a change's message, Avro envelopes and flat JSON, behind the same functions.

What is written is chosen by the source (`EncodableTable.format`); what is read shows by
its first byte which of the two it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from penstock.core.avro import envelope_decode, wire
from penstock.core.avro.envelope_encode import encode_changes as encode_envelopes
from penstock.core.avro.envelope_encode import key_columns, require_fit
from penstock.core.changes import Messages, Op
from penstock.core.errors import CorruptLogError
from penstock.core.json_messages.decode import decode_json_changes, decode_json_rows, json_schema_id
from penstock.core.json_messages.encode import encode_json_keys, encode_json_values
from penstock.core.json_messages.fields import FRONT

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from penstock.core.avro.arrays import Integers
    from penstock.core.avro.envelope_decode import DecodedChanges, DecodedRows
    from penstock.core.avro.envelope_encode import EncodableTable
    from penstock.core.changes import RowBatch
    from penstock.core.tables import TableSchema

_HINT: Final = "let only Penstock write to this topic, or read it from an offset after the foreign messages"


def encode_changes(
    table: EncodableTable, batch: RowBatch, processed_at_ms: int
) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """Return a key and a value (binary[n] each) for each change of `batch`, in the table's format.

    See core/avro/envelope_encode.encode_changes, also for what is raised.
    """
    if table.format == "avro":
        return encode_envelopes(table, batch, processed_at_ms)
    require_fit(table.schema, batch)
    columns = key_columns(table, batch)
    keys = pa.nulls(len(batch), pa.binary()) if columns is None else encode_json_keys(table.schema, columns)
    return keys, encode_json_values(table.source, table.connector, table.value_schema_id, batch)


def changes_as_messages(
    table: EncodableTable,
    topic: str,
    op: Op,
    encoded: tuple[pa.BinaryArray, pa.BinaryArray],
    order: npt.NDArray[np.int64] | Sequence[int],
) -> Messages:
    """Return the messages of changes of one `op`, which `encoded` has the keys and the values of.

    In JSON a delete is two: its change, and a tombstone, by which compaction lets go of the key.
    """
    keys, values = encoded
    if table.format == "avro" or op is not Op.DELETE or table.key_schema_id is None:
        return Messages(topic, keys, values, order)
    count = len(keys)
    twice = pa.array(np.repeat(np.arange(count), 2), pa.int64())
    with_tombstones = pa.array(np.arange(2 * count) // 2, pa.int64(), mask=np.arange(2 * count) % 2 == 1)
    return Messages(topic, keys.take(twice), values.take(with_tombstones), np.repeat(np.asarray(order, np.int64), 2))


def schema_ids(values: pa.BinaryArray) -> Integers:
    """Return the schema id of every message (int64[n]), all of the same format.

    Raises CorruptLogError, with the index of the first such message, for one that is
    null (a tombstone), or of no format or another one.
    """
    if not is_json(values):
        return wire.schema_ids(values)
    found = [json_schema_id(value or b"") for value in values.to_pylist()]
    if None in found:
        index = found.index(None)
        reason = f"message {index} of {len(found)} does not begin as Penstock's JSON messages do, and the first does"
        raise CorruptLogError(reason, _HINT)
    return np.array(found, np.int64)


def decode_changes(schema: TableSchema, value_schema: str, values: pa.BinaryArray) -> DecodedChanges:
    """Decode messages of either format: see core/avro/envelope_decode.decode_changes."""
    if is_json(values):
        return decode_json_changes(schema, values)
    return envelope_decode.decode_changes(schema, value_schema, values)


def decode_rows(schema: TableSchema, value_schema: str, values: pa.BinaryArray) -> DecodedRows:
    """Decode of each message one row alone: see core/avro/envelope_decode.decode_rows."""
    if is_json(values):
        return decode_json_rows(schema, values)
    return envelope_decode.decode_rows(schema, value_schema, values)


def is_json(values: pa.BinaryArray) -> bool:
    """Whether the first of some messages is a JSON message of ours."""
    return len(values) > 0 and (values[0].as_py() or b"").startswith(FRONT)
