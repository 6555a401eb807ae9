"""Columns of types that a Delta table takes only where its protocol says so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.sink_case import FIRST, SCHEMAS, TABLE, schema, schema_change, write_batch

from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import Column, DateTimeType, DateType, TextType

if TYPE_CHECKING:
    from tests.servers.delta_case import DeltaPlace

    from penstock.core.tables import TableSchema


def added() -> tuple[TableSchema, TableSchema]:
    """A table that gets a column of moments."""
    return FIRST, replace(FIRST, columns=(*FIRST.columns, Column("at", DateTimeType(6), nullable=True)))


def retyped() -> tuple[TableSchema, TableSchema]:
    """A table whose days become moments."""
    return schema(qty=FIRST.columns[1].type, at=DateType()), schema(qty=FIRST.columns[1].type, at=DateTimeType(6))


@pytest.mark.nightly
@pytest.mark.parametrize("columns", [added(), retyped()], ids=["added", "retyped"])
@pytest.mark.parametrize("kind", [SchemaChangeKind.SCHEMA, SchemaChangeKind.CREATE])
def test_a_table_gets_its_first_local_time_later(
    lake_place: DeltaPlace, columns: tuple[TableSchema, TableSchema], kind: SchemaChangeKind
) -> None:
    before, after = columns
    schemas = {1: before, 2: after}
    lake_place.open().load(TABLE, [schema_change(1)], schemas)

    change = replace(schema_change(2), kind=kind, first_order=(1, 8, 0), last_order=(1, 8, 0))
    lake_place.open().load(TABLE, [change], schemas)

    described = lake_place.ask("DESCRIBE TABLE shop.orders")
    assert ("at", "timestamp_ntz") in [row[:2] for row in described]


@pytest.mark.nightly
def test_a_column_gets_in_other_letters_the_name_of_one_that_goes(lake_place: DeltaPlace) -> None:
    mass = Column("mass", FIRST.columns[1].type, nullable=True, default="5")
    wider = replace(FIRST, columns=(*FIRST.columns, mass))
    after = replace(FIRST, columns=(FIRST.columns[0], replace(mass, name="QTY")))
    sink = lake_place.open()
    sink.load(TABLE, [lake_place.batch(0, [("c", "a", 1)]), schema_change(5)], {**SCHEMAS, 5: wider})

    sink.load(TABLE, [replace(schema_change(6), column_renames=(("mass", "QTY"),))], {6: after})

    assert lake_place.ask("SELECT * FROM shop.orders") == [("a", 5)]


@pytest.mark.nightly
def test_columns_with_and_without_a_default_come_at_once(lake_place: DeltaPlace) -> None:
    number = FIRST.columns[1].type
    both = (Column("filled", number, nullable=False, default="5"), Column("empty", number, nullable=True))
    after = replace(FIRST, columns=(*FIRST.columns, *both))
    sink = lake_place.open()
    sink.load(TABLE, [lake_place.batch(0, [("c", "a", 1)])], SCHEMAS)

    sink.load(TABLE, [schema_change(5), write_batch(lake_place, after, 5, 1, [("b", 2, 6, 7, "c")])], {5: after})

    assert lake_place.ask("SELECT * FROM shop.orders ORDER BY id") == [("a", 1, 5, None), ("b", 2, 6, 7)]


@pytest.mark.nightly
def test_a_default_that_looks_like_a_variable_of_spark_is_a_text(lake_place: DeltaPlace) -> None:
    texts = ("Dear ${name}", "\\ ${env:HOME} \\u0041 '")
    added = (Column(f"c${{{n}}}", TextType(40, "utf8mb4"), nullable=True, default=text) for n, text in enumerate(texts))
    after = replace(FIRST, columns=(*FIRST.columns, *added))
    sink = lake_place.open()
    sink.load(TABLE, [lake_place.batch(0, [("c", "a", 1)])], SCHEMAS)

    sink.load(TABLE, [schema_change(5)], {5: after})

    assert lake_place.ask("SELECT * FROM shop.orders") == [("a", 1, *texts)]
