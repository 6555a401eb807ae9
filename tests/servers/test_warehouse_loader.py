"""The warehouse link's end: tables that one statement renames are loaded up to it, and then renamed together."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.servers.kinds import on_every_target
from tests.servers.sink_case import FIRST, DuckdbTarget, Place, PostgresTarget, schema_change

from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.adapters.state.store import open_state
from penstock.core.avro.schemas import value_schema
from penstock.core.batches import BatchOffset
from penstock.core.errors import ConflictError, PositionError
from penstock.core.schema_changes import Move, SchemaChangeKind
from penstock.core.tables import TableId, TableSchema
from penstock.links.warehouse import load as load_module
from penstock.links.warehouse.load import WarehouseLoader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from penstock.core.batches import Batch
    from penstock.links.warehouse.sink import SqlSink
    from penstock.ports.registry import RegisteredTable
    from penstock.ports.state import State
    from penstock.ports.warehouse import Value

OLD, NEW, SHADOW = (TableId("shop", name) for name in ("_orders_del", "orders", "_orders_gho"))
IDS = {NEW: 1, SHADOW: 2, OLD: 3}
SECONDS = 20.0
SWAP = (Move(str(SHADOW), str(NEW), IDS[NEW]), Move(str(NEW), str(OLD), IDS[OLD]))


class MemoryRegistry:
    """Schemas by id, which keeps the promises of its port but registers nothing new."""

    def register(self, source: str, schema: TableSchema) -> RegisteredTable:
        raise AssertionError((source, schema))

    def value_schema(self, schema_id: int) -> str:
        table = {number: table for table, number in IDS.items()}[schema_id]
        return value_schema(replace(FIRST, table=table))

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Warehouse:
    """A target, a state database, and the batch topic that is loaded into it."""

    place: Place
    state_url: str
    topic: list[bytes]
    wanted: tuple[TableId, ...] = (OLD, NEW, SHADOW)

    def load(self, *ends: int) -> dict[str, str]:
        """Load what is new, in parts that end where `ends` say; return the tables that stopped, and why."""
        state = open_state(self.state_url, "shop")
        sink = self.place.open()
        loader = open_loader(sink, state, self.wanted, list(enumerate(self.topic)))
        start = loader.start()
        for end in [*ends, len(self.topic)]:
            loader.load(list(enumerate(self.topic))[start:end])
            start = max(start, end)
        loader.close()
        stopped = dict(state.stopped_tables("link"))
        state.close()
        return stopped

    def contents(self) -> dict[str, list[tuple[Value, ...]]]:
        names = [table.removeprefix("shop.") for table in self.place.tables()]
        return {name: self.place.ask(f"SELECT id, qty FROM shop.{name} ORDER BY id") for name in names}


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    place = Place(DuckdbTarget(tmp_path / "shop.duckdb"), open_objects(ObjectsSpec((tmp_path / "objects").as_uri())))
    rows = [
        (rows_of(place, NEW, 0, 1, ("c", "old", 1)), SchemaChangeKind.SCHEMA),
        (rows_of(place, SHADOW, 0, 2, ("c", "new", 1)), SchemaChangeKind.SCHEMA),
        (told(SHADOW, 5), SchemaChangeKind.DROP),
        (told(OLD, 5), SchemaChangeKind.RENAME),
        (told(NEW, 5), SchemaChangeKind.RENAME),
        (rows_of(place, NEW, 1, 6, ("u", "new", 2)), SchemaChangeKind.SCHEMA),
        (rows_of(place, OLD, 0, 7, ("u", "old", 2)), SchemaChangeKind.SCHEMA),
    ]
    topic = [replace(b, kind=kind, moves=() if b.rows else SWAP, file="bin.000001").to_json() for b, kind in rows]
    return Warehouse(place, f"sqlite:///{tmp_path / 'state.db'}", topic)


def rows_of(place: Place, table: TableId, start: int, order: int, change: tuple[str, str, int]) -> Batch:
    batch = place.batch(start, [change], topic=f"db.{table}")
    return replace(batch, table=table, schema_id=IDS[table], first_order=(1, order, 0), last_order=(1, order, 0))


def told(table: TableId, order: int) -> Batch:
    batch = replace(schema_change(1), table=table, schema_id=IDS[table], topic=f"db.{table}")
    return replace(batch, first_order=(1, order, 0), last_order=(1, order, 0))


def open_loader(
    sinks: SqlSink | Sequence[SqlSink], state: State, wanted: Sequence[TableId], topic: Sequence[tuple[int, bytes]]
) -> WarehouseLoader:
    """A loader of the tables that are wanted, which finds in `topic` what tables that waited lack."""
    read = partial(read_list, topic)
    return WarehouseLoader("link", sinks, MemoryRegistry(), state, lambda _, table: table in wanted, read)


def read_list(topic: Sequence[tuple[int, bytes]], start: int, end: int) -> Iterator[Sequence[tuple[int, bytes]]]:
    yield [message for message in topic if start <= message[0] < end]


SWAPPED = {"orders": [("new", 2)], "_orders_del": [("old", 2)]}


@pytest.mark.parametrize("ends", [(), (1,), (2,), (3,), (4,), (5,), (6,), (1, 2, 3, 4, 5, 6)])
def test_a_swap_is_made_once_wherever_the_parts_end_that_are_loaded(
    warehouse: Warehouse, ends: tuple[int, ...]
) -> None:
    stopped = warehouse.load(*ends)

    assert (stopped, warehouse.contents()) == ({}, SWAPPED)


def test_tables_of_a_swap_wait_together_and_go_on_together(warehouse: Warehouse) -> None:
    path = replace(FIRST, table=SHADOW).table
    warehouse.place.do("CREATE SCHEMA shop", f"CREATE TABLE shop.{path.name} AS SELECT 'not ours' AS id")

    stopped = warehouse.load(3)
    waiting = warehouse.place.ask("SELECT id, qty FROM shop.orders")
    warehouse.place.do(f"DROP TABLE shop.{path.name}")

    assert set(stopped) == {str(NEW), str(OLD), str(SHADOW)}
    assert "Penstock did not make" in stopped[str(SHADOW)]
    assert waiting == [("old", 1)]
    assert (warehouse.load(), warehouse.contents()) == ({}, SWAPPED)


def test_a_link_without_the_shadow_stops_what_gets_its_rows(warehouse: Warehouse) -> None:
    warehouse.wanted = (OLD, NEW)

    stopped = warehouse.load()

    assert set(stopped) == {str(NEW)}
    assert "it got the rows of shop._orders_gho, which are not in this target" in stopped[str(NEW)]
    assert warehouse.contents() == {"_orders_del": [("old", 2)]}


def test_a_link_without_the_new_name_keeps_what_had_the_old(warehouse: Warehouse) -> None:
    warehouse.wanted = (SHADOW,)

    assert (warehouse.load(), warehouse.contents()) == ({}, {"_orders_gho": [("new", 1)]})


MANY = [TableId("shop", f"t{number}") for number in range(6)]


@on_every_target
def test_tables_load_side_by_side_and_one_that_fails_leaves_the_others_going(
    tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(IDS, MANY[0], 10)
    for number, table in enumerate(MANY[1:], 11):
        monkeypatch.setitem(IDS, table, number)
    batches = [
        rows_of(place, table, start, start + 1, ("c", f"{start}", start)) for start in range(3) for table in MANY
    ]
    batches[2] = replace(batches[2], path="nowhere.parquet")
    state = open_state(f"sqlite:///{tmp_path / 'state.db'}", "shop")
    sinks = [place.open() for _ in range(3 if isinstance(place.target, PostgresTarget) else 1)]
    topic = [(offset, batch.to_json()) for offset, batch in enumerate(batches)]
    loader = open_loader(sinks, state, MANY, topic)

    loaded = loader.load(topic)
    stopped = dict(state.stopped_tables("link"))
    offset, waiting = sinks[0].batch_offset(), sinks[0].waiting()
    loader.close()
    state.close()

    assert (loaded, set(stopped), offset, waiting) == (15, {"shop.t2"}, 18, {MANY[2]: 2})
    assert "nowhere.parquet" in stopped["shop.t2"]
    assert "it waits at offset 2 of the batch topic" in stopped["shop.t2"]
    assert place.ask("SELECT count(*) FROM shop.t5") == [(3,)]


def test_a_link_that_follows_tells_its_target_how_far_it_is_within_moments(warehouse: Warehouse) -> None:
    state, sink, asked = open_state(warehouse.state_url, "shop"), warehouse.place.open(), warehouse.place.open()
    topic = list(enumerate(warehouse.topic))
    loader = open_loader(sink, state, warehouse.wanted, topic)
    failures = list[BaseException]()
    loader.start()
    loader.keep_trying(failures.append)
    for message in topic:
        loader.load([message])

    deadline = time.monotonic() + SECONDS
    while asked.batch_offset() < len(topic) or state.place("link") != len(topic):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    rows = {table.table: table.rows for table in state.tables() if table.rows}
    loader.close()
    state.close()

    assert failures == []
    assert rows == {str(NEW): 2, str(SHADOW): 1, str(OLD): 1}


def test_what_a_killed_link_had_not_told_its_target_comes_again_and_changes_nothing(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_module, "_TICK_SECONDS", 60.0)
    state, sink = open_state(warehouse.state_url, "shop"), warehouse.place.open()
    topic = list(enumerate(warehouse.topic))
    killed = open_loader(sink, state, warehouse.wanted, topic)
    failures = list[BaseException]()
    killed.start()
    killed.keep_trying(failures.append)
    for message in topic:
        killed.load([message])
    told = warehouse.place.open().batch_offset()

    stopped = warehouse.load()
    killed.close()
    state.close()

    assert (failures, told < len(topic)) == ([], True)
    assert (stopped, warehouse.contents()) == ({}, SWAPPED)


def test_a_loader_that_was_displaced_does_not_set_its_target_back(warehouse: Warehouse) -> None:
    state, topic = open_state(warehouse.state_url, "shop"), list(enumerate(warehouse.topic))
    displaced = open_loader(warehouse.place.open(), state, warehouse.wanted, topic)
    displaced.start()
    displaced.load(topic[:1])
    warehouse.load()

    with pytest.raises(ConflictError, match="moved its target from offset 1 to 7"):
        displaced.load(topic[1:2])
    displaced.close()
    state.close()

    assert (warehouse.place.open().batch_offset(), warehouse.contents()) == (7, SWAPPED)


@on_every_target
def test_a_batch_topic_that_is_older_than_its_target_is_refused_at_every_start_however_it_grows(
    tmp_path: Path, place: Place
) -> None:
    state = open_state(f"sqlite:///{tmp_path / 'state.db'}", "shop")
    kept, *lost = [(2 * n, rows_of(place, NEW, n, n, ("c", f"old {n}", n)).to_json()) for n in range(3)]

    def start(topic: Sequence[tuple[int, bytes]]) -> None:
        with closing(open_loader(place.open(), state, (NEW,), topic)) as loader:
            start = loader.start()
            loader.load([message for message in topic if message[0] >= start])

    start([kept])
    start([kept, *lost])
    # Other rows, with fewer markers between them, take the offsets of those that are lost.
    others = [(2 * n, rows_of(place, NEW, n, n, ("c", f"new {n}", n)).to_json()) for n in range(1, 6)]
    for topic in ([kept, *others], [kept, others[0]], [kept, *others]):
        with pytest.raises(PositionError, match="message at offset 4 than the one that the target of link has loaded"):
            start(topic)
    start([kept, *lost])
    state.close()

    assert place.ask("SELECT id FROM shop.orders ORDER BY id") == [("old 0",), ("old 1",), ("old 2",)]


@on_every_target
def test_a_target_that_an_older_release_has_loaded_learns_its_last_message_with_the_next(
    tmp_path: Path, place: Place
) -> None:
    state = open_state(f"sqlite:///{tmp_path / 'state.db'}", "shop")
    topic = [(n, rows_of(place, NEW, n, n, ("c", f"{n}", n)).to_json()) for n in range(2)]
    place.open().finish(1)
    place.do(f"ALTER TABLE {place.state}.batches DROP COLUMN last_message")

    with closing(open_loader(place.open(), state, (NEW,), topic)) as loader:
        assert loader.start() == 1
        loader.load(topic[1:])
    state.close()

    assert place.open().batch_offset() == 2
    assert BatchOffset.of(place.open().batch_offset()).message == BatchOffset.behind(*topic[1]).message
