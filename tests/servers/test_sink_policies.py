"""What becomes of deleted rows, and of values that a target cannot hold, as every kind of target does it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import duckdb
import pytest
from tests.servers.kinds import on_every_target
from tests.servers.sink_case import (
    FIRST,
    SCHEMAS,
    TABLE,
    DuckdbTarget,
    PostgresTarget,
    rows_in,
    schema,
    schema_change,
    write_batch,
)
from tests.servers.test_sink_barriers import stated

from penstock.core.errors import TableStoppedError
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import DecimalType, TextType
from penstock.links.warehouse.load_rules import LoadRules

if TYPE_CHECKING:
    from tests.servers.sink_case import Place

    from penstock.core.warehouse.load_plan import Overflow

pytestmark = on_every_target

SOFT = LoadRules(deletes="soft")
LIVING = "SELECT id, qty FROM shop.orders WHERE _deleted_at IS NULL ORDER BY id"
MARKED = (
    "SELECT id, qty, CAST(EXTRACT(epoch FROM _deleted_at) AS BIGINT) FROM shop.orders WHERE _deleted_at IS NOT NULL"
)


def test_soft_deletes_keep_the_row_and_say_when_and_a_new_row_revives_it(place: Place) -> None:
    sink = place.open(rules=SOFT)

    sink.load(TABLE, [write_batch(place, FIRST, 1, 0, [("a", 1, "c"), ("b", 2, "c"), ("a", 1, "d")])], SCHEMAS)
    marked = rows_in(sink, MARKED)
    sink.load(
        TABLE, [write_batch(place, FIRST, 1, 3, [("a", 5, "c"), ("b", 2, "d"), ("c", 3, "c"), ("c", 3, "d")])], SCHEMAS
    )

    assert marked == [("a", 1, 1_700_000_000)]
    assert rows_in(sink, LIVING) == [("a", 5)]
    assert sorted(row[0] for row in rows_in(sink, MARKED)) == ["b", "c"]


def test_truncate_marks_every_row_with_soft_deletes(place: Place) -> None:
    sink = place.open(rules=SOFT)
    sink.load(TABLE, [write_batch(place, FIRST, 1, 0, [("a", 1, "c"), ("b", 2, "c")])], SCHEMAS)

    sink.load(TABLE, [stated(SchemaChangeKind.TRUNCATE, 9)], SCHEMAS)

    assert (rows_in(sink, LIVING), len(rows_in(sink, MARKED))) == ([], 2)


def test_a_table_gets_soft_deletes_later_and_loses_them_once_no_row_is_marked(place: Place) -> None:
    place.open().load(TABLE, [write_batch(place, FIRST, 1, 0, [("a", 1, "c"), ("b", 2, "c")])], SCHEMAS)
    place.open(rules=SOFT).load(TABLE, [write_batch(place, FIRST, 1, 2, [("a", 1, "d")])], SCHEMAS)
    hard, more = place.open(), [write_batch(place, FIRST, 1, 3, [("b", 2, "d"), ("c", 3, "c")])]

    with pytest.raises(TableStoppedError, match="its deletes are hard now, and rows are marked as deleted") as stopped:
        hard.load(TABLE, more, SCHEMAS)
    do_as_people_do(place, stopped.value.hint.split("(")[1].split(")")[0])
    again = place.open()
    again.load(TABLE, more, SCHEMAS)

    assert (rows_in(again), list(place.columns())) == ([("c", 3)], ["id", "qty"])


def do_as_people_do(place: Place, statement: str) -> None:
    """Run what a hint says where people would; a file of DuckDB is not called there what it is called by us.

    Called as its file is, it would have the name of the schema, which DuckDB refuses, and says how to write it.
    """
    if not isinstance(place.target, DuckdbTarget):
        place.do(statement)
        return
    place.close()
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{place.target.path}' AS theirs")
        connection.execute("USE theirs")
        connection.execute(statement)


def test_soft_deletes_survive_a_change_of_the_table(place: Place) -> None:
    wider = replace(SCHEMAS[2], key=("qty",))
    sink = place.open(rules=SOFT)
    sink.load(TABLE, [write_batch(place, FIRST, 1, 0, [("a", 1, "c"), ("b", 1, "c"), ("a", 1, "d")])], SCHEMAS)

    sink.load(TABLE, [schema_change(2, 3), schema_change(5, 3)], {**SCHEMAS, 5: wider})
    sink.load(TABLE, [replace(write_batch(place, wider, 5, 4, [("b", 1, "d")]), topic="t.2")], {5: wider})

    assert (rows_in(sink, LIVING), {row[0] for row in rows_in(sink, MARKED)}) == ([], {"b"})


WITH_NAME = schema(name=TextType(20, "utf8mb4"))


@pytest.mark.parametrize(("overflow", "became"), [("null", None), ("clamp", "nul")])
def test_a_character_that_a_target_does_not_hold_is_counted_and_left_out(
    place: Place, overflow: Overflow, became: str | None
) -> None:
    if place.holds_nul:
        pytest.skip("DuckDB holds it")
    sink = place.open(rules=LoadRules(overflow=overflow))

    rows: list[tuple[object, ...]] = [("a", "nul\x00", "c"), ("b", "fine", "c"), ("c", None, "c")]
    first = sink.load(TABLE, [write_batch(place, WITH_NAME, 1, 0, rows)], {1: WITH_NAME})
    second = sink.load(TABLE, [write_batch(place, WITH_NAME, 1, 3, [("d", "\x00nul", "c")])], {1: WITH_NAME})

    assert rows_in(sink) == [("a", became), ("b", "fine"), ("c", None), ("d", became)]
    assert (first.out_of_range, second.out_of_range) == (1, 1)
    assert str(second.note).startswith(f"2 value(s) did not fit into {sink._warehouse.dialect.name}")


def test_a_value_in_a_key_stops_its_table_whatever_the_policy_is(place: Place) -> None:
    if place.holds_nul:
        pytest.skip("DuckDB holds it")
    sink = place.open(rules=LoadRules(overflow="null"))

    with pytest.raises(TableStoppedError, match=r"orders\.id .* of the row with id .* changed at offset 1") as stopped:
        sink.load(TABLE, [write_batch(place, FIRST, 1, 0, [("a", 1, "c"), ("b\x00", 1, "c")])], SCHEMAS)

    assert "in a key" in stopped.value.hint
    assert place.tables() == []


@pytest.mark.parametrize(("overflow", "became"), [("null", None), ("clamp", Decimal("-" + "9" * 8 + "." + "9" * 30))])
def test_digits_that_a_target_does_not_hold_are_counted_and_let_go(
    place: Place, overflow: Overflow, became: Decimal | None
) -> None:
    if isinstance(place.target, PostgresTarget):
        pytest.skip("PostgreSQL holds them")
    wide = schema(price=DecimalType(65, 30))
    fits, small = Decimal("99999999." + "1" * 30), Decimal(-100000000)
    sink = place.open(rules=LoadRules(overflow=overflow))

    loaded = sink.load(TABLE, [write_batch(place, wide, 1, 0, [("a", fits, "c"), ("b", small, "c")])], {1: wide})

    assert loaded.out_of_range == 1
    found: list[tuple[object, ...]] = [*rows_in(sink)]
    assert found == [("a", fits), ("b", became)]
    with pytest.raises(TableStoppedError, match="holds 38 decimal digits"):
        place.open().load(TABLE, [write_batch(place, wide, 1, 2, [("c", fits, "c")])], {1: wide})
