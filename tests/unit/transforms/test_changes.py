"""Applying transformed changes gives what the transforms make of the table, after every single change."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.transforms.rows import CUSTOMERS, SALT, Change, Row, changes_of, listed, no_spark, table_of

from penstock.core.avro.envelope_decode import DecodedChanges
from penstock.core.errors import TableStoppedError
from penstock.core.transforms.changed_rows import ChangedRows, changed_rows
from penstock.core.transforms.changes import derive_schema, transform_changes
from penstock.core.transforms.columns import DropColumns, KeepColumns, RenameColumns
from penstock.core.transforms.expressions import ExpressionColumn
from penstock.core.transforms.filters import Filter
from penstock.core.transforms.hashes import HashColumns
from penstock.core.transforms.masks import FixedValue, KeepLast, MaskColumns

if TYPE_CHECKING:
    from penstock.core.tables import TableSchema
    from penstock.core.transforms.transform import Transform

DUCKDB = duckdb.connect()
CONDITIONS = st.sampled_from(
    ["total > 1", "NOT total > 1", "email IS NULL OR total < 2", "email LIKE 'a%'", "id <> 2 AND total >= 1", "id = 1"]
)
OTHERS: st.SearchStrategy[Transform] = st.sampled_from(
    [
        HashColumns(("id",), SALT),
        HashColumns(("email", "id"), SALT),
        MaskColumns(("email",), KeepLast(1)),
        MaskColumns(("total",), FixedValue("1.5")),
        RenameColumns((("email", "total"), ("total", "email"))),
        RenameColumns((("id", "number"),)),
        DropColumns(("email",)),
        KeepColumns(("id", "total")),
    ]
)
VALUES = st.fixed_dictionaries(
    {
        "email": st.sampled_from([None, "", "a", "abc", "b@c"]),
        "total": st.sampled_from([None, Decimal("0.00"), Decimal("1.00"), Decimal("1.01"), Decimal("2.50")]),
    }
)


@st.composite
def histories(draw: st.DrawFn) -> list[Change]:
    """Changes as a source logs them: a key that changes is a delete of the old and a create of the new one.

    Rows that are there are read again, and then are as nobody had logged.
    """
    rows: dict[object, Row] = {}
    changes: list[Change] = []
    for key, other in draw(st.lists(st.tuples(st.integers(1, 4), st.none() | st.integers(1, 4)), max_size=12)):
        before = rows.pop(key, None)
        after: Row = {"id": key, **draw(VALUES)}
        if before is None or draw(st.integers(0, 4)) == 0:
            changes.append(("r" if before else draw(st.sampled_from("cr")), None, after))
        elif other is None or other == key:
            after = {**after, **({"email": before["email"]} if other == key else {})}
            changes.append(("u", before, after))
        elif other in rows:
            changes.append(("d", before, None))
            continue
        else:
            after = {**after, "id": other}
            changes += [("d", before, None), ("c", None, after)]
        rows[after["id"]] = after
    return changes


def apply(changes: list[Change], key: str) -> list[Row]:
    """Apply changes to a table as a strict target: each must find the rows that it speaks of, and no other.

    But for a read, which takes the place of what is there, and a delete of a key alone, which may find nothing.
    """
    rows: dict[object, Row] = {}
    for op, before, after in changes:
        assert (before is not None, after is not None) == {"u": (True, True), "d": (True, False)}.get(op, (False, True))
        if before is not None and before.keys() == {key}:
            rows.pop(before[key], None)
        elif before is not None:
            assert rows.pop(before[key]) == before
        if after is not None:
            assert op == "r" or after[key] not in rows
            rows[after[key]] = after
    return sorted(rows.values(), key=repr)


@given(histories(), CONDITIONS)
def test_filtered_changes_give_what_sql_filters_of_the_table_after_every_change(
    history: list[Change], condition: str
) -> None:
    filtered = transform_changes([Filter(condition)], changes_of(history), no_spark)

    for end in range(len(history) + 1):
        found = apply(
            [change for change, origin in zip(listed(filtered), filtered.origin, strict=True) if origin < end], "id"
        )
        DUCKDB.register("customers", table_of(apply(history[:end], "id")))
        wanted = DUCKDB.sql(f"SELECT * FROM customers WHERE {condition}").to_arrow_table().to_pylist()
        assert found == sorted(wanted, key=repr)


@given(histories(), st.lists(OTHERS, max_size=3), CONDITIONS)
def test_transformed_changes_give_the_transformed_table(
    history: list[Change], others: list[Transform], condition: str
) -> None:
    steps: list[Transform] = [Filter(condition)]
    schema = wanted_schema = CUSTOMERS
    rows = table_of(apply(history, "id"))
    for step in others:
        with suppress(TableStoppedError):
            schema = derive_schema([step], schema)
            steps.append(step)

    changed = transform_changes(steps, changes_of(history), no_spark)

    for step in steps:
        wanted_schema, rows = step.apply(wanted_schema, rows)
    assert changed.schema == wanted_schema == derive_schema(steps, CUSTOMERS)
    assert apply(listed(changed), changed.schema.key[0]) == sorted(rows.to_pylist(), key=repr)


def test_an_update_that_leaves_the_filter_is_a_delete_and_one_that_enters_it_a_create() -> None:
    out, into = {"id": 1, "email": "x", "total": Decimal(2)}, {"id": 1, "email": "y", "total": Decimal(0)}

    found = transform_changes([Filter("total > 1")], changes_of([("u", out, into), ("u", into, out)]), no_spark)

    assert listed(found) == [("d", out, None), ("c", None, out)]


def test_decoded_changes_are_taken_as_they_are_without_rows_too() -> None:
    row = {"id": 1, "email": "x", "total": Decimal("1.00")}
    deleted = {**row, "email": None}

    found = changed_rows(CUSTOMERS, decoded([("c", None, row), ("u", row, deleted), ("d", deleted, None)]))
    nothing = transform_changes([Filter("id > 0")], changed_rows(CUSTOMERS, decoded([])), no_spark)

    assert listed(found) == [("c", None, row), ("u", row, deleted), ("d", deleted, None)]
    assert (len(found), len(nothing), nothing.after().num_rows) == (3, 0, 0)


def test_a_transform_that_loses_rows_of_a_stream_is_refused() -> None:
    def lose(step: ExpressionColumn, schema: TableSchema, rows: pa.Table) -> tuple[TableSchema, pa.Table]:
        return step.derive(schema), rows.slice(1)

    step = ExpressionColumn("twice", "total * 2", CUSTOMERS.column("total").type)
    with pytest.raises(ValueError, match="made 0 rows of 1"):
        transform_changes([step], changes_of([("c", None, {"id": 1})]), lose)


def decoded(changes: list[Change]) -> DecodedChanges:
    images = []
    for rows_at in ([before for _, before, _ in changes], [after for _, _, after in changes]):
        rows = table_of([row or {} for row in rows_at]).combine_chunks().to_batches()
        images.append(rows[0] if rows else pa.RecordBatch.from_pylist([], table_of([]).schema))
    there = [np.array([change[at] is not None for change in changes], dtype=np.bool_) for at in (1, 2)]
    none = pa.array([""] * len(changes), pa.string())
    zeros = np.zeros(len(changes), dtype=np.int64)
    ops = pa.array([change[0] for change in changes], pa.string())
    return DecodedChanges(
        ops, images[0], there[0], images[1], there[1], none, none, zeros, zeros.astype(np.int32), zeros,
        none, none, none, none, none, zeros,
    )  # fmt: skip


def test_changes_know_which_rows_they_have() -> None:
    changes = changes_of([("d", {"id": 7}, None)])

    assert isinstance(changes, ChangedRows)
    assert changes.after().to_pylist() == [{"id": None, "email": None, "total": None}]
