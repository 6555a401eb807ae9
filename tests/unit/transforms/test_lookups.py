"""Columns that are looked up: which row is meant, and what a lookup must not be."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.transforms.rows import CUSTOMERS, Row, applied

from penstock.core.errors import TableStoppedError
from penstock.core.tables import Column, TextType
from penstock.core.transforms.lookups import Lookup, LookupTable

NAME = Column("name", TextType(9, "utf8mb4"), nullable=False, default="?")
KEYS = st.integers(0, 3)


def lookup(rows: pa.Table, on: tuple[tuple[str, str], ...] = (("email", "code"),)) -> Lookup:
    return Lookup(LookupTable("codes.csv", rows, tuple(key for _, key in on), (NAME,)), on)


def test_rows_get_the_columns_of_the_row_that_has_their_key() -> None:
    table = lookup(pa.table({"code": ["a", "b", ""], "name": ["A", None, "empty"]}))
    emails = ["b", "a", None, "c", "", "a"]

    found = applied(table, [{"id": n, "email": email} for n, email in enumerate(emails)])

    assert [row["name"] for row in found] == [None, "A", None, None, "empty", "A"]
    column = table.derive(CUSTOMERS).column("name")
    assert (column.nullable, column.default, column.default_is_expression) == (True, None, True)


@given(st.sets(st.tuples(KEYS, KEYS), min_size=1), st.lists(st.tuples(st.none() | KEYS, st.none() | KEYS.map(str))))
def test_keys_of_several_columns_are_found_as_a_dictionary_finds_them(
    keys: set[tuple[int, int]], asked: list[tuple[int | None, str | None]]
) -> None:
    known = {(left, str(right)): f"{left}/{right}" for left, right in keys}
    rows = pa.table({"l": [left for left, _ in keys], "r": [right for _, right in keys],
                     "name": [f"{left}/{right}" for left, right in keys]})  # fmt: skip
    given_rows: list[Row] = [{"id": left, "email": right} for left, right in asked]

    found = applied(lookup(rows, (("id", "l"), ("email", "r"))), given_rows)

    assert [row["name"] for row in found] == [known.get((left, right)) for left, right in asked]  # type: ignore[arg-type]


def test_lookups_pickle() -> None:
    table = lookup(pa.table({"code": ["a"], "name": ["A"]}))

    assert pickle.loads(pickle.dumps(table)) == table  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (pa.table({"key": ["a"], "name": ["A"]}), r"codes.csv has no column code \(it has key, name\)"),
        (pa.table({"code": ["a"]}), "codes.csv has no column name"),
        (pa.table({"code": ["a", None], "name": ["A", "B"]}), "a row without a value in code"),
        (pa.table({"code": ["a", "b", "a"], "name": ["A", "B", "A"]}), "more than one row with code = a"),
    ],
)
def test_a_lookup_that_cannot_tell_its_rows_apart_is_refused(rows: pa.Table, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        lookup(rows)


@pytest.mark.parametrize(
    ("rows", "on", "said"),
    [
        (pa.table({"code": ["x"], "name": ["A"]}), "id", "has code as string, which cannot be IntegerType"),
        (pa.table({"code": ["1", "01"], "name": ["A", "B"]}), "id", "two rows of codes.csv have one key"),
        (pa.table({"code": ["1"], "name": ["A"]}), "emial", "did you mean email?"),
    ],
)
def test_a_lookup_that_does_not_fit_the_table_stops_it(rows: pa.Table, on: str, said: str) -> None:
    with pytest.raises(TableStoppedError) as caught:
        lookup(rows, ((on, "code"),)).derive(CUSTOMERS)

    assert said in str(caught.value)


def test_a_lookup_does_not_hide_a_column() -> None:
    table = LookupTable(
        "codes.csv", pa.table({"code": ["a"], "Total": ["A"]}), ("code",), (Column("Total", NAME.type, nullable=True),)
    )

    with pytest.raises(TableStoppedError, match="there is a column of this name already"):
        Lookup(table, (("email", "code"),)).derive(CUSTOMERS)
