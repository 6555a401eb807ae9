"""Statements as every kind of target takes them: once, at their place, whatever comes again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.servers.kinds import on_every_target
from tests.servers.sink_case import FIRST, INT, SCHEMAS, TABLE, rows_in, schema, schema_change

from penstock.core.errors import PositionError, TableStoppedError
from penstock.core.files import file_schema, render_file
from penstock.core.schema_changes import Move, SchemaChangeKind
from penstock.core.tables import TableId, TableSchema
from penstock.links.warehouse.load_rules import LoadRules

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.sink_case import Place

    from penstock.core.batches import Batch
    from penstock.core.warehouse.load_plan import DroppedTables
    from penstock.links.warehouse.sink import SqlSink

LOG = TableSchema(TABLE, FIRST.columns, ())

WHERE_CASE_IS_NOTHING = pytest.mark.parametrize(
    "place", ["duckdb", pytest.param("redshift", marks=pytest.mark.nightly)], indirect=True
)
"""Targets in which `Orders` and `orders` are one table."""


def log_batch(place: Place, start: int, rows: list[tuple[str, str]]) -> Batch:
    """Write rows (op, id) of a change log that stand in the source's log where their offsets are."""
    layout = file_schema(LOG)
    fields = [(key, 1, op, start + n, "bin.000001", start + n, 0, 0) for n, (op, key) in enumerate(rows)]
    table = pa.Table.from_pylist([dict(zip(layout.names, values, strict=True)) for values in fields], layout)
    place.objects.put(f"{start}", render_file(LOG, table))
    told = replace(schema_change(1, start), end_offset=start + len(rows), rows=len(rows), path=f"{start}")
    return replace(told, first_order=(1, start, 0), last_order=(1, start + len(rows) - 1, 0))


@on_every_target
def test_a_change_log_says_where_it_was_emptied_and_adds_up_as_the_page_says(place: Place) -> None:
    page = (Path(__file__).parents[2] / "docs" / "targets.md").read_text()
    query = page.partition("```sql\nSELECT logged_at")[2].partition("```")[0]
    query = f"SELECT logged_at{query}".replace("logged_at, actor, action, entity_id, detail", "id")
    sink = place.open()

    sink.load(TABLE, [
        log_batch(place, 0, [("c", "a"), ("c", "a")]), stated(SchemaChangeKind.TRUNCATE, 2),
        replace(log_batch(place, 3, [("c", "a"), ("c", "b"), ("d", "b"), ("c", "c"), ("c", "c")]), start_offset=2),
    ], {1: LOG})  # fmt: skip

    assert sorted(rows_in(sink, query.replace("audit_log", "orders"))) == [("a", 1), ("c", 2)]
    emptied = "SELECT _file, _pos, CAST(EXTRACT(epoch FROM _committed_at) * 1000 AS BIGINT) FROM shop.orders"
    assert rows_in(sink, f"{emptied} WHERE _op = 't' AND id IS NULL") == [("bin.000001", 2, 5)]


def stated(kind: SchemaChangeKind, at: int, table: TableId = TABLE, schema_id: int = 1) -> Batch:
    """A statement at `at` of the log's file 1, in which rows are where their offsets say."""
    told = replace(schema_change(schema_id), table=table, kind=kind, file="bin.000001", last_timestamp_ms=5)
    return replace(told, first_order=(1, at, 0), last_order=(1, at, 0))


@on_every_target
def test_a_statement_that_comes_again_takes_no_rows_that_came_behind_it(place: Place) -> None:
    before, behind = place.batch(0, [("c", "a", 1), ("c", "b", 1)]), place.batch(5, [("c", "b", 2)])
    behind = replace(behind, start_offset=2, end_offset=6)
    batches = [schema_change(1), before, stated(SchemaChangeKind.TRUNCATE, 3), behind]
    sink = place.open()
    sink.load(TABLE, batches, SCHEMAS)

    sink.load(TABLE, batches, SCHEMAS)

    assert rows_in(sink) == [("b", 2)]


def test_rows_from_before_a_barrier_that_come_behind_it_are_refused(place: Place) -> None:
    sink = place.open()
    sink.load(TABLE, [schema_change(1), stated(SchemaChangeKind.TRUNCATE, 3)], SCHEMAS)

    with pytest.raises(PositionError, match=r"rows up to \(1, 0, 0\) come after its barrier at \(1, 3, 0\)"):
        sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)


@on_every_target
@pytest.mark.parametrize("dropped_tables", ["keep", "drop"])
def test_a_dropped_table_is_kept_or_dropped_and_said_so_until_it_begins_anew(
    place: Place, dropped_tables: DroppedTables
) -> None:
    sink = place.open(rules=LoadRules(dropped_tables=dropped_tables))
    sink.load(TABLE, [schema_change(1), place.batch(0, [("c", "a", 1)])], SCHEMAS)

    ended = sink.load(TABLE, [stated(SchemaChangeKind.DROP, 3)], SCHEMAS)
    tables = place.tables()
    begun = sink.load(
        TABLE, [stated(SchemaChangeKind.DROP, 3), stated(SchemaChangeKind.CREATE, 9, schema_id=3)], SCHEMAS
    )

    assert tables == (["shop.orders"] if dropped_tables == "keep" else [])
    said = "its rows are kept here" if dropped_tables == "keep" else "it is not here any more"
    assert ended.note == f"the source dropped this table, or gave it another name, before bin.000001:3; {said}"
    assert begun.note == ""
    assert rows_in(sink) == []
    assert list(place.columns()) == ["id", "title"]


def named(name: str, schema: str = "shop") -> TableSchema:
    return replace(FIRST, table=TableId(schema, name))


def rename(sink: SqlSink, at: int, **moves: str) -> None:
    """Rename tables of `shop`; a new name may say another schema."""
    new = {old: TableId.parse(name if "." in name else f"shop.{name}") for old, name in moves.items()}
    told = [Move(f"shop.{old}", str(table), 10 + n) for n, (old, table) in enumerate(new.items())]
    sink.rename(told, (1, at, 0), {10 + n: replace(FIRST, table=table) for n, table in enumerate(new.values())})


def fill(place: Place, sink: SqlSink, **tables: str) -> None:
    """Make tables with a row each."""
    for name, row in tables.items():
        batch = replace(place.batch(0, [("c", row, 1)], topic=f"db.{name}"), table=TableId("shop", name))
        sink.load(batch.table, [batch], {1: named(name)})


def contents(place: Place) -> dict[str, object]:
    return {table: place.ask(f"SELECT id FROM {table}")[0][0] for table in place.tables()}


@on_every_target
def test_tables_swap_names_with_all_their_rows_once(place: Place) -> None:
    sink = place.open()
    fill(place, sink, orders="o", _orders_gho="g", other="x")

    for _ in range(2):
        rename(sink, 5, orders="_orders_del", _orders_gho="orders")
    rename(sink, 6, other="archive.other")
    # The first schema-change event of the old name comes again: nothing is made anew.
    sink.load(TableId("shop", "_orders_gho"), [stated(SchemaChangeKind.CREATE, 0, TableId("shop", "_orders_gho"))],
              {1: named("_orders_gho")})  # fmt: skip

    assert contents(place) == {"shop.orders": "g", "shop._orders_del": "o", "archive.other": "x"}
    again = replace(place.batch(1, [("u", "g", 2)], topic="db.orders"), schema_id=11)
    again = replace(again, first_order=(1, 7, 0), last_order=(1, 7, 0))
    sink.load(TABLE, [again], {11: FIRST})
    assert rows_in(sink) == [("g", 2)]


def test_a_name_that_another_table_had_is_taken_only_if_that_was_ours(place: Place) -> None:
    sink = place.open()
    fill(place, sink, a="a", b="b", c="c")
    place.do("CREATE TABLE shop.theirs AS SELECT 'not ours' AS id")

    rename(sink, 5, a="b")
    with pytest.raises(TableStoppedError, match="a table of this name that Penstock did not make"):
        rename(sink, 6, b="theirs")

    assert contents(place) == {"shop.b": "a", "shop.c": "c", "shop.theirs": "not ours"}


@on_every_target
def test_a_table_gets_its_name_in_other_letters_and_back(place: Place) -> None:
    sink = place.open()
    fill(place, sink, Orders="o")

    for _ in range(2):
        rename(sink, 5, Orders="orders")
    renamed = rows_in(sink, "SELECT id FROM shop.orders")
    rename(sink, 6, orders="Orders")
    again = replace(place.batch(1, [("c", "p", 2)], topic="db.Orders"), schema_id=10, table=TableId("shop", "Orders"))
    again = replace(again, first_order=(1, 7, 0), last_order=(1, 7, 0))
    sink.load(again.table, [again], {10: named("Orders")})

    path = '"shop"."Orders"'
    assert (renamed, rows_in(sink, f"SELECT id FROM {path} ORDER BY id")) == ([("o",)], [("o",), ("p",)])


@WHERE_CASE_IS_NOTHING
def test_tables_that_get_each_others_names_but_for_case_keep_their_rows(place: Place) -> None:
    sink = place.open()
    fill(place, sink, Orders="o", other="x")

    rename(sink, 5, Orders="Other", other="orders")

    assert {name.lower(): rows for name, rows in contents(place).items()} == {"shop.other": "o", "shop.orders": "x"}


@WHERE_CASE_IS_NOTHING
@pytest.mark.parametrize("how", ["create", "rename"])
def test_no_table_takes_the_place_of_one_whose_name_differs_in_case(place: Place, how: str) -> None:
    sink = place.open()
    fill(place, sink, Orders="o", other="x")
    rename(sink, 5, Orders="orders")

    begun = stated(SchemaChangeKind.CREATE, 7, TableId("shop", "Orders"))
    taken: dict[str, Callable[[], object]] = {
        "create": lambda: sink.load(begun.table, [begun], {1: named("Orders")}),
        "rename": lambda: rename(sink, 7, other="Orders"),
    }

    with pytest.raises(TableStoppedError, match=r"has the table shop\.orders, and upper and lower case do not count"):
        taken[how]()

    assert contents(place) == {"shop.orders": "o", "shop.other": "x"}


def test_rows_that_the_target_does_not_have_cannot_be_renamed(place: Place) -> None:
    sink = place.open()
    fill(place, sink, a="a")

    with pytest.raises(TableStoppedError, match=r"shop\.a stopped .* it got the rows of shop\.unknown"):
        rename(sink, 5, unknown="a", a="b")

    assert contents(place) == {"shop.a": "a"}


@on_every_target
def test_columns_swap_names_with_all_their_values_once(place: Place) -> None:
    first = schema(a=INT, b=INT, c=INT)
    after = schema(b=INT, a=INT, d=INT)
    layout = file_schema(first)
    row = dict(zip(layout.names, ["x", 1, 2, 3, "c", 0], strict=True))
    place.objects.put("file", render_file(first, pa.Table.from_pylist([row], layout)))
    batch = replace(schema_change(1), end_offset=1, rows=1, path="file")
    renamed = replace(schema_change(2, 1), column_renames=(("a", "b"), ("b", "a"), ("c", "d")))
    sink = place.open()

    for _ in range(2):
        sink.load(TABLE, [schema_change(1), batch, renamed], {1: first, 2: after})

    assert rows_in(sink, "SELECT id, a, b, d FROM shop.orders") == [("x", 2, 1, 3)]
