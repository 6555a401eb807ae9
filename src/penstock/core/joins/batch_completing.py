"""Rows that lack columns made whole for the batch join, by SQL: each column of a row as its newest message that has it.

The statements are DuckDB's. They find by themselves what a row was before: see core/joins/completing.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.joins.cells import decode_cells, split_cells
from penstock.core.joins.events import DELETE, Marks, whole_events

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.core.avro.arrays import ArrowArray
    from penstock.core.joins.plan import JoinPlan

_MARKS = ("part", "position", "place", "place_row")


def cells_table(index: int) -> str:
    """The table that has the cells of an input's messages."""
    return f"cells_{index}"


def whole_table(index: int) -> str:
    """The table that `complete_statements` make: the newest of each row, with all of its cells."""
    return f"whole_{index}"


def create_cells(plan: JoinPlan, index: int) -> str:
    """Make the table for the cells of a partial input."""
    numbers = "part INTEGER, position BIGINT, place BIGINT, place_row INTEGER, op UTINYINT, row_key BLOB"
    cells = "".join(f", c{number} BLOB" for number in range(len(plan.inputs[index].needed)))
    return f"CREATE TABLE {cells_table(index)} ({numbers}{cells})"


def cells_rows(plan: JoinPlan, index: int, events: pa.RecordBatch) -> tuple[pa.RecordBatch, Collection[int]]:
    """Events of a partial input as rows of its table, and the numbers of columns that any of them lacks."""
    is_row = np.asarray(pc.not_equal(events.column("op"), pa.scalar(DELETE, pa.uint8())), np.bool_)
    kept: Any = events.filter(pa.array(is_row)).column("row")
    _, cells = split_cells(plan.inputs[index], kept)
    at = pa.array(np.cumsum(is_row) - 1, mask=~is_row)
    columns: list[Any] = [events.column(name) for name in (*_MARKS, "op", "row_key")]
    names = [*_MARKS, "op", "row_key", *(f"c{number}" for number in range(len(cells)))]
    lacking = [number for number, cell in enumerate(cells) if cell.null_count]
    return pa.RecordBatch.from_arrays([*columns, *(cell.take(at) for cell in cells)], names=names), lacking


def complete_statements(
    plan: JoinPlan, index: int, emptied: tuple[int, int] | None, lacking: Collection[int]
) -> Sequence[str]:
    """Leave the newest of each row whole; of the columns, only the numbers `lacking` are lacking anywhere.

    A row is not there that is deleted, or whose changes are behind no whole row of it.
    """
    place, row = emptied or (-1, -1)
    table, newest = cells_table(index), f"newest_{index}"
    whole = " AND ".join(f"c{number} IS NOT NULL" for number in sorted(lacking)) or "TRUE"
    places = "".join(f", max(position) FILTER (c{number} IS NOT NULL) AS p{number}" for number in sorted(lacking))
    # Numbers alone are grouped, so that DuckDB can do it on disk.
    grouped = (
        f"SELECT part, max(position) AS newest, max(position) FILTER (op <> {DELETE} AND {whole}) AS base, "  # noqa: S608 - names and numbers of ours
        f"max(position) FILTER (op = {DELETE}) AS gone{places} FROM {table} "
        f"WHERE place > {place} OR (place = {place} AND place_row >= {row}) GROUP BY part, row_key"
    )
    numbers = range(len(plan.inputs[index].needed))
    cells = "".join(f", {'x' if number not in lacking else f'x{number}'}.c{number}" for number in numbers)
    joins = "".join(
        f" JOIN {table} x{number} ON x{number}.part = n.part AND x{number}.position = n.p{number}"
        for number in sorted(lacking)
    )
    chosen = (
        f"CREATE TABLE {whole_table(index)} AS SELECT x.part, x.position, x.place, x.place_row{cells} FROM {newest} n "  # noqa: S608 - as above
        f"JOIN {table} x ON x.part = n.part AND x.position = n.newest{joins}"
    )
    found = f"CREATE TABLE {newest} AS SELECT * FROM ({grouped}) WHERE base > coalesce(gone, -1)"  # noqa: S608 - as above
    return [found, chosen]


def events_of_whole(plan: JoinPlan, index: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of `whole_table` as the events that put them there. Raises as `whole_events`."""
    part, position, place, place_row, *cells = rows.columns
    marks = Marks(part, position, place, place_row)
    blobs: Sequence[ArrowArray] = cells
    found = decode_cells(plan.inputs[index], blobs)
    return whole_events(plan, index, found, np.zeros(rows.num_rows, np.bool_), marks)
