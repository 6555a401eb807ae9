"""Kafka messages back to row changes: the Avro envelopes of one table and one schema, all at once."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.arrow_types import arrow_schema
from penstock.core.avro.buffers import binary_octets, binary_offsets
from penstock.core.avro.decode_columns import pass_column, read_column, read_text, text_array
from penstock.core.avro.json_values import refuse
from penstock.core.avro.layout import parse_layout
from penstock.core.avro.lockstep import Cursors
from penstock.core.avro.schemas import AFTER_LACKS, BEFORE_LACKS
from penstock.core.avro.schemas import value_schema as written_schema
from penstock.core.avro.wire import FRAME_BYTES, schema_ids
from penstock.core.changes import Op

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from penstock.core.avro.arrays import Flags, Integers
    from penstock.core.avro.layout import RecordLayout
    from penstock.core.tables import TableSchema

_MESSAGES_AT_ONCE: Final = 8192
"""So few that their bytes stay in the processor's cache while field after field is read."""

_OPS: Final = np.frombuffer("".join(Op).encode(), dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class DecodedChanges:
    """n changes of one table, as columns, in the order of their messages.

    `before` and `after` have one column per column of the table, with the types
    of `penstock.core.arrow_types`, all nullable: where a change has no such row
    (`has_before`, `has_after`) every value is null.

    `op`      string[n]  one of the letters of `penstock.core.changes.Op`
    `source`  string[n]  the source's name in the config
    `file`    string[n]  log file of the source
    `pos`     int64[n]   byte offset of the event in `file`
    `row`     int32[n]   index of the row in its event
    `ts_ms`   int64[n]   commit time in the source, Unix milliseconds
    `gtid`    string[n]  GTID of the transaction, "" where there is none
    `db`, `table`  string[n]  the table's names in the source
    `before_lacks`, `after_lacks`  string[n]  the columns without values, as a JSON list; "" where there is none
    `server_id`  int64[n]   the server that made the change, as the source numbers it
    """

    op: pa.StringArray
    before: pa.RecordBatch
    has_before: Flags
    after: pa.RecordBatch
    has_after: Flags
    source: pa.StringArray
    file: pa.StringArray
    pos: Integers
    row: np.ndarray[tuple[int, ...], np.dtype[np.int32]]
    ts_ms: Integers
    gtid: pa.StringArray
    db: pa.StringArray
    table: pa.StringArray
    before_lacks: pa.StringArray
    after_lacks: pa.StringArray
    server_id: Integers

    def __len__(self) -> int:
        """How many changes there are."""
        return len(self.pos)

    def part(self, low: int, high: int) -> DecodedChanges:
        """Those from `low` on, up to and without `high`; nothing is copied."""
        return _part(self, low, high)


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """n changes of one table with one row each, as columns, in the order of their messages.

    `rows` has the row as it is after the change, or as it was before where there is
    no other (`is_before`), with the columns of `DecodedChanges.after`; `lacks` is
    string[n], the columns that this row has no values of, as a JSON list, "" where
    there are none. The others are those of `DecodedChanges`.
    """

    op: pa.StringArray
    rows: pa.RecordBatch
    is_before: Flags
    source: pa.StringArray
    file: pa.StringArray
    pos: Integers
    row: np.ndarray[tuple[int, ...], np.dtype[np.int32]]
    ts_ms: Integers
    lacks: pa.StringArray

    def __len__(self) -> int:
        """How many changes there are."""
        return len(self.pos)

    def part(self, low: int, high: int) -> DecodedRows:
        """Those from `low` on, up to and without `high`; nothing is copied."""
        return _part(self, low, high)


_Decoded = TypeVar("_Decoded", bound=DecodedChanges | DecodedRows)


def decode_changes(schema: TableSchema, value_schema: str, values: pa.BinaryArray) -> DecodedChanges:
    """Decode messages (binary[n], framed as on the wire) that were all written with `value_schema`.

    `schema` is the table that `value_schema` was made of. Raises CorruptLogError,
    with the index of the first message in question, for a tombstone, for another
    schema's id, and for bytes that do not decode or are left over; PenstockError
    when `value_schema` is not an envelope of `schema`.
    """
    row = _row_layout(schema, value_schema)
    return joined([_decode_piece(schema, row, cursors) for cursors in _pieces(values)])


def decode_rows(schema: TableSchema, value_schema: str, values: pa.BinaryArray) -> DecodedRows:
    """Decode of each message one row alone, which is a third quicker; otherwise as `decode_changes`.

    What a row was before an update is passed over, and so is text in it that is not
    UTF-8. Raises CorruptLogError for a message without any row, too.
    """
    row = _row_layout(schema, value_schema)
    return joined([_decode_rows_piece(schema, row, cursors) for cursors in _pieces(values)])


def joined(pieces: Sequence[_Decoded]) -> _Decoded:
    """Put pieces of one table and schema together, column by column."""
    if len(pieces) == 1:
        return pieces[0]
    columns: dict[str, Any] = {}
    for each in fields(pieces[0]):
        parts = [getattr(piece, each.name) for piece in pieces]
        match parts[0]:
            case pa.RecordBatch():
                columns[each.name] = pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
            case pa.Array():
                columns[each.name] = pa.concat_arrays(parts)
            case _:
                columns[each.name] = np.concatenate(parts)
    return type(pieces[0])(**columns)


def _part(whole: _Decoded, low: int, high: int) -> _Decoded:
    if (low, high) == (0, len(whole)):
        return whole
    columns: dict[str, Any] = {}
    for each in fields(whole):
        column = getattr(whole, each.name)
        is_arrow = isinstance(column, pa.RecordBatch | pa.Array)
        columns[each.name] = column.slice(low, high - low) if is_arrow else column[low:high]
    return type(whole)(**columns)


def _pieces(values: pa.BinaryArray) -> Iterator[Cursors]:
    """Yield cursors for a few messages after the other."""
    ids = schema_ids(values)
    for start in range(0, max(1, len(values)), _MESSAGES_AT_ONCE):
        yield _open_cursors(values, ids, start)


def _decode_piece(schema: TableSchema, row: RecordLayout, cursors: Cursors) -> DecodedChanges:
    """Decode the next few messages."""
    before, has_before = _read_image(cursors, "before", row, schema)
    after, has_after = _read_image(cursors, "after", row, schema)
    for name in ("version", "connector"):
        cursors.read_spans(None, name)
    source = read_text(cursors, "name")
    ts_ms = cursors.read_numbers(None, "ts_ms")
    db, table = read_text(cursors, "db"), read_text(cursors, "table")
    server_id = cursors.read_numbers(None, "server_id")
    gtid = read_text(cursors, "gtid", nullable=True)
    file, pos = read_text(cursors, "file"), cursors.read_numbers(None, "pos")
    place = cursors.read_numbers(None, "row", 32).astype(np.int32)
    op = _read_op(cursors)
    cursors.read_numbers(None, "ts_ms")
    before_lacks, after_lacks = (_read_lacking(cursors, name, schema) for name in (BEFORE_LACKS, AFTER_LACKS))
    cursors.finish()
    return DecodedChanges(
        op,
        before,
        has_before,
        after,
        has_after,
        source,
        file,
        pos,
        place,
        ts_ms,
        gtid,
        db,
        table,
        before_lacks,
        after_lacks,
        server_id,
    )


def _decode_rows_piece(schema: TableSchema, row: RecordLayout, cursors: Cursors) -> DecodedRows:
    """Decode one row of each of the next few messages."""
    rows, is_before = _read_row(cursors, row, schema)
    for name in ("version", "connector"):
        cursors.read_spans(None, name)
    source = read_text(cursors, "name")
    ts_ms = cursors.read_numbers(None, "ts_ms")
    for name in ("db", "table"):
        cursors.read_spans(None, name)
    cursors.pass_numbers(None, "server_id")
    cursors.read_spans(cursors.read_branches("gtid"), "gtid")
    file, pos = read_text(cursors, "file"), cursors.read_numbers(None, "pos")
    place = cursors.read_numbers(None, "row", 32).astype(np.int32)
    op = _read_op(cursors)
    cursors.pass_numbers(None, "ts_ms")
    before_lacks, after_lacks = (_read_lacking(cursors, name, schema) for name in (BEFORE_LACKS, AFTER_LACKS))
    cursors.finish()
    lacks = pc.if_else(pa.array(is_before), before_lacks, after_lacks) if schema.partial_rows else after_lacks
    return DecodedRows(op, rows, is_before, source, file, pos, place, ts_ms, lacks)


@lru_cache(maxsize=256)
def _row_layout(schema: TableSchema, value_schema: str) -> RecordLayout:
    """Return the layout of the rows, after a check that the envelope around them is the one read here."""
    layout = parse_layout(value_schema)
    if layout != parse_layout(written_schema(schema)):
        refuse(f"its envelope is not the one this release writes for {schema.table}")
    return layout.record("before")


def _open_cursors(values: pa.BinaryArray, ids: Integers, start: int) -> Cursors:
    """Put a cursor behind the frame of each of the next few messages, which must all have one schema id."""
    piece = values.slice(start, _MESSAGES_AT_ONCE)
    offsets = binary_offsets(piece).astype(np.int64)
    content = binary_octets(piece)[offsets[0] : offsets[-1]]
    begins, ends = offsets[:-1] - offsets[0] + FRAME_BYTES, offsets[1:] - offsets[0]
    cursors = Cursors(content, begins, ends, start, len(values))
    same = ids[start : start + len(piece)] == ids[:1]
    cursors.require(same, "its schema id", "it is not that of the first message")
    return cursors


def _read_row(cursors: Cursors, layout: RecordLayout, schema: TableSchema) -> tuple[pa.RecordBatch, Flags]:
    """Read the row after the change of every message, or the row before where it has no other; and which those are."""
    has_before = cursors.read_branches("before")
    before = cursors.places()
    passed = cursors.chosen(has_before)
    for field in layout.fields:
        pass_column(passed, field)
    cursors.rejoin(passed, has_before)
    is_before = ~cursors.read_branches("after")
    cursors.require(has_before | ~is_before, "after", "it has no row")
    behind = cursors.places()
    cursors.go_to(np.where(is_before, before, behind))
    columns = [read_column(cursors, *each) for each in zip(layout.fields, schema.columns, strict=True)]
    cursors.go_to(np.where(is_before, behind, cursors.places()))
    return pa.RecordBatch.from_arrays(columns, schema=_nullable(schema)), is_before


def _nullable(schema: TableSchema) -> pa.Schema:
    return pa.schema([field.with_nullable(nullable=True) for field in arrow_schema(schema)])


def _read_image(
    cursors: Cursors, image: str, layout: RecordLayout, schema: TableSchema
) -> tuple[pa.RecordBatch, Flags]:
    """Read one of the two rows of every message, null where it has none, and which messages have it."""
    there = cursors.read_branches(image)
    part = cursors.chosen(there)
    columns = [read_column(part, *each) for each in zip(layout.fields, schema.columns, strict=True)]
    cursors.rejoin(part, there)
    rows = pa.RecordBatch.from_arrays(columns, schema=_nullable(schema))
    if there.all():
        return rows, there
    return rows.take(pa.array(np.cumsum(there) - 1, mask=~there)), there


def _read_lacking(cursors: Cursors, field: str, schema: TableSchema) -> pa.StringArray:
    if not schema.partial_rows:
        return pa.repeat("", len(cursors))
    found = read_text(cursors, field, nullable=True)
    may_lack = {column.name for column in schema.columns}
    if field == AFTER_LACKS:
        may_lack.difference_update(schema.key)
    texts = found.dictionary_encode()
    fits = [_names_some(text, may_lack) for text in texts.dictionary.to_pylist()]
    cursors.require(np.array(fits, np.bool_)[texts.indices.to_numpy()], field, "it names what no row can lack")
    return found


def _names_some(text: str | None, may_lack: AbstractSet[str]) -> bool:
    """Whether a text is "", or a list in JSON of some of the columns that a row may lack."""
    if not text:
        return True
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(names, list) and all(isinstance(name, str) and name in may_lack for name in names)


def _read_op(cursors: Cursors) -> pa.StringArray:
    spans = cursors.read_spans(None, "op")
    known = np.isin(cursors.octets[spans.begins], _OPS) & (spans.lengths == 1)
    cursors.require(known, "op", "it is no letter of an operation")
    return text_array(cursors, spans, None, "op")
