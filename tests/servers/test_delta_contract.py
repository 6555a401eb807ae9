"""What Delta tables do otherwise than SQL databases, and what of the contract of targets depends on their log.

The whole contract takes Spark many minutes, for a statement costs it seconds on a
table of two rows: see test_delta_whole_contract.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.servers.sink_case import SCHEMAS, TABLE, rows_in, schema_change, write_batch
from tests.servers.test_sink_types import CASES, load, of_types

from penstock.core.errors import TableStoppedError
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import DecimalType, FloatType
from penstock.links.warehouse.load_rules import LoadRules

if TYPE_CHECKING:
    from tests.servers.delta_case import DeltaPlace
    from tests.servers.sink_case import Place


@pytest.fixture
def place(lake_place: DeltaPlace) -> Place:
    """What the tests of every kind of target are given: here a lake."""
    return lake_place


def test_values_arrive_as_they_are(place: Place) -> None:
    schema = of_types([type_ for type_, _ in CASES])
    longest = max(len(values) for _, values in CASES)
    rows = [[values[n] if n < len(values) else None for _, values in CASES] for n in range(longest)]

    load(place, schema, rows)

    listed = ", ".join(column.name for column in schema.columns[1:])
    found = place.ask(f"SELECT {listed} FROM {TABLE} ORDER BY id")
    for number, (type_, _) in enumerate(CASES):
        expected = [_in_a_lake(row[number]) for row in rows]
        values: list[object] = [row[number] for row in found]
        if type_ == FloatType(32):
            values = [value if value is None else float(np.float32(value)) for value in values]  # type: ignore[arg-type]
        assert values == expected, type_


def _in_a_lake(value: object) -> object:
    """Spans of time are microseconds there."""
    return value // dt.timedelta(microseconds=1) if isinstance(value, dt.timedelta) else value


def test_a_decimal_of_39_digits_stops_its_table(place: Place) -> None:
    with pytest.raises(TableStoppedError, match="delta holds 38 decimal digits"):
        load(place, of_types([DecimalType(39, 0)]), [[Decimal(10**38)]])


@pytest.mark.nightly
def test_out_of_range_values_on_both_sides_of_a_new_beginning_are_counted(place: Place) -> None:
    wide = of_types([DecimalType(39, 0)])
    digits = Decimal("9" * 39)
    created = replace(schema_change(1, 1), kind=SchemaChangeKind.CREATE, first_order=(2, 0, 0), last_order=(2, 0, 0))
    behind = replace(write_batch(place, wide, 1, 1, [(2, digits, "c")]), first_order=(2, 1, 0), last_order=(2, 1, 0))

    loaded = place.open(rules=LoadRules(overflow="null")).load(
        TABLE, [write_batch(place, wide, 1, 0, [(1, digits, "c")]), created, behind], {1: wide}
    )

    assert loaded.out_of_range == 2
    assert place.ask("SELECT id FROM shop.orders") == [(2,)]


@pytest.mark.nightly
def test_what_comes_before_a_change_that_cannot_be_followed_is_in(place: Place) -> None:
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)
    behind = [place.batch(1, [("u", "a", 2)]), schema_change(4, 2)]

    for _ in range(2):
        with pytest.raises(TableStoppedError, match="which may change stored values"):
            sink.load(TABLE, behind, SCHEMAS)

    assert rows_in(sink) == [("a", 2)]
