"""Which rows of a child are read again, by what the log has of its parent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.arrow_types import arrow_schema
from penstock.core.changes import Op, RowBatch
from penstock.core.mysql.statements.foreign_keys import Cascade, Step
from penstock.core.mysql.statements.rereads import reread_of
from penstock.core.snapshots import Reread, SnapshotOptions, SnapshotProgress
from penstock.core.tables import Column, DateType, IntegerType, TableId, TableSchema, TextType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.tables import ColumnType

INTEGER = IntegerType(32, unsigned=False)


def shape(table: str, key: tuple[str, ...], **types: ColumnType) -> TableSchema:
    columns = tuple(Column(name, type_, nullable=name not in key) for name, type_ in types.items())
    return TableSchema(TableId("shop", table), columns, key)


PARENT = shape("orders", ("a", "b"), a=INTEGER, b=INTEGER)
CHILD = shape("lines", ("id",), id=INTEGER, x=INTEGER, y=INTEGER)
KEY = Cascade(CHILD.table, "k", PARENT.table, ("x", "y"), ("a", "b"))


def updated(*rows: tuple[object, ...], schema: TableSchema = PARENT) -> RowBatch:
    """Rows as they were and as they are: (a, b, new a, new b)."""
    width, count = len(schema.columns), len(rows)
    before, after = (
        pa.RecordBatch.from_arrays(
            [
                pa.array([row[at] for row in rows], field.type)
                for at, field in zip(places, arrow_schema(schema), strict=True)
            ],
            schema=arrow_schema(schema),
        )
        for places in (range(width), range(width, 2 * width))
    )
    zeros, times = np.zeros(count, np.int32), np.zeros(count, np.int64)
    return RowBatch(schema, Op.UPDATE, before, after, "f", times, zeros, times, pa.array([""] * count), 1)


@pytest.mark.parametrize(
    ("cascade", "verb", "is_direct", "expected"),
    [
        (replace(KEY, on_delete="CASCADE"), "DELETE", True, Reread(gone=True)),
        (replace(KEY, on_delete="CASCADE"), "DELETE", False, Reread(gone=True)),
        (replace(KEY, on_delete="SET NULL"), "DELETE", True, Reread(("`x` IS NULL AND `y` IS NULL",))),
        (replace(KEY, on_update="SET NULL"), "UPDATE", False, Reread(("`x` IS NULL AND `y` IS NULL",))),
        (replace(KEY, on_update="SET DEFAULT"), "UPDATE", True, Reread(all_rows=True)),
        (replace(KEY, on_update="CASCADE"), "UPDATE", True, Reread(("`x` = 3 AND `y` = 2",))),
        (replace(KEY, on_update="CASCADE"), "UPDATE", False, Reread(all_rows=True)),
        (replace(KEY, on_update="CASCADE", columns=("X", "id")), "UPDATE", True, Reread(gone=True)),
    ],
)
def test_rows_are_read_again_by_the_narrowest_condition_that_is_sure(
    cascade: Cascade,
    verb: Literal["DELETE", "UPDATE"],
    is_direct: bool,  # noqa: FBT001 - a parameter of the test
    expected: Reread,
) -> None:
    step = Step(cascade, verb, is_direct)

    # The second row has kept its key.
    assert reread_of(step, CHILD, [updated((1, 2, 3, 2), (7, 7, 7, 7))]) == expected


@pytest.mark.parametrize(
    ("batches", "child"),
    [
        (None, CHILD),
        ([replace(updated((1, 2, 3, 2)), after_lacks=("b",))], CHILD),
        ([updated(*((n, n, n + 1, n) for n in range(501)))], CHILD),
        ([updated((1, 2, 3, 2))], replace(CHILD, partial_rows=True)),
        ([updated((1, 2, 3, 2))], shape("lines", ("id",), id=INTEGER, x=INTEGER, y=DateType())),
        ([updated((1, 2, 3, 2))], shape("lines", ("id",), id=INTEGER, x=INTEGER)),
    ],
)
def test_all_rows_are_read_again_where_no_condition_is_sure(
    batches: Sequence[RowBatch] | None, child: TableSchema
) -> None:
    assert reread_of(Step(replace(KEY, on_update="CASCADE"), "UPDATE", is_direct=True), child, batches) == Reread(
        all_rows=True
    )


def test_texts_and_names_are_written_so_that_they_stay_what_they_are() -> None:
    text = TextType(20, "utf8mb4")
    parent = shape("orders", ("a",), a=text)
    child = shape("lines", ("id",), id=INTEGER, **{"x`y": text})
    cascade = Cascade(child.table, "k", parent.table, ("x`y",), ("a",), on_update="CASCADE")

    found = reread_of(Step(cascade, "UPDATE", is_direct=True), child, [updated(("a", "' OR 1"), schema=parent)])

    assert found == Reread(("`x``y` = CONVERT(_utf8mb4 X'27204f522031' USING utf8mb4)",))


def test_what_is_read_again_for_several_reasons_is_bounded_and_comes_back_from_its_record() -> None:
    some, more = Reread(("`x` = 1",)), Reread(("`x` = 2", "`x` = 1"))
    assert (some | more).options == SnapshotOptions(where="`x` = 1 OR `x` = 2")
    assert (some | Reread(all_rows=True)).options == SnapshotOptions()
    assert (Reread(all_rows=True) | Reread(gone=True) | some).options == SnapshotOptions(full_refresh=True)
    assert some | Reread(("y" * 20_000,)) == Reread(all_rows=True)

    for reread in (some, some | more, Reread(gone=True), Reread(all_rows=True)):
        assert Reread.from_mapping(reread.to_mapping()) == reread
    progress = SnapshotProgress("shop.lines", mends=True)
    assert SnapshotProgress.from_mapping(progress.to_mapping()) == progress
