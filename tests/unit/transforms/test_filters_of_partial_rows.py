"""A filter of rows that lack columns: what comes out makes the filtered table, or is refused."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import replace
from decimal import Decimal

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.transforms.rows import CUSTOMERS, Change, Row, changes_of, listed, no_spark, table_of

from penstock.core.errors import TableStoppedError
from penstock.core.transforms.changes import transform_changes
from penstock.core.transforms.filters import Filter

DUCKDB = duckdb.connect()
PARTIAL = replace(CUSTOMERS, partial_rows=True)
KEY: Row = {"id": 1}
ONE: Row = {"id": 1, "email": "x", "total": Decimal("1.00")}
TWO: Row = {**ONE, "total": Decimal("2.50")}
CONDITIONS = st.sampled_from(["total > 1", "email IS NULL OR total < 2", "id <> 2 AND total >= 1", "id = 1"])


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Change, Change]]:
    """Changes of whole rows, and what the log has of them."""
    rows: dict[int, Row] = {}
    changes: list[tuple[Change, Change]] = []
    for number, is_delete in draw(st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=10)):
        before = rows.pop(number, None)
        email = draw(st.sampled_from([None, "x", "long"]))
        after: Row = {"id": number, "email": email, "total": draw(st.sampled_from([None, *map(Decimal, ("1", "2.5"))]))}
        key: Row = {"id": number}
        old = draw(st.sampled_from([before or key, key]))
        if before is None:
            changes.append((("c", None, after),) * 2)
        elif is_delete:
            changes.append((("d", before, None), ("d", old, None)))
            continue
        else:
            untouched = {name for name in ("email", "total") if before[name] == after[name] and draw(st.booleans())}
            new = {name: value for name, value in after.items() if name not in untouched}
            changes.append((("u", before, after), ("u", old, new)))
        rows[number] = after
    return changes


def merged(changes: list[Change]) -> list[Row]:
    """Apply changes as targets do: a read is an upsert, a delete may find nothing, what an update lacks stays."""
    rows: dict[object, Row] = {}
    for op, before, after in changes:
        if op == "d":
            assert before is not None
            rows.pop(before["id"], None)
        else:
            assert after is not None
            assert (after["id"] in rows) == (op == "u") or op == "r"
            assert op == "u" or after.keys() == ONE.keys()
            rows[after["id"]] = {**rows.get(after["id"], {}), **after}
    return sorted(rows.values(), key=repr)


@given(histories(), CONDITIONS)
def test_filtered_changes_give_the_filtered_table_or_are_refused(
    history: list[tuple[Change, Change]], condition: str
) -> None:
    whole, partial = [change for change, _ in history], [change for _, change in history]
    refused = any(change[2] is not None and change[2].keys() < ONE.keys() for change in partial)

    with suppress(TableStoppedError) if refused else nullcontext():
        filtered = transform_changes([Filter(condition)], changes_of(partial, PARTIAL), no_spark)
        refused = False
    if refused:
        return
    for end in range(len(history) + 1):
        found = merged([each for each, at in zip(listed(filtered), filtered.origin, strict=True) if at < end])
        DUCKDB.register("customers", table_of(merged(whole[:end])))
        wanted = DUCKDB.sql(f"SELECT * FROM customers WHERE {condition}").to_arrow_table().to_pylist()
        assert found == sorted(wanted, key=repr)


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (("u", {"id": 1}, TWO), [("r", None, TWO)]),
        (("u", {"id": 1}, ONE), [("d", {"id": 1}, None)]),
        (("d", {"id": 1}, None), [("d", {"id": 1}, None)]),
        (("u", ONE, TWO), [("c", None, TWO)]),
        (
            ("u", {**KEY, "total": Decimal(2)}, {**KEY, "total": Decimal(3)}),
            [("u", {**KEY, "total": Decimal("2.00")}, {**KEY, "total": Decimal("3.00")})],
        ),
    ],
)
def test_what_is_not_known_to_have_been_wanted_is_taken_for_what_it_may_have_been(
    change: Change, outcome: list[Change]
) -> None:
    assert listed(transform_changes([Filter("total > 1")], changes_of([change], PARTIAL), no_spark)) == outcome


@pytest.mark.parametrize(
    ("change", "column"),
    [
        (("u", {"id": 1}, {"id": 1, "email": "x"}), "total"),
        (("u", {"id": 1}, {"id": 1, "total": Decimal(2)}), "email"),
        (("u", {"id": 1, "total": Decimal(1)}, {"id": 1, "total": Decimal(2)}), "email"),
        (("c", None, {"id": 1, "email": "x"}), "total"),
    ],
)
def test_a_row_that_may_be_new_in_the_filtered_table_must_be_whole(change: Change, column: str) -> None:
    with pytest.raises(TableStoppedError, match=rf"customers\.{column} .*log lacks its value"):
        transform_changes([Filter("total > 1")], changes_of([change], PARTIAL), no_spark)


def test_a_filter_by_the_key_alone_lets_rows_lack_the_rest() -> None:
    changes: list[Change] = [
        ("u", {"id": 1}, {"id": 1, "email": "x"}),
        ("u", {"id": 2}, {"id": 2}),
        ("d", {"id": 1}, None),
    ]

    found = transform_changes([Filter("ID = 1")], changes_of(changes, PARTIAL), no_spark)

    assert listed(found) == [changes[0], changes[2]]
