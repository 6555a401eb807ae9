"""Values that a warehouse cannot hold, and what becomes of them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import TableStoppedError
from penstock.core.files import file_schema
from penstock.core.tables import (
    BytesType,
    Column,
    DateType,
    DecimalType,
    IntegerType,
    PrintedType,
    TableId,
    TableSchema,
    TextType,
)
from penstock.core.warehouse.dialect import DUCKDB
from penstock.core.warehouse.dialects import POSTGRES, REDSHIFT, SNOWFLAKE
from penstock.core.warehouse.overflow import FittedRows, fit_rows, fit_schema

if TYPE_CHECKING:
    from penstock.core.tables import ColumnType
    from penstock.core.warehouse.dialect import Dialect
    from penstock.core.warehouse.load_plan import Overflow

ID = Column("id", IntegerType(32, unsigned=False), nullable=False)


def fit(dialect: Dialect, type_: ColumnType, values: list[object], overflow: Overflow) -> tuple[list[object], int]:
    """Fit values of one column; return them and how many were changed."""
    schema = TableSchema(TableId("shop", "orders"), (ID, Column("c", type_, nullable=True)), ("id",))
    layout = file_schema(schema)
    rows = [dict(zip(layout.names, (number, value, "c", number), strict=True)) for number, value in enumerate(values)]
    fitted: FittedRows = fit_rows(dialect, schema, pa.Table.from_pylist(rows, layout), overflow)
    assert fitted.rows.schema.equals(file_schema(fit_schema(dialect, schema, overflow)))
    return fitted.rows.column("c").to_pylist(), fitted.changed


LONG = TextType(1 << 20, "utf8mb4")
CASES: list[tuple[Dialect, ColumnType, object, object]] = [
    (REDSHIFT, LONG, "é" * 40_000, "é" * 32_767),
    (SNOWFLAKE, PrintedType("json"), '"' + "x" * 16_777_216 + '"', None),
    (SNOWFLAKE, BytesType(1 << 24, fixed=False), b"x" * 8_388_609, b"x" * 8_388_608),
    (POSTGRES, LONG, "a\x00b\x00", "ab"),
    (DUCKDB, DecimalType(65, 30), Decimal("1E9"), Decimal("99999999." + "9" * 30)),
    (DUCKDB, DecimalType(40, 0), Decimal("-1" + "0" * 39), Decimal("-" + "9" * 38)),
]


@pytest.mark.parametrize(("dialect", "type_", "value", "nearest"), CASES)
def test_a_value_that_does_not_fit_stops_becomes_null_or_the_nearest_one(
    dialect: Dialect, type_: ColumnType, value: object, nearest: object
) -> None:
    if not isinstance(type_, DecimalType):
        with pytest.raises(TableStoppedError, match=r"orders\.c .* of the row with id 1, changed at offset 1"):
            fit(dialect, type_, [None, value], "stop")

    assert fit(dialect, type_, [None, value, value], "null") == ([None, None, None], 2)
    assert fit(dialect, type_, [None, value], "clamp") == ([None, nearest], 1)


def test_a_date_before_the_first_becomes_the_first() -> None:
    assert fit(POSTGRES, DateType(), [dt.date(1, 1, 1), None], "clamp") == ([dt.date(1, 1, 1), None], 0)


@given(st.lists(st.none() | st.text(max_size=20), min_size=1))
def test_what_fits_stays_as_it_is_and_what_does_not_is_counted(texts: list[str | None]) -> None:
    out_of_range = [text is not None and "\x00" in text for text in texts]

    found, changed = fit(POSTGRES, LONG, list(texts), "null")

    assert changed == sum(out_of_range)
    assert found == [None if out_of_range else text for text, out_of_range in zip(texts, out_of_range, strict=True)]
