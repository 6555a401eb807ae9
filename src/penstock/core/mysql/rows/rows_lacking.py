"""Row images that lack columns: what can be told of them all the same, and where it cannot.

Tried on MariaDB 10.11 and 11.8 and on MySQL 9.7. With binlog_row_image=MINIMAL an
inserted row lacks the columns that took their defaults, unless those are
computed; an updated one lacks before the update all but its key, and after it all
that stayed as it was. NOBLOB leaves out only TEXT, BLOB, JSON and geometries.
MariaDB's FULL_NODUP leaves out after an update what stayed as it was. On MariaDB
all but FULL and NOBLOB leave out virtual columns without an index although they
change. MariaDB 11.8 leaves every generated column, STORED ones too, out of updates
and deletes, whatever the setting is; 10.11 and MySQL log those again that were
computed from a column that an update sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.core.changes import Op
from penstock.core.errors import READ_AGAIN, TableStoppedError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.core.mysql.rows.rows_plain import ArrowArray
    from penstock.core.tables import Column, TableSchema

_SET_FULL = f"set binlog_row_image=FULL on the server, for every session, and {READ_AGAIN}"
_STALE = "the log lacks its values, and has new ones of what the source computes them from"
_COMPUTE_ELSEWHERE = (
    "MariaDB 11.8 leaves generated columns out of updates and deletes, whatever binlog_row_image is: leave the table "
    f"out, or make the column one that the application or a trigger sets, and {READ_AGAIN}; on other servers "
)


@dataclass(frozen=True, slots=True)
class Lacking:
    """The places of the columns that the images before and after a change lack."""

    before: tuple[int, ...]
    after: tuple[int, ...]


def find_lacking(schema: TableSchema, op: Op, images: Sequence[Sequence[int]], where: str) -> Lacking:
    """Return what rows lack whose `images` have these columns, by their places in the table.

    An update cannot have changed what is in its first image and not in its
    second. Raises TableStoppedError, naming `where`, if the rows cannot be carried.
    """
    width = len(schema.columns)
    if all(len(image) == width for image in images):
        return Lacking((), ())
    there = [set(image) for image in images]
    written = [schema.columns[index] for index in images[-1]]
    if op is Op.UPDATE:
        there[1] |= {index for index in there[0] if not _is_stale(schema.columns[index], written)}
    lacking = [tuple(sorted({*range(width)} - image)) for image in there]
    found = Lacking(() if op in {Op.CREATE, Op.READ} else lacking[0], () if op is Op.DELETE else lacking[-1])
    if any(lacking):
        _check_table(schema, {*found.before, *found.after}, where)
        for index in found.after:
            _check_known(schema, schema.columns[index], op, where)
            if op is Op.UPDATE and _is_stale(schema.columns[index], written):
                raise _stopped(schema, schema.columns[index].name, where, _STALE, f"{_COMPUTE_ELSEWHERE}{_SET_FULL}")
    return found


def put_together(
    schema: TableSchema, arrow: pa.Schema, images: Sequence[Sequence[int]], arrays: Sequence[ArrowArray]
) -> list[pa.RecordBatch]:
    """Make rows of the columns that `images` have, whose values are `arrays`, one image after the other.

    A second image takes what it lacks from the first, as `find_lacking` says; what
    is lacking then is NULL. Columns behind those of the table are left out.
    """
    remaining, rows = iter(arrays), len(arrays[0])
    there: dict[int, ArrowArray] = {}
    batches = []
    for image in images:
        there = {
            index: array
            for index, array in there.items()
            if index < len(arrow) and not schema.columns[index].is_virtual
        }
        there |= zip(image, islice(remaining, len(image)), strict=True)
        columns = [
            there[index] if index in there else pa.nulls(rows, arrow.field(index).type) for index in range(len(arrow))
        ]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=arrow))
    return batches


def _is_stale(column: Column, written: Sequence[Column]) -> bool:
    """Whether a column that an update does not log may have changed with those that it does."""
    return column.is_virtual or any(column.may_read(other.name) for other in written)


def _check_table(schema: TableSchema, lacking: Collection[int], where: str) -> None:
    """Raise TableStoppedError unless rows of the table may lack these columns."""
    if not schema.partial_rows and all(schema.columns[index].expression for index in lacking):
        name = schema.columns[min(lacking)].name
        reason = "rows were logged without it: the source computes it"
        raise _stopped(schema, name, where, reason, f"{_COMPUTE_ELSEWHERE}{_SET_FULL}")
    if not schema.partial_rows:
        reason = "its rows were logged without all of their columns"
        hint = f"{_SET_FULL}; or, if less will do, give the source `row_images: partial`, in a new pipeline"
        raise _stopped(schema, "", where, reason, hint)
    if not schema.key:
        reason = "its rows were logged without all of their columns, and it has no primary key to know them by"
        raise _stopped(schema, "", where, reason, f"give it a primary key, or {_SET_FULL}")
    for index in lacking:
        if schema.columns[index].name in schema.key:
            reason = "a row was logged without a column of its primary key"
            raise _stopped(schema, schema.columns[index].name, where, reason, _SET_FULL)


def _check_known(schema: TableSchema, column: Column, op: Op, where: str) -> None:
    """Raise TableStoppedError for a column of a new image that is not as it was, nor as the table's schema says."""
    if column.is_virtual:
        reason = "the log lacks its values, as the source computes them whenever they are read"
        raise _stopped(schema, column.name, where, reason, f"{_COMPUTE_ELSEWHERE}{_SET_FULL}")
    if op is Op.CREATE and column.default_is_expression:
        reason = "a row was inserted without it, and its default is computed by the source"
        raise _stopped(schema, column.name, where, reason, _SET_FULL)


def _stopped(schema: TableSchema, column: str, where: str, reason: str, hint: str) -> TableStoppedError:
    return TableStoppedError(str(schema.table), column, where, reason, hint)
