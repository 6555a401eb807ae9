"""What only a lake can get wrong: commits that are cut from each other, instances that overtake, other writers."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest
from tests.servers.delta_case import DeltaReader
from tests.servers.sink_case import FIRST, INT, TABLE, schema_change

from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.core.errors import ConflictError, TableStoppedError, UnavailableError
from penstock.core.files import file_schema, render_file
from penstock.core.schema_changes import Move, SchemaChangeKind
from penstock.core.tables import Column, TableId, TextType
from penstock.core.transforms.column_patterns import ColumnPatterns
from penstock.core.transforms.column_rules import ColumnRule, ColumnRules
from penstock.core.transforms.masks import Blank
from penstock.links.warehouse.lake_sink import LakeSink
from penstock.links.warehouse.load_rules import LoadRules
from penstock.links.warehouse.set_aside import UNFILLED
from penstock.spark.delta.query import query_lake
from penstock.spark.delta.session import own_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.delta_case import DeltaPlace, DeltaTarget

    from penstock.core.batches import Batch
    from penstock.spark.delta.lake import DeltaLake

AFTER = replace(FIRST, columns=(*FIRST.columns, Column("size", INT, nullable=False, default="7", comment="in cm")))
SCHEMAS = {1: FIRST, 4: AFTER}
MOVED = TableId("shop", "moved to; here")
HIDING = ColumnRules((ColumnRule(ColumnPatterns(("shop.orders.qty",)), Blank()),))
RULES = LoadRules(dropped_tables="drop", deletes="soft", columns=HIDING)


class CutError(UnavailableError):
    """The lake was cut off on purpose."""


class CutLake:
    """A lake that is cut off before or after one of its calls."""

    def __init__(self, lake: DeltaLake, calls: int) -> None:
        self._lake = lake
        self._left = calls

    def __getattr__(self, name: str) -> object:
        found = getattr(self._lake, name)
        if name not in {"replace", "append", "change", "amend", "note", "remove", "version"}:
            return found

        def counted(*args: object) -> object:
            self._count()
            result = found(*args)
            self._count()
            return result

        return counted

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            message, hint = "cut", "-"
            raise CutError(message, hint)


class LateLake:
    """A lake before whose first note something else comes."""

    def __init__(self, lake: DeltaLake, comes: Callable[[], object]) -> None:
        self._lake = lake
        self._comes = [comes]

    def __getattr__(self, name: str) -> object:
        return getattr(self._lake, name)

    def note(self, table: TableId, number: int, behind: int | None = None) -> None:
        while self._comes:
            self._comes.pop()()
        self._lake.note(table, number, behind)


@pytest.mark.nightly
def test_whatever_is_cut_off_every_change_is_in_once(lake_place: DeltaPlace) -> None:
    steps = story(lake_place)
    target = cast("DeltaTarget", lake_place.target)
    done = cuts = 0
    while done < len(steps):
        # The second life of each step is cut one call later than the first, and so on.
        cut = CutLake(target.lake(), 1 + cuts % 9)
        try:
            sink = LakeSink(cast("DeltaLake", cut), target.lake_state(), lake_place.objects, RULES)
            while done < len(steps):
                steps[done](sink)
                done += 1
        except CutError:
            cuts += 1

    reader = DeltaReader(target)
    assert cuts >= 5
    assert lake_place.tables() == ["shop.log", str(MOVED)]
    path = target.lake().path(MOVED)
    assert reader.fetch(f"SELECT id, qty, size, _deleted_at IS NULL FROM {path} ORDER BY id") == [
        ("a", 0, 7, True), ("b", 0, 7, False), ("c", 0, 8, True), ("d", 0, 9, True)
    ]  # fmt: skip
    assert reader.fetch("SELECT id, _op FROM shop.log ORDER BY _pos, _op") == [("x", "c"), ("x", "c"), (None, "t")]
    comment = reader.fetch(f"DESCRIBE TABLE {path}")
    assert ("size", "int", "in cm") in comment


@pytest.mark.nightly
def test_a_table_that_ends_at_one_link_waits_before_what_is_loaded_of_it_is_forgotten(lake_place: DeltaPlace) -> None:
    target = cast("DeltaTarget", lake_place.target)
    sink = LakeSink(target.lake(), target.lake_state(), lake_place.objects)
    sink.load(TABLE, [schema_change(1), lake_place.batch(0, [("c", "a", 1)])], SCHEMAS)
    sink.finish(2, {MOVED: 1})

    cut = LakeSink(cast("DeltaLake", CutLake(target.lake(), 3)), target.lake_state(), lake_place.objects)
    with pytest.raises(CutError):
        cut.finish(3, {TABLE: UNFILLED}, {TABLE})

    after = LakeSink(target.lake(), target.lake_state(), lake_place.objects)
    assert (after.positions(TABLE), after.batch_offset()) == ({}, 2)
    assert after.waiting() == {MOVED: 1, TABLE: UNFILLED}


def story(place: DeltaPlace) -> list[Callable[[LakeSink], object]]:
    """A keyed table that is filled, altered, filled again, renamed and filled again, and a change log."""
    first = [schema_change(1), place.batch(0, [("c", "a", 1), ("c", "b", 2)])]
    log = replace(FIRST, table=TableId("shop", "log"), key=())
    layout = file_schema(log)
    fields = [("x", 1, "c", n, "bin.000001", n, 0, 0) for n in range(2)]
    rows = pa.Table.from_pylist([dict(zip(layout.names, values, strict=True)) for values in fields], layout)
    place.objects.put("log", render_file(log, rows))
    told = replace(schema_change(1), table=log.table, topic="log", end_offset=2, rows=2, path="log")
    emptied = replace(told, start_offset=2, rows=0, path="", kind=SchemaChangeKind.TRUNCATE, first_order=(1, 9, 0),
                      last_order=(1, 9, 0), file="bin.000001")  # fmt: skip
    moved = replace(AFTER, table=MOVED)
    behind = replace(
        filed(place, 4, ("d", 4, 9, "c", 4)), table=MOVED, topic="moved", schema_id=9, start_offset=0, end_offset=1,
        first_order=(9, 5, 0), last_order=(9, 5, 0),
    )  # fmt: skip
    return [
        lambda sink: sink.load(TABLE, first, SCHEMAS),
        lambda sink: sink.load(TABLE, [*first, filed(place, 2, ("b", 2, 7, "d", 2), ("c", 3, 8, "c", 3))], SCHEMAS),
        lambda sink: sink.load(log.table, [told, emptied], {1: log}),
        lambda sink: sink.rename([Move(str(TABLE), str(MOVED), 9)], (9, 0, 0), {9: moved}),
        lambda sink: sink.load(MOVED, [behind], {9: moved}),
    ]


def filed(place: DeltaPlace, start: int, *rows: tuple[object, ...]) -> Batch:
    """Rows of the altered table in a file."""
    layout = file_schema(AFTER)
    table = pa.Table.from_pylist([dict(zip(layout.names, row, strict=True)) for row in rows], layout)
    place.objects.put(f"from-{start}", render_file(AFTER, table))
    end = start + len(rows)
    return replace(schema_change(4, end), start_offset=start, end_offset=end, rows=len(rows), path=f"from-{start}")


def test_an_instance_that_was_overtaken_adds_nothing_until_it_looks_again(lake_place: DeltaPlace) -> None:
    older = lake_place.open()
    older.load(TABLE, [lake_place.batch(0, [("c", "a", 1)])], SCHEMAS)
    newer = lake_place.open()
    newer.load(TABLE, [lake_place.batch(1, [("u", "a", 2)])], SCHEMAS)

    with pytest.raises(UnavailableError, match=r"another instance of this pipeline has written shop\.orders"):
        older.load(TABLE, [lake_place.batch(1, [("u", "a", 2)]), lake_place.batch(2, [("c", "b", 1)])], SCHEMAS)
    behind = older.load(TABLE, [lake_place.batch(1, [("u", "a", 2)]), lake_place.batch(2, [("c", "b", 1)])], SCHEMAS)

    assert behind.rows == 1
    assert lake_place.ask("SELECT id, qty FROM shop.orders ORDER BY id") == [("a", 2), ("b", 1)]


@pytest.mark.nightly
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_table_begins_anew_behind_changes_that_it_never_had(lake_place: DeltaPlace, *, is_deleted: bool) -> None:
    older = lake_place.open()
    older.load(TABLE, [lake_place.batch(0, [("c", "a", 1)])], SCHEMAS)
    if is_deleted:
        cast("DeltaTarget", lake_place.target).lake().remove(TABLE)
    older.finish(9, {TABLE: 8}, [TABLE])

    begins = replace(schema_change(1), kind=SchemaChangeKind.CREATE, first_order=(1, 8, 0), last_order=(1, 8, 0))
    after = replace(lake_place.batch(5, [("c", "b", 1)]), first_order=(1, 9, 0), last_order=(1, 9, 0))
    sink = lake_place.open()
    for _ in range(2):
        sink.load(TABLE, [begins, after], SCHEMAS)

    assert sink.waiting() == {TABLE: 8}
    assert lake_place.ask("SELECT id, qty FROM shop.orders ORDER BY id") == [("b", 1)]


@pytest.mark.nightly
def test_what_was_said_of_a_table_that_left_is_gone_once_its_name_begins_again(lake_place: DeltaPlace) -> None:
    sink = lake_place.open(rules=LoadRules(dropped_tables="drop"))
    kinds = (SchemaChangeKind.CREATE, SchemaChangeKind.DROP, SchemaChangeKind.CREATE)
    for at, kind in enumerate(kinds):
        order = (1, at, 0)
        sink.load(TABLE, [replace(schema_change(1), kind=kind, first_order=order, last_order=order)], SCHEMAS)

    target = cast("DeltaTarget", lake_place.target)
    state, store = target.lake_state(), open_objects(ObjectsSpec(target.url))
    said = [key.rpartition("/")[2] for key in store.list(f"{state.folder(TABLE)}/")]
    assert said == [f"{target.lake().number(TABLE):020d}.json", "life.json"]
    assert state.living() == [TABLE]


def test_of_two_commits_at_once_with_numbers_of_one_owner_one_fails(lake_place: DeltaPlace) -> None:
    lake_place.open().load(TABLE, [schema_change(1)], SCHEMAS)
    slower, faster = (cast("DeltaTarget", lake_place.target).lake() for _ in range(2))
    number = (faster.number(TABLE) or 0) + 1

    def overtake(metadata: str) -> str:
        faster.note(TABLE, number)
        return metadata

    with pytest.raises(ConflictError, match="another writer changed the table meanwhile"):
        slower.amend(TABLE, overtake, number + 1)

    assert slower.number(TABLE) == number


@pytest.mark.nightly
def test_what_another_instance_commits_before_a_claim_is_not_loaded_twice(lake_place: DeltaPlace) -> None:
    target = cast("DeltaTarget", lake_place.target)
    second = [lake_place.batch(1, [("c", "b", 1)])]
    older = lake_place.open()
    older.load(TABLE, [lake_place.batch(0, [("c", "a", 1)])], SCHEMAS)
    late = LateLake(target.lake(), lambda: older.load(TABLE, second, SCHEMAS))
    newer = LakeSink(cast("DeltaLake", late), target.lake_state(), lake_place.objects)

    with pytest.raises(UnavailableError, match=r"another instance of this pipeline has written shop\.orders"):
        newer.load(TABLE, second, SCHEMAS)

    assert newer.load(TABLE, second, SCHEMAS).rows == 0
    assert lake_place.ask("SELECT id FROM shop.orders ORDER BY id") == [("a",), ("b",)]


@pytest.mark.nightly
def test_a_table_whose_files_somebody_deleted_stops_alone(lake_place: DeltaPlace) -> None:
    sink, target, other = lake_place.open(), cast("DeltaTarget", lake_place.target), TableId("shop", "items")
    schemas = {1: FIRST, 2: replace(FIRST, table=other)}
    for table, schema_id in ((TABLE, 1), (other, 2)):
        sink.load(table, [replace(lake_place.batch(0, [("c", "a", 1)]), table=table, schema_id=schema_id)], schemas)
    store = open_objects(ObjectsSpec(target.url))
    store.delete([key for key in store.list("shop/orders/") if key.endswith(".parquet")])

    with pytest.raises(TableStoppedError, match=r"cannot change shop\.orders: .*FILE_NOT_EXIST") as stopped:
        sink.load(TABLE, [lake_place.batch(1, [("u", "a", 2)])], schemas)
    sink.load(other, [replace(lake_place.batch(1, [("u", "a", 2)]), table=other, schema_id=2)], schemas)

    assert "delete the table's folder, then " in stopped.value.hint
    assert lake_place.ask("SELECT id, qty FROM shop.items") == [("a", 2)]
    target.lake().remove(TABLE)
    again = lake_place.open()
    again.finish(0, anew={TABLE})
    again.load(TABLE, [lake_place.batch(0, [("c", "a", 1)]), lake_place.batch(1, [("u", "a", 2)])], schemas)
    assert lake_place.ask("SELECT id, qty FROM shop.orders") == [("a", 2)]


@pytest.mark.nightly
def test_optimize_and_vacuum_of_others_are_in_nobodys_way(lake_place: DeltaPlace) -> None:
    sink, over = lake_place.open(), threading.Event()
    sink.load(TABLE, [lake_place.batch(0, [("c", str(n), n) for n in range(5)])], SCHEMAS)

    def tidy() -> None:
        while not over.is_set():
            lake_place.do("OPTIMIZE shop.orders")

    tidying = threading.Thread(target=tidy)
    tidying.start()
    try:
        for n in range(3):
            sink.load(TABLE, [lake_place.batch(5 + n, [("u", str(n), -n)])], SCHEMAS)
    finally:
        over.set()
        tidying.join()
    lake_place.do("VACUUM shop.orders")
    sink.load(TABLE, [lake_place.batch(8, [("d", "3", 3)])], SCHEMAS)

    assert lake_place.ask("SELECT sum(qty), count(*) FROM shop.orders") == [(4 - 3, 4)]


@pytest.mark.nightly
def test_files_whose_rows_are_large_are_commits_of_their_own_and_each_is_in_once(lake_place: DeltaPlace) -> None:
    sink, lake = lake_place.open(rules=LoadRules(held_bytes_max=1)), cast("DeltaTarget", lake_place.target).lake()
    sink.load(TABLE, [lake_place.batch(0, [("c", "0", 0)])], SCHEMAS)
    begun = lake.version(TABLE)
    batches = [lake_place.batch(start, [("c", str(start), start)]) for start in range(1, 4)]

    assert [sink.load(TABLE, batches, SCHEMAS).rows for _ in range(2)] == [3, 0]

    assert lake.version(TABLE) == begun + 3
    assert lake_place.ask("SELECT id, qty FROM shop.orders ORDER BY id") == [(str(n), n) for n in range(4)]


@pytest.mark.nightly
def test_a_file_of_ours_that_is_gone_stops_its_table_until_it_begins_anew(
    lake_place: DeltaPlace,
) -> None:
    sink, target = lake_place.open(), cast("DeltaTarget", lake_place.target)
    sink.load(TABLE, [schema_change(1)], SCHEMAS)
    store = open_objects(ObjectsSpec(target.url))
    for key in store.list(f"{target.lake_state().folder(TABLE)}/"):
        store.delete([key])

    other, rows = lake_place.open(), [lake_place.batch(0, [("c", "a", 1)])]
    with pytest.raises(TableStoppedError, match="which says how far the table is") as stopped:
        other.load(TABLE, rows, SCHEMAS)

    assert "delete the table's folder, then " in stopped.value.hint
    target.lake().remove(TABLE)
    other.finish(0, anew={TABLE})
    other.load(TABLE, rows, SCHEMAS)
    assert lake_place.ask("SELECT id, qty FROM shop.orders") == [("a", 1)]


def test_queries_read_tables_by_their_names_and_write_nothing(lake_place: DeltaPlace) -> None:
    from penstock.core.errors import UsageError  # noqa: PLC0415
    from penstock.ports.queries import ReadLimits  # noqa: PLC0415

    target = cast("DeltaTarget", lake_place.target)
    mine = TableId("q" + str(abs(hash(target.url))), "orders")
    schema = replace(
        FIRST, table=mine, columns=(*FIRST.columns, Column("odd name", TextType(9, "ascii"), nullable=True))
    )
    lake_place.open().load(mine, [replace(schema_change(1), table=mine)], {1: schema})

    found = query_lake(target.session, target.url, f"SELECT count(`odd name`) AS n FROM {mine}", ReadLimits())

    assert found.rows.to_pylist() == [{"n": 0}]
    for statement in (f"DELETE FROM {mine}", f"WITH a AS (SELECT 1) INSERT INTO {mine} SELECT * FROM a", "SELECT FROM"):
        with pytest.raises(UsageError):
            query_lake(target.session, target.url, statement, ReadLimits())


@pytest.mark.nightly
def test_a_query_does_not_read_a_table_whose_name_differs_in_case_alone(lake_place: DeltaPlace) -> None:
    from penstock.core.errors import UsageError  # noqa: PLC0415
    from penstock.ports.queries import ReadLimits  # noqa: PLC0415

    target = cast("DeltaTarget", lake_place.target)
    schema, session = "q" + str(abs(hash(target.url))), own_session(target.session)
    for rows, name in enumerate(("Orders", "orders")):
        session.range(rows).write.format("delta").save(f"{target.url}/{schema}/{name}")

    found = query_lake(target.session, target.url, f"SELECT count(*) AS n FROM {schema}.orders", ReadLimits())

    assert found.rows.to_pylist() == [{"n": 1}]
    for names in ("ORDERS", "orders, {0}.Orders"):
        with pytest.raises(UsageError, match="upper and lower case do not count"):
            query_lake(target.session, target.url, f"SELECT 1 FROM {{0}}.{names}".format(schema), ReadLimits())
