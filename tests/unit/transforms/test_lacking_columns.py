"""Rows of which the log lacks columns: no transform makes up a value, or says that one is known which is not."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.transforms.rows import CUSTOMERS, EMAIL, SALT, Change, Row, changes_of, listed, table_of

from penstock.core.errors import TableStoppedError
from penstock.core.transforms.changes import transform_changes
from penstock.core.transforms.columns import DropColumns, KeepColumns, RenameColumns
from penstock.core.transforms.expressions import ExpressionColumn
from penstock.core.transforms.hashes import HashColumns
from penstock.core.transforms.lookups import Lookup, LookupTable
from penstock.core.transforms.masks import FixedValue, KeepLast, MaskColumns

if TYPE_CHECKING:
    from penstock.core.tables import TableSchema
    from penstock.core.transforms.changes import Step

PARTIAL = replace(CUSTOMERS, partial_rows=True)
REGIONS = Lookup(
    LookupTable("regions.csv", pa.table({"mail": ["x", "y"], "region": ["north", "south"]}), ("mail",), (
        replace(EMAIL, name="region"),
    )),
    (("email", "mail"),),
)  # fmt: skip
TWICE = ExpressionColumn("twice", "total * 2", CUSTOMERS.column("total").type)
STEPS: st.SearchStrategy[list[Step]] = st.sampled_from(
    [
        [RenameColumns((("email", "total"), ("total", "email")))],
        [DropColumns(("email",))],
        [KeepColumns(("id", "total"))],
        [HashColumns(("id", "email"), SALT), RenameColumns((("id", "customer"),))],
        [MaskColumns(("email",), KeepLast(1)), MaskColumns(("total",), FixedValue("1.5"))],
        [REGIONS, RenameColumns((("email", "mail"), ("region", "email")))],
        [TWICE, DropColumns(("total",))],
    ]
)


def evaluate(column: ExpressionColumn, schema: TableSchema, rows: pa.Table) -> tuple[TableSchema, pa.Table]:
    """Stand in for Spark with what Python makes of `total * 2`."""
    after = column.derive(schema)
    doubled = [None if total is None else total * 2 for total in rows.column("total").to_pylist()]
    return after, pa.Table.from_arrays(
        [*rows.columns, pa.array(doubled, pa.decimal128(8, 2))], table_of([], after).schema.names
    )


@st.composite
def images(draw: st.DrawFn) -> tuple[Row, Row]:
    """A whole row, and what the log has of it."""
    whole: Row = {
        "id": draw(st.integers(1, 4)),
        "email": draw(st.sampled_from([None, "x", "yy"])),
        "total": draw(st.sampled_from([None, Decimal("1.00"), Decimal("2.50")])),
    }
    there = {"id", *draw(st.sets(st.sampled_from(["email", "total"])))}
    return whole, {name: value for name, value in whole.items() if name in there}


@given(st.lists(st.tuples(images(), images()), max_size=5), STEPS)
def test_what_a_row_has_comes_out_as_if_it_were_whole_and_what_it_lacks_it_still_lacks(
    rows: list[tuple[tuple[Row, Row], tuple[Row, Row]]], steps: list[Step]
) -> None:
    whole: list[Change] = [("u", before, after) for (before, _), (after, _) in rows]
    partial: list[Change] = [("u", before, after) for (_, before), (_, after) in rows]

    wanted = transform_changes(steps, changes_of(whole), evaluate)
    found = transform_changes(steps, changes_of(partial, PARTIAL), evaluate)

    assert replace(found.schema, partial_rows=False) == wanted.schema
    for had, has in zip(listed(wanted), listed(found), strict=True):
        for whole_row, row in zip(had[1:], has[1:], strict=True):
            assert isinstance(whole_row, dict)
            assert isinstance(row, dict)
            assert row.items() <= whole_row.items()
    assert sum(len(row or ()) for change in listed(found) for row in change[1:]) == sum(
        len(transformed(steps, set(row or ()))) for change in partial for row in change[1:]
    )


def transformed(steps: list[Step], names: set[str]) -> set[str]:
    """The columns that come of those with `names`, and of what is computed from them."""
    for step in steps:
        match step:
            case RenameColumns(pairs):
                names = {dict(pairs).get(name, name) for name in names}
            case DropColumns(dropped):
                names = names - set(dropped)
            case KeepColumns(kept):
                names = names & set(kept)
            case Lookup():
                names = names | ({"region"} if "email" in names else set())
            case ExpressionColumn():
                names = names | ({"twice"} if "total" in names else set())
            case _:
                pass
    return names


@pytest.mark.parametrize("op", ["u", "c"])
def test_a_column_that_is_computed_from_what_a_new_row_lacks_in_part_or_was_created_without_is_refused(op: str) -> None:
    both = replace(TWICE, sql="concat(email, total)")
    row: Row = {"id": 1, "email": "x"} if op == "u" else {"id": 1}
    change: Change = (op, {"id": 1} if op == "u" else None, row)

    with pytest.raises(TableStoppedError, match=r"(total|email) .*log lacks its value") as caught:
        transform_changes(
            [both], changes_of([("r", None, {"id": 2, "email": "x", "total": None}), change], PARTIAL), evaluate
        )

    assert "REPLICA IDENTITY FULL" in caught.value.hint
    assert "penstock snapshot FILE TABLE" in caught.value.hint


def test_an_expression_sees_no_row_that_lacks_what_it_reads() -> None:
    seen: list[object] = []

    def look(column: ExpressionColumn, schema: TableSchema, rows: pa.Table) -> tuple[TableSchema, pa.Table]:
        seen.extend(rows.column("total").to_pylist())
        return evaluate(column, schema, rows)

    changes: list[Change] = [
        ("u", {"id": 1}, {"id": 1, "email": "x", "total": Decimal("1.00")}),
        ("d", {"id": 1}, None),
    ]
    found = transform_changes([TWICE], changes_of(changes, PARTIAL), look)

    assert seen == [Decimal("1.00")]
    assert listed(found) == [
        ("u", {"id": 1}, {"id": 1, "email": "x", "total": Decimal("1.00"), "twice": Decimal("2.00")}),
        ("d", {"id": 1}, None),
    ]


@pytest.mark.parametrize(
    ("sql", "reads"),
    [
        ("total * 2", {"total"}),
        ("1", set()),
        ("coalesce(TOTAL, 0) + totals", {"total"}),
        ("to_json(struct(*))", {"id", "email", "total", "odd `name"}),
        ("hash(id, *)", {"id", "email", "total", "odd `name"}),
        ("length(`odd ``name`)", {"odd `name"}),
        ("'email'", {"email"}),
    ],
)
def test_an_expression_may_read_the_columns_whose_names_stand_in_it(sql: str, reads: set[str]) -> None:
    schema = replace(CUSTOMERS, columns=(*CUSTOMERS.columns, replace(EMAIL, name="odd `name")))

    assert replace(TWICE, sql=sql).reads(schema) == reads
