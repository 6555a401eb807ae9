"""Definitions of Snowflake's tables whose outcome is in doubt, or that Snowflake refuses however often it is asked."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, repeat
from typing import TYPE_CHECKING

import pytest
from tests.servers.cut_warehouse import CutError
from tests.servers.sink_case import FIRST, INT, TABLE, rows_in, schema, schema_change, write_batch

from penstock.adapters.snowflake.warehouse import SnowflakeWarehouse
from penstock.core.errors import RefusedStatementError, TableStoppedError
from penstock.core.schema_changes import Move, SchemaChangeKind
from penstock.core.tables import TableId
from penstock.links.warehouse.load_rules import LoadRules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.servers.sink_case import Place

    from penstock.core.batches import Batch
    from penstock.core.tables import TableSchema
    from penstock.links.warehouse.sink import SqlSink
    from penstock.ports.warehouse import Value

LOG = replace(FIRST, key=())
MORE = replace(FIRST, columns=(*FIRST.columns, *schema(size=INT).columns[1:]))
OTHERS = TableId("shop", "others")
SOFT = LoadRules(deletes="soft")


@pytest.fixture
def place(snowflake_place: Place) -> Place:
    """A database of a Snowflake."""
    return snowflake_place


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(FIRST, LOG, [("a", 1, "r")]), (LOG, FIRST, [("a", 1, True), ("b", 2, True)])],
    ids=["a table that loses its key", "a table that gets a key"],
)
def test_a_table_that_is_replaced_ends_the_same_whichever_statement_loses_its_answer(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    before: TableSchema,
    after: TableSchema,
    expected: list[tuple[object, ...]],
) -> None:
    rows: list[tuple[object, ...]] = [("a", 1, "c"), ("b", 2, "c"), *([("b", 2, "d")] if before.key else [])]
    sink, schemas = place.open(rules=SOFT), {1: before, 5: after}
    sink.load(TABLE, [write_batch(place, before, 1, 0, rows)], schemas)
    # fakesnow answers 1970 for a timestamp that is NULL.
    told = "_deleted_at IS NULL" if after.key else "_op"

    cuts = 0
    # From the second try on the first statement is the one in doubt, and the next one loses its answer.
    for left in chain([1], repeat(2)):
        with losing_the_answer(monkeypatch, left):
            try:
                place.open(rules=SOFT).load(TABLE, [schema_change(5, len(rows))], schemas)
            except CutError:
                cuts += 1
                continue
        break

    assert cuts == 3
    assert rows_in(place.open(rules=SOFT), f"SELECT id, qty, {told} FROM shop.orders ORDER BY 1") == expected
    assert place.tables() == ["shop.orders"]


@contextmanager
def losing_the_answer(monkeypatch: pytest.MonkeyPatch, number: int) -> Iterator[None]:
    """Let Snowflake do the statement of this `number` that defines something, and the client not know it."""
    run, left = SnowflakeWarehouse.run, [number]

    def cut(self: SnowflakeWarehouse, statement: str, values: Sequence[Value] = ()) -> None:
        run(self, statement, values)
        if statement.startswith(("CREATE OR REPLACE", "DROP")):
            left[0] -= 1
            if not left[0]:
                raise CutError(statement, "run again")

    with monkeypatch.context() as patch:
        patch.setattr(SnowflakeWarehouse, "run", cut)
        yield


@contextmanager
def refusing(monkeypatch: pytest.MonkeyPatch, part: str) -> Iterator[None]:
    """Let Snowflake refuse every statement with this `part`."""
    run = SnowflakeWarehouse.run

    def refuse(self: SnowflakeWarehouse, statement: str, values: Sequence[Value] = ()) -> None:
        if part in statement:
            said = "Numeric value 'x' is not recognized"
            raise RefusedStatementError(said, "correct what the error names, and run again")
        run(self, statement, values)

    with monkeypatch.context() as patch:
        patch.setattr(SnowflakeWarehouse, "run", refuse)
        yield


def begins_anew(schema_id: int) -> Batch:
    """What a full refresh brings ahead of the rows."""
    return replace(schema_change(schema_id, 0, topic="t.refreshed"), kind=SchemaChangeKind.CREATE)


@pytest.mark.nightly
def test_a_definition_that_is_always_refused_stops_its_table_alone_and_no_full_refresh_of_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    schemas = {1: FIRST, 5: MORE, 6: MORE}
    others = {number: replace(each, table=OTHERS) for number, each in schemas.items()}
    place.open().load(TABLE, [write_batch(place, FIRST, 1, 0, [("a", 1, "c")])], schemas)
    with refusing(monkeypatch, '"shop"."orders" ADD COLUMN'):
        for _ in range(2):
            with pytest.raises(TableStoppedError, match=r"not recognized .*ADD COLUMN") as stopped:
                place.open().load(TABLE, [schema_change(5, 1)], schemas)
            assert "penstock snapshot FILE TABLE --full-refresh" in stopped.value.hint

        sink = place.open()
        sink.load(OTHERS, [write_batch(place, others[5], 5, 0, [("b", 2, 3, "c")])], others)
        sink.load(TABLE, [begins_anew(6)], schemas)
        sink.load(TABLE, [replace(write_batch(place, MORE, 6, 1, [("c", 4, 5, "r")]), topic="t.refreshed")], schemas)

    assert rows_in(sink) == [("c", 4, 5)]
    assert rows_in(sink, "SELECT * FROM shop.others") == [("b", 2, 3)]
    assert sink._warehouse.fetch("SELECT COUNT(*) FROM penstock.definitions") == [(0,)]


@pytest.mark.nightly
def test_a_full_refresh_leaves_no_copy_of_a_table_that_could_not_be_replaced(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.open().load(TABLE, [write_batch(place, FIRST, 1, 0, [("a", 1, "c")])], {1: FIRST})
    with refusing(monkeypatch, " CLONE "), pytest.raises(TableStoppedError, match="not recognized"):
        place.open().load(TABLE, [schema_change(5, 1)], {1: FIRST, 5: LOG})
    left, sink = place.tables(), place.open()
    sink._warehouse.run('CREATE TABLE "shop"."__penstock_copy" ("id" VARCHAR(20))')

    sink.load(TABLE, [begins_anew(6)], {1: FIRST, 5: LOG, 6: LOG})

    assert left == ["shop.__penstock_copy/orders", "shop.orders"]
    assert place.tables() == ["shop.orders"]


@pytest.mark.nightly
def test_of_tables_that_are_renamed_together_the_one_that_cannot_be_changed_stops_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = place.open()
    sink.load(TABLE, [write_batch(place, FIRST, 1, 0, [("a", 1, "c")])], {1: FIRST})
    others = {1: replace(FIRST, table=OTHERS), 5: replace(MORE, table=OTHERS)}
    away = replace(write_batch(place, others[1], 1, 0, [("b", 2, "c")]), topic="t.others")
    sink.load(OTHERS, [away], others)
    moves = [Move(str(TABLE), str(OTHERS), 5), Move(str(OTHERS), str(TABLE), 1)]

    with refusing(monkeypatch, " ADD COLUMN "):
        sink.rename(moves, (9, 0, 0), {1: FIRST, 5: others[5]})
        place.open().rename(moves, (9, 0, 0), {1: FIRST, 5: others[5]})
        with pytest.raises(TableStoppedError, match="not recognized"):
            load_behind(place, sink, others[5], 5)
        load_behind(place, sink, FIRST, 1)
    load_behind(place, sink, others[5], 5)

    assert rows_in(sink) == [("b", 2), ("z", 9)]
    assert list(map(repr, rows_in(sink, "SELECT * FROM shop.others ORDER BY id"))) == ["('a', 1, None)", "('z', 9, 9)"]


def test_a_rename_between_tables_that_is_refused_says_what_to_do_and_no_full_refresh_which_cannot_help(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = place.open()
    sink.load(TABLE, [write_batch(place, FIRST, 1, 0, [("a", 1, "c")])], {1: FIRST})
    others = replace(FIRST, table=OTHERS)
    away = replace(write_batch(place, others, 1, 0, [("b", 2, "c")]), topic="t.others")
    sink.load(OTHERS, [away], {1: others})
    moves = [Move(str(TABLE), str(OTHERS), 1), Move(str(OTHERS), str(TABLE), 1)]

    with refusing(monkeypatch, " RENAME TO "), pytest.raises(TableStoppedError, match="RENAME TO") as refused:
        sink.rename(moves, (9, 0, 0), {1: others})

    assert "full-refresh" not in refused.value.hint
    assert "grant what it needs" in refused.value.hint


def load_behind(place: Place, sink: SqlSink, after: TableSchema, schema_id: int) -> None:
    """Load a row that comes behind the rename."""
    values = ("z", *[9] * (len(after.columns) - 1), "c")
    batch = replace(write_batch(place, after, schema_id, 0, [values]), topic=f"t.behind.{after.table}")
    behind = {"first_order": (10, 0, 0), "last_order": (10, 1, 0)}
    sink.load(after.table, [replace(batch, **behind)], {schema_id: after})  # type: ignore[arg-type]
