"""A schema comes back from its text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.tables import (
    BytesType,
    Column,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    TableId,
    TableSchema,
    TextType,
    TimestampType,
    UnsupportedType,
    YearType,
)
from penstock.core.warehouse.schema_text import parse_schema, render_schema

TYPES: st.SearchStrategy[ColumnType] = st.one_of(
    st.builds(IntegerType),
    st.builds(DecimalType, st.integers(1, 65), st.integers(0, 30)),
    st.builds(FloatType),
    st.builds(TextType),
    st.builds(BytesType),
    st.builds(DateType),
    st.builds(DateTimeType),
    st.builds(TimestampType),
    st.builds(YearType),
    st.builds(EnumType),
    st.builds(UnsupportedType),
)
COLUMNS = st.builds(Column, st.text(min_size=1), TYPES, st.booleans(), st.text(), st.none() | st.text(), st.booleans())


@given(st.text(), st.lists(COLUMNS, max_size=4), st.lists(st.text(), max_size=2), st.text())
def test_what_was_written_is_read(name: str, columns: list[Column], key: list[str], comment: str) -> None:
    schema = TableSchema(TableId("shop", name), tuple(columns), tuple(key), comment)

    assert parse_schema(render_schema(schema)) == schema
