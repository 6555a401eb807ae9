"""Changes of a table as transforms take them: row images, what each lacks, and which change has which of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.changes import Op
from penstock.core.key_alone import blank, find_key_alone
from penstock.core.transforms.transform import refuse

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.core.avro.envelope_decode import DecodedChanges
    from penstock.core.errors import TableStoppedError
    from penstock.core.tables import TableSchema

NOWHERE: Final = -1
_WHOLE_ROWS: Final = (
    "let the log have whole rows (PostgreSQL: ALTER TABLE ... REPLICA IDENTITY FULL; MySQL and MariaDB: "
    "binlog_row_image=FULL), leave this message to the dead letters (on_error: dead_letter of the spolt), and have "
    "the table's rows read again behind it (penstock snapshot FILE TABLE)"
)


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """n changes of one table, in order, and the m row images that they have.

    `images`                table of m rows, the columns of `schema`
    `ops`                   letters of `penstock.core.changes.Op` (str[n])
    `before_at`, `after_at` int64[n], which of the images the row before and after
                            the change is; -1 where there is none
    `origin`                int64[n], which change of what was read it comes from
    `lacks`                 int64[m], which of `patterns` names the columns that the
                            log has no values of in an image; they are null there
    """

    schema: TableSchema
    images: pa.Table
    ops: npt.NDArray[np.str_]
    before_at: npt.NDArray[np.int64]
    after_at: npt.NDArray[np.int64]
    origin: npt.NDArray[np.int64]
    lacks: npt.NDArray[np.int64]
    patterns: tuple[frozenset[str], ...]

    def __len__(self) -> int:
        """How many changes there are."""
        return len(self.ops)

    def before(self) -> pa.Table:
        """Return the rows before the changes (n), all null where there is none."""
        return _take(self.images, self.before_at)

    def after(self) -> pa.Table:
        """Return the rows after the changes (n), all null where there is none."""
        return _take(self.images, self.after_at)

    def images_without(self, columns: Collection[str]) -> npt.NDArray[np.bool_]:
        """Return which images lack one of `columns`, or more (bool[m])."""
        hit = np.array([not pattern.isdisjoint(columns) for pattern in self.patterns], dtype=np.bool_)
        return hit[self.lacks]

    def lacking(self, at: npt.NDArray[np.int64]) -> list[tuple[str, ...]]:
        """Return what each of n images, -1 for none, lacks, in the order of the columns."""
        names = [
            tuple(column.name for column in self.schema.columns if column.name in pattern) for pattern in self.patterns
        ]
        return [() if place == NOWHERE else names[self.lacks[place]] for place in at.tolist()]


def changed_rows(schema: TableSchema, changes: DecodedChanges) -> ChangedRows:
    """Return decoded changes of a table with `schema` as what can be transformed."""
    before, after = (
        pa.Table.from_batches([rows]).filter(pa.array(there))
        for rows, there in ((changes.before, changes.has_before), (changes.after, changes.has_after))
    )
    images = pa.concat_tables([before, after])
    before_at = np.where(changes.has_before, np.cumsum(changes.has_before) - 1, NOWHERE)
    after_at = np.where(changes.has_after, np.cumsum(changes.has_after) - 1 + before.num_rows, NOWHERE)
    ops = np.asarray(changes.op.to_pylist(), dtype="U1")
    origin = np.arange(len(ops), dtype=np.int64)
    lacks, patterns = _lacking(changes)
    if not schema.partial_rows:
        # What a table says cannot lack columns, a delete of a key that was not there lacks all the same.
        is_key_alone = find_key_alone(schema, changes.before) & (ops == Op.DELETE)
        lacks[before_at[is_key_alone]] = len(patterns)
        patterns = (*patterns, all_but_key(schema))
    return ChangedRows(schema, images, ops, before_at, after_at, origin, lacks, patterns)


def with_blanks(changes: ChangedRows) -> ChangedRows:
    """Return `changes` as they are published: rows of a table that cannot say what they lack have blanks there."""
    if changes.schema.partial_rows or not any(changes.patterns):
        return changes
    columns = [
        pc.if_else(pa.array(changes.images_without([column.name])), blank(column, 1)[0], values)
        for column, values in zip(changes.schema.columns, changes.images.columns, strict=True)
    ]
    images = pa.Table.from_arrays(columns, schema=changes.images.schema)
    return replace(changes, images=images, patterns=(frozenset(),) * len(changes.patterns))


def all_but_key(schema: TableSchema) -> frozenset[str]:
    """The columns that a row lacks of which only the key is known."""
    return frozenset(column.name for column in schema.columns) - frozenset(schema.key)


def unknown_value(schema: TableSchema, column: str, need: str) -> TableStoppedError:
    """Build the error that stops a table where a new row lacks a column, and `need` says who cannot do without."""
    return refuse(schema, column, f"the log lacks its value in a row that was written, and {need}", _WHOLE_ROWS)


def _lacking(changes: DecodedChanges) -> tuple[npt.NDArray[np.int64], tuple[frozenset[str], ...]]:
    """Return what each image lacks, those before the changes first."""
    found = pa.concat_arrays(
        [
            changes.before_lacks.filter(pa.array(changes.has_before)),
            changes.after_lacks.filter(pa.array(changes.has_after)),
        ]
    ).dictionary_encode()
    patterns = (frozenset(json.loads(text) if text else ()) for text in found.dictionary.to_pylist())
    return np.array(found.indices, dtype=np.int64), tuple(patterns)


def _take(images: pa.Table, at: npt.NDArray[np.int64]) -> pa.Table:
    return images.take(pa.array(np.maximum(at, 0), pa.int64(), mask=at == NOWHERE))
