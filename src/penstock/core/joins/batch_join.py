"""The join of what topics hold, as one batch in SQL: what the output folded by key is compared with.

The statements are DuckDB's. Join keys, row keys and rows are the bytes that the
join itself would keep; which rows there are, and which of them join, SQL finds by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.arrow_types import arrow_type
from penstock.core.joins.changes import output_changes
from penstock.core.joins.events import DELETE, UPSERT
from penstock.core.joins.keys import key_bytes
from penstock.core.joins.plan import PlannedInput
from penstock.core.joins.rows import decode_stored, encode_stored
from penstock.core.joins.stand_ins import fill_stand_ins
from penstock.core.tables import TableId, TableSchema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.avro.arrays import ArrowArray
    from penstock.core.joins.plan import JoinPlan

OUTPUT_TABLE: Final = "output_messages"
EXPECTED_TABLE: Final = "expected"
_FOLDED_TABLE = "folded"
_SAMPLE_PARTS = 1_000_000_000

_EVENT_COLUMNS = ("part", "position", "place", "place_row", "op", "join_key", "row_key", "row")


def event_table(index: int) -> str:
    """The table that has the events of an input."""
    return f"events_{index}"


@dataclass(frozen=True, slots=True)
class Sample:
    """Of all keys of the output about one in so many; `salt` chooses which."""

    share: float
    salt: int

    def condition(self, columns: Sequence[str]) -> str:
        """The condition on the pieces of a key that holds for keys of the sample."""
        chosen = min(_SAMPLE_PARTS, round(self.share * _SAMPLE_PARTS))
        return f"hash({', '.join(columns)}, {self.salt}) % {_SAMPLE_PARTS} < {chosen}"


EVERYTHING: Final = Sample(1.0, 0)


def create_statements(plan: JoinPlan) -> Sequence[str]:
    """Make the tables for events of each input, for messages of the output, and for what those are compared with."""
    numbers = "part INTEGER, position BIGINT"
    statements = []
    for index in range(len(plan.inputs)):
        pieces = "".join(f", {piece} BLOB" for piece in _pieces_of(plan, index))
        place = "place BIGINT, place_row INTEGER, op UTINYINT"
        blobs = f"join_key BLOB, row_key BLOB, row BLOB{pieces}"
        statements.append(f"CREATE TABLE {event_table(index)} ({numbers}, {place}, {blobs})")
    keys = "".join(f", {piece} BLOB" for piece in _pieces(plan))
    return [
        *statements,
        f"CREATE TABLE {OUTPUT_TABLE} ({numbers}, is_deleted BOOLEAN{keys}, row BLOB)",
        f"CREATE TABLE {EXPECTED_TABLE} (key BLOB, row BLOB)",
    ]


def event_rows(plan: JoinPlan, index: int, events: pa.RecordBatch) -> pa.RecordBatch:
    """Events (events.SCHEMA) of an input as rows of its table."""
    is_row = np.asarray(pc.equal(events.column("op"), pa.scalar(UPSERT, pa.uint8())), np.bool_)
    kept: Any = events.filter(pa.array(is_row)).column("row")
    stored = decode_stored(plan.inputs[index], kept)
    at = pa.array(np.cumsum(is_row) - 1, mask=~is_row)
    columns: list[Any] = [events.column(name) for name in _EVENT_COLUMNS]
    pieces = _pieces_of(plan, index)
    columns += [key_bytes([stored[number]]).take(at) for number in pieces.values()]
    return pa.RecordBatch.from_arrays(columns, names=[*_EVENT_COLUMNS, *pieces])


def fold_statements(plan: JoinPlan, emptied: Mapping[int, tuple[int, int]], sample: Sample) -> Sequence[str]:
    """Leave the newest of each row of the inputs and of the output; inputs were `emptied` at (place, row there)."""
    statements = []
    for index in range(len(plan.inputs)):
        place, row = emptied.get(index, (-1, -1))
        there = f"(place > {place} OR (place = {place} AND place_row >= {row}))"
        statements.append(_fold(f"rows_{index}", event_table(index), "row_key", f"op <> {DELETE}", there))
    statements.append(_fold(_FOLDED_TABLE, OUTPUT_TABLE, ", ".join(_pieces(plan)), "NOT is_deleted", _in(plan, sample)))
    return statements


def _fold(table: str, messages: str, key: str, is_there: str, counts: str) -> str:
    # Numbers alone are grouped, so that DuckDB can do it on disk.
    return (
        f"CREATE TABLE {table} AS SELECT * FROM {messages} JOIN "  # noqa: S608 - names and numbers of ours
        f"(SELECT part, max(position) AS position FROM {messages} WHERE {counts} GROUP BY part, {key}) "
        f"USING (part, position) WHERE {is_there}"
    )


def join_query(plan: JoinPlan, sample: Sample) -> str:
    """The joined rows of the inputs, each as the bytes of a row of every input: columns "0", "1"..."""
    chosen = ", ".join(f'rows_{index}.row AS "{index}"' for index in range(len(plan.inputs)))
    joins = "".join(
        f" {'LEFT ' if given.is_optional else ''}JOIN rows_{index} ON rows_{index}.join_key = rows_0.join_key"
        for index, given in enumerate(plan.inputs)
        if index
    )
    return f"SELECT {chosen} FROM rows_0{joins} WHERE {sample.condition(_joined_pieces(plan))}"  # noqa: S608 - as above


def _joined_pieces(plan: JoinPlan) -> Sequence[str]:
    """The pieces of a joined row's key, of which those of inputs without a match have what stands in for them."""
    pieces = []
    for piece, name in zip(_pieces(plan), plan.output.key, strict=True):
        if name in plan.stand_ins:
            type_ = plan.output.column(name).type
            nothing: Any = pa.array([None], arrow_type(type_))
            (stand_in,) = key_bytes([fill_stand_ins(type_, nothing)]).to_pylist()
            pieces.append(f"coalesce({piece}, from_hex('{bytes(stand_in or b'').hex()}'))")
        else:
            pieces.append(piece)
    return pieces


def count_query(plan: JoinPlan) -> str:
    """How many keys the messages of the output have, about."""
    return f"SELECT approx_count_distinct(hash({', '.join(_pieces(plan))})) FROM {OUTPUT_TABLE}"  # noqa: S608 - as above


FOLDED_QUERY: Final = f"SELECT count(*) FROM {_FOLDED_TABLE}"  # noqa: S608 - as above
EXPECTED_QUERY: Final = f"SELECT count(*) FROM {EXPECTED_TABLE}"  # noqa: S608 - as above


def compare_statement(plan: JoinPlan) -> str:
    """Make the table `differences`: key, row that is expected, row that the output has."""
    key = " || ".join(_pieces(plan))
    return (
        "CREATE TABLE differences AS SELECT coalesce(e.key, f.key) AS key, e.row AS expected, f.row AS found "  # noqa: S608 - as above
        f"FROM {EXPECTED_TABLE} e FULL JOIN (SELECT {key} AS key, row FROM {_FOLDED_TABLE}) f ON e.key = f.key "
        "WHERE e.row IS DISTINCT FROM f.row"
    )


DIFFERENCES_QUERY: Final = "SELECT count(*) FROM differences"


def expected_rows(plan: JoinPlan, images: pa.RecordBatch) -> pa.RecordBatch:
    """What `join_query` answers, one row at least, as rows of the table `expected`."""
    nothing = pa.nulls(images.num_rows, pa.binary())
    count = len(plan.inputs)
    columns: dict[str, Any] = {f"b{index}": nothing for index in range(count)}
    columns |= {f"a{index}": images.column(str(index)) for index in range(count)}
    (rows,) = [each.after for each in output_changes(plan, pa.table(columns)) if each.after is not None]
    keys = key_bytes([rows.column(name) for name in plan.output.key])
    return pa.RecordBatch.from_arrays([keys, encode_stored(_whole(plan), rows)], names=["key", "row"])


def output_rows(plan: JoinPlan, positions: ArrowArray, is_deleted: ArrowArray, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Messages of the output as rows of the table OUTPUT_TABLE: `positions` rise for each key, and none is there twice.

    Their `rows` may lack columns, and have more than the output has now.
    """
    parts = pa.array([0] * rows.num_rows, pa.int32())
    pieces = [key_bytes([rows.column(name)]) for name in plan.output.key]
    columns: list[Any] = [parts, positions, is_deleted, *pieces, encode_stored(_whole(plan), rows)]
    return pa.RecordBatch.from_arrays(columns, names=["part", "position", "is_deleted", *_pieces(plan), "row"])


def shown_rows(plan: JoinPlan, rows: pa.BinaryArray) -> list[dict[str, object]]:
    """Rows of the comparison as their values."""
    whole = _whole(plan)
    names = [column.name for column in whole.stored.columns]
    decoded: list[Any] = decode_stored(whole, rows)
    columns = [column.to_pylist() for column in decoded]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _whole(plan: JoinPlan) -> PlannedInput:
    """The output as if it were kept: all of its columns, of which any may be null."""
    columns = tuple(replace(column, nullable=True, comment="") for column in plan.output.columns)
    stored = TableSchema(TableId("compared", "rows"), columns, ())
    return PlannedInput(plan.output.table.name, (), (), stored, remembered=False)


def _pieces(plan: JoinPlan) -> Sequence[str]:
    """What the columns are called that have the values of the output's key."""
    return [f"k{number}" for number in range(len(plan.output.key))]


def _pieces_of(plan: JoinPlan, index: int) -> Mapping[str, int]:
    """Those that come from an input, each with the number of its stored column."""
    names = [column.name for column in plan.output.columns]
    origins = [plan.origins[names.index(name)] for name in plan.output.key]
    return {f"k{at}": number for at, (each, number) in enumerate(origins) if each == index}


def _in(plan: JoinPlan, sample: Sample) -> str:
    return sample.condition(_pieces(plan))
