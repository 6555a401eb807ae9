"""Which rows go into their table without being staged whole, and which of them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.core.files import OFFSET, OP
from penstock.core.tables import (
    Column,
    ColumnType,
    DecimalType,
    FloatType,
    IntegerType,
    PrintedType,
    TableId,
    TableSchema,
    TextType,
)
from penstock.core.warehouse.dialects import POSTGRES
from penstock.core.warehouse.target_table import TargetTable
from penstock.links.warehouse.direct_copy import copies_directly, keys_of, living_rows

INT = IntegerType(32, unsigned=False)
ID = Column("id", INT, nullable=False)
NAME = Column("name", TextType(20, "utf8mb4"), nullable=True)
LATER = Column("later", INT, nullable=False, default="7")
ORDERS = TableSchema(TableId("shop", "orders"), (ID, NAME), ("id",))
ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", None], OP: ["c", "d", "u"], OFFSET: [5, 6, 7]})


def of_key(type_: ColumnType) -> TableSchema:
    return replace(ORDERS, columns=(replace(ID, type=type_), NAME))


@pytest.mark.parametrize("type_", [INT, TextType(20, "utf8mb4"), DecimalType(10, 2)])
def test_rows_of_the_tables_own_schema_go_straight(type_: ColumnType) -> None:
    assert copies_directly(POSTGRES, TargetTable("", of_key(type_)), of_key(type_))


@pytest.mark.parametrize(
    ("target", "arriving"),
    [
        pytest.param(TargetTable("", replace(ORDERS, key=())), replace(ORDERS, key=()), id="change log"),
        pytest.param(TargetTable("", ORDERS, "soft"), ORDERS, id="soft deletes"),
        pytest.param(TargetTable("", ORDERS), replace(ORDERS, partial_rows=True), id="rows that lack columns"),
        pytest.param(TargetTable("", of_key(FloatType(64))), of_key(FloatType(64)), id="NaN is not NaN to Arrow"),
        pytest.param(
            TargetTable("", of_key(PrintedType("uuid"))), of_key(PrintedType("uuid")), id="upper and lower case are one"
        ),
        pytest.param(TargetTable("", replace(ORDERS, columns=(ID, NAME, LATER))), ORDERS, id="a later column"),
        pytest.param(
            TargetTable("", of_key(INT)), of_key(IntegerType(16, unsigned=False)), id="a type that was narrower then"
        ),
        pytest.param(
            TargetTable("", replace(ORDERS, columns=(ID, replace(NAME, name="Name")))),
            ORDERS,
            id="a name in other case",
        ),
    ],
)
def test_rows_with_which_something_is_to_be_done_do_not(target: TargetTable, arriving: TableSchema) -> None:
    assert not copies_directly(POSTGRES, target, arriving)


def test_a_column_that_the_table_has_lost_stays_away_and_so_does_what_was_deleted() -> None:
    target = TargetTable("", replace(ORDERS, columns=(ID,)))

    assert copies_directly(POSTGRES, target, ORDERS)
    assert living_rows(target, ROWS).to_pydict() == {"id": [1, 3]}
    schema, keys = keys_of(ORDERS, ROWS)
    assert (schema.columns, keys.to_pydict()) == ((ID,), {"id": [1, 2, 3]})
