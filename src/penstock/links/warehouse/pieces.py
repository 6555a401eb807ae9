"""From batch files to rows that can be staged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import FULL_REFRESH, START_ANEW, SinkError, TableStoppedError
from penstock.core.file_formats import parse_batch_file
from penstock.core.files import LACKS, OFFSET, OP, TS_MS
from penstock.core.warehouse.partial_rows import Lacking
from penstock.links.batch_files import read_content

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.batches import Batch
    from penstock.core.tables import Column, TableSchema
    from penstock.core.warehouse.load_plan import Piece, Step
    from penstock.ports.objects import ObjectStore


def read_piece(objects: ObjectStore, schema: TableSchema, piece: Piece, *, timed: bool = False) -> pa.Table | None:
    """Return the new rows of `piece`, treated and laid out as files of `schema`; None if it has no file.

    `timed` gives each row the commit time of its file's newest change, where files
    do not say more. Raises TableStoppedError for a file that is missing, or not
    what its batch says.
    """
    batch = piece.batch
    if not batch.rows:
        return None
    try:
        filed = piece.treatment.arriving if piece.treatment else schema
        rows = parse_batch_file(filed, batch, read_content(objects, batch))
    except SinkError as error:
        raise TableStoppedError(str(batch.table), "", batch.file_place, error.message, _refetch(batch)) from error
    except ValueError as error:
        reason = f"it is not the file that was written: {error}"
        raise TableStoppedError(str(batch.table), "", batch.file_place, reason, _refetch(batch)) from error
    if piece.from_offset > batch.start_offset:
        rows = rows.filter(pc.greater_equal(rows.column(OFFSET), pa.scalar(piece.from_offset)))
    if piece.treatment:
        rows = piece.treatment.apply(rows)
    if timed and TS_MS not in rows.column_names:
        rows = rows.append_column(TS_MS, pa.repeat(pa.scalar(batch.last_timestamp_ms, pa.int64()), rows.num_rows))
    return rows


def read_in_parts(
    objects: ObjectStore, schema: TableSchema, step: Step, bytes_max: int, *, timed: bool = False
) -> Iterator[tuple[Step, pa.Table | None]]:
    """Yield `step` in parts, each a step of its own, with their rows as `read_piece` returns them, or None.

    A part ends where its rows have `bytes_max` bytes in memory, which files do not
    tell: large values may be small in them. The next files are read when it is done.
    """
    pieces: list[Piece] = []
    held: list[pa.Table] = []
    held_bytes = 0
    for piece in step.pieces:
        if held_bytes >= bytes_max:
            yield replace(step, pieces=tuple(pieces)), _taken(held)
            pieces, held_bytes = [], 0
        pieces.append(piece)
        if (rows := read_piece(objects, schema, piece, timed=timed)) is not None:
            held.append(rows)
            held_bytes += rows.nbytes
        # Who gets them has the only copy.
        del rows
    yield replace(step, pieces=tuple(pieces)), _taken(held)


def _taken(held: list[pa.Table]) -> pa.Table | None:
    """Return the rows of `held`, which forgets them: who gets them has the only copy."""
    rows = pa.concat_tables(held) if held else None
    held.clear()
    return rows


def newest_rows(schema: TableSchema, rows: pa.Table) -> pa.Table:
    """Return, of `rows` laid out as files, those that a merge needs, in the order of their keys.

    Of a table with a key that is the newest change of each key, as far as Arrow
    takes two keys for equal; a merge looks again. It costs less here than to bring
    rows into a warehouse that are old already, and a sorted key is quicker to find.
    """
    if not schema.key or schema.partial_rows:
        return rows
    names = [column.name for column in key_columns(schema)]
    if any(pa.types.is_nested(rows.schema.field(name).type) for name in names):
        return rows
    # Sorting is stable. Several partitions are in the order of their batches, not of their offsets.
    offsets = rows.column(OFFSET).to_numpy()
    if (offsets[1:] < offsets[:-1]).any():
        rows = rows.take(np.argsort(offsets, kind="stable"))
    order = pc.sort_indices(rows.select(names).combine_chunks(), sort_keys=[(name, "ascending") for name in names])
    keys = rows.select(names).take(order)
    last = np.zeros(rows.num_rows, np.bool_)
    last[-1:] = True
    for name in names:
        ahead, behind = keys.column(name).slice(1), keys.column(name).slice(0, rows.num_rows - 1)
        last[:-1] |= pc.not_equal(ahead, behind).to_numpy()
    return rows.take(order.to_numpy()[last])


def key_columns(schema: TableSchema) -> tuple[Column, ...]:
    """Return the columns of the key, in the order of the columns."""
    key = {name.casefold() for name in schema.key}
    return tuple(column for column in schema.columns if column.name.casefold() in key)


def count_changes(rows: pa.Table) -> int:
    """Return how many changes `rows` stand for: an update's two images are one."""
    doubled = pc.equal(rows.column(OP), pa.scalar("u-"))
    return rows.num_rows - rows.filter(doubled).num_rows


def find_lacking(schema: TableSchema, rows: pa.Table) -> Lacking:
    """Return which columns of `schema` some of `rows`, laid out as files, lack. One that went lacks nothing we need."""
    found: dict[str, set[str]] = {"c": set(), "u": set()}
    if schema.partial_rows and schema.key:
        for kind in rows.group_by([OP, LACKS]).aggregate([]).to_pylist():
            flags = zip(schema.columns, kind[LACKS], strict=False)
            found.setdefault(kind[OP], set()).update(column.name for column, flag in flags if flag == "1")
    return Lacking(created=found["c"], changed=found["u"])


def _refetch(batch: Batch) -> str:
    if batch.content is None:
        return f"restore the file, or {START_ANEW}"
    return f"{FULL_REFRESH}; or, where it has no primary key, {START_ANEW}"
