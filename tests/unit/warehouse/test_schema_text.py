"""A schema comes back from its text."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.tables import Column, ColumnType, IntegerType, TableId, TableSchema
from penstock.core.warehouse.schema_text import parse_schema, render_schema

TYPES: st.SearchStrategy[ColumnType] = st.one_of(*(st.builds(type_) for type_ in get_args(ColumnType)))
COLUMNS = st.builds(Column, st.text(min_size=1), TYPES, st.booleans(), st.text(), st.none() | st.text(), st.booleans())


@given(st.text(), st.lists(COLUMNS, max_size=4), st.lists(st.text(), max_size=2), st.text())
def test_what_was_written_is_read(name: str, columns: list[Column], key: list[str], comment: str) -> None:
    schema = TableSchema(TableId("shop", name), tuple(columns), tuple(key), comment, partial_rows=bool(key))

    assert parse_schema(render_schema(schema)) == schema


def test_a_table_of_1600_columns_with_comments_is_kept_in_a_text_of_redshift() -> None:
    type_ = IntegerType(32, unsigned=False)
    columns = tuple(Column(f"column_{n}", type_, nullable=True, comment=f"the {n}th of many") for n in range(1600))
    schema = TableSchema(TableId("shop", "wide"), columns, ("column_0",))

    text = render_schema(schema)

    assert len(text.encode()) < 65_535
    assert parse_schema(text) == schema


def noise(number: int) -> str:
    """Text of 500 characters that cannot be compressed to less than a half."""
    return hashlib.shake_256(str(number).encode()).hexdigest(250)


def test_comments_that_are_too_long_for_a_text_of_redshift_are_left_out() -> None:
    type_ = IntegerType(32, unsigned=False)
    columns = tuple(Column(f"c{n}", type_, nullable=True, comment=noise(n)) for n in range(300))
    schema = TableSchema(TableId("shop", "wide"), columns, ("c0",), "a table")

    text = render_schema(schema)

    assert len(text.encode()) < 65_535
    bare = tuple(replace(column, comment="") for column in columns)
    assert parse_schema(text) == replace(schema, columns=bare, comment="")
