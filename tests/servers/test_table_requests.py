"""A table that somebody pauses, drops, or passes a change of over: the others go on, and nothing is lost unsaid."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.servers.forked import run_forked
from tests.servers.kinds import first
from tests.servers.sink_case import DuckdbTarget, Place
from tests.servers.test_warehouse_loader import IDS, NEW, OLD, SHADOW, SWAP, open_loader, told

from penstock.adapters.duckdb.warehouse import DuckdbWarehouse
from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.adapters.state.store import open_state
from penstock.adapters.state.table_actions import open_table_actions
from penstock.core.errors import TableWaitsError, UsageError
from penstock.core.schema_changes import SchemaChangeKind
from penstock.links.warehouse.skipping import HIDDEN
from penstock.links.warehouse.table_control import TableControl
from penstock.ports.table_actions import Action, SkippedChange, Stage, TableRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.core.batches import Batch
    from penstock.core.tables import TableId
    from penstock.links.warehouse.load import WarehouseLoader
    from penstock.ports.warehouse import Value

LINK = "link"
TABLES = (NEW, OLD, SHADOW)
UNIQUE = "CREATE UNIQUE INDEX one ON shop.orders (qty)"


@dataclass
class Link:
    """A link into a target in `folder`, what was asked for of its tables, and the batch topic."""

    folder: Path
    place: Place
    topic: list[tuple[int, bytes]] = field(default_factory=list)
    loader: WarehouseLoader | None = None
    hides: tuple[str, ...] = ()
    tables: tuple[TableId, ...] = TABLES

    @property
    def state_url(self) -> str:
        return f"sqlite:///{self.folder / 'state.db'}"

    def open(self) -> None:
        """Start, and load what there is."""
        state, actions = open_state(self.state_url, "shop"), open_table_actions(self.state_url, "shop")
        self.loader = open_loader(self.place.open(), state, self.tables, self.topic)
        control = TableControl(
            LINK, actions, self.place.objects, lambda _, column: column in self.hides, self.tables.__contains__
        )
        self.loader.load(self.topic[self.loader.start(control=control) :])

    def close(self) -> None:
        if self.loader is not None:
            self.loader.close()
        self.loader = None

    def load(self, *batches: Batch) -> None:
        assert self.loader is not None
        more = [(len(self.topic) + n, batch.to_json()) for n, batch in enumerate(batches)]
        self.topic += more
        self.loader.load(more)

    def ask(self, action: Action, table: TableId = NEW) -> TableRequest:
        """Ask, let the link take it up, and return what came of it."""
        request = TableRequest(f"{action}-{time.time_ns()}", LINK, str(table), action, "somebody")
        with closing(open_table_actions(self.state_url, "shop")) as actions:
            actions.ask(request)
        self.load()
        return self.request(table)

    def request(self, table: TableId = NEW) -> TableRequest:
        with closing(open_table_actions(self.state_url, "shop")) as actions:
            return next(each for each in actions.requests(LINK) if each.table == str(table))

    def skipped(self) -> list[SkippedChange]:
        with closing(open_table_actions(self.state_url, "shop")) as actions:
            return [replace(each, request="", skipped_at_ms=0) for each in actions.skipped(LINK, str(NEW))]

    def stopped(self) -> dict[str, str]:
        with closing(open_state(self.state_url, "shop")) as state:
            return dict(state.stopped_tables(LINK))

    def waiting(self) -> dict[TableId, int]:
        with closing(self.place.target.connect("reader")) as warehouse:
            found = warehouse.fetch("SELECT source_table, next_batch_offset FROM penstock.waiting")
        named = {str(table): table for table in TABLES}
        return {named[str(table)]: int(str(offset)) for table, offset in found}

    def rows(self, table: TableId = NEW) -> list[tuple[Value, ...]]:
        return self.place.ask(f"SELECT id, qty FROM {table} ORDER BY id")


def new_link(folder: Path) -> Link:
    place = Place(DuckdbTarget(folder / "shop.duckdb"), open_objects(ObjectsSpec((folder / "objects").as_uri())))
    return Link(folder, place)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.links.warehouse.table_control._PERIOD_SECONDS", 0.0)


@pytest.fixture
def link(tmp_path: Path) -> Iterator[Link]:
    """A link that has loaded a row into each of two tables."""
    link = new_link(tmp_path)
    link.open()
    link.load(*(batch(link, table, 0, ("c", "a", 1)) for table in (NEW, SHADOW)))
    yield link
    link.close()


def batch(link: Link, table: TableId, start: int, *changes: tuple[str, str, int]) -> Batch:
    made = link.place.batch(start, [*changes], topic=f"db.{table}")
    first, last = (1, start + 1, 0), (1, start + len(changes), 0)
    return replace(made, table=table, schema_id=IDS[table], first_order=first, last_order=last)


def begins_anew(order: int) -> Batch:
    return replace(told(NEW, order), kind=SchemaChangeKind.CREATE)


@pytest.mark.parametrize("then", ["go on", "start again", "lose the state database"])
def test_a_paused_table_waits_over_starts_and_loses_nothing_while_others_go_on(link: Link, then: str) -> None:
    paused = link.ask(Action.PAUSE)
    link.load(*(batch(link, table, 1, ("u", "a", 2)) for table in (NEW, SHADOW)))
    if then != "go on":
        link.close()
        link.open()
    link.load(*(batch(link, table, 2, ("c", "b", 3)) for table in (NEW, SHADOW)))

    assert (paused.stage, paused.pauses, link.stopped()) == (Stage.DONE, True, {})
    assert (link.rows(NEW), link.rows(SHADOW), link.waiting()) == ([("a", 1)], [("a", 2), ("b", 3)], {NEW: 2})
    if then == "lose the state database":
        link.close()
        for file in link.folder.glob("state.db*"):
            file.unlink()
        link.open()
    else:
        assert link.ask(Action.RESUME).told == "it goes on"
    assert (link.rows(NEW), link.waiting()) == ([("a", 2), ("b", 3)], {})


def test_a_table_that_is_renamed_with_a_paused_one_waits_for_it_and_goes_on_with_it(link: Link) -> None:
    link.ask(Action.PAUSE)
    renamed = ((SHADOW, SchemaChangeKind.DROP), (OLD, SchemaChangeKind.RENAME), (NEW, SchemaChangeKind.RENAME))
    link.load(*(replace(told(each, 5), kind=kind, moves=SWAP, file="bin.000001") for each, kind in renamed))
    waiting = set(link.waiting())

    link.ask(Action.RESUME)

    assert waiting == {NEW, OLD, SHADOW}
    assert (link.waiting(), link.place.tables()) == ({}, ["shop._orders_del", "shop.orders"])


REFUSED = [("c", "b", 2), ("c", "bad", 1), ("c", "d", 4)]


def test_a_skip_passes_over_the_one_change_that_is_refused_and_keeps_it_with_its_reason(link: Link) -> None:
    link.place.do(UNIQUE)
    link.load(batch(link, NEW, 1, *REFUSED), batch(link, SHADOW, 1, ("u", "a", 2)))
    link.load(batch(link, NEW, 4, ("c", "e", 5)))
    before = (set(link.stopped()), link.rows(NEW))

    skipped = link.ask(Action.SKIP)

    assert before == ({str(NEW)}, [("a", 1)])
    assert (skipped.stage, link.rows(NEW)) == (Stage.DONE, [("a", 1), ("b", 2), ("d", 4), ("e", 5)])
    assert "skipped the change at offset 2 of db.shop.orders/0" in skipped.told
    (kept,) = link.skipped()
    assert (kept.topic, kept.partition, kept.offset) == ("db.shop.orders", 0, 2)
    assert json.loads(kept.row) == [{"id": "bad", "qty": 1, "__penstock_op": "c", "__penstock_offset": 2}]
    assert "onstraint" in kept.reason
    assert (link.stopped(), link.waiting()) == ({}, {})
    assert [key for key in link.place.objects.list("") if "part-" in key] == []


def test_a_skip_of_the_first_of_two_changes_that_are_refused_stops_at_the_second(link: Link) -> None:
    link.place.do(UNIQUE)
    refused = [("c", "bad", 1), ("c", "b", 2), ("c", "worse", 2)]
    link.load(link.place.moved_into_message(batch(link, NEW, 1, *refused)))

    link.ask(Action.SKIP)
    first = (link.rows(NEW), set(link.stopped()))
    link.ask(Action.SKIP)

    assert (first, link.rows(NEW)) == (([("a", 1)], {str(NEW)}), [("a", 1), ("b", 2)])
    assert (link.stopped(), [each.offset for each in link.skipped()]) == ({}, [1, 3])


@pytest.mark.parametrize("point", first(1, "skip.passed", "skip.kept", "load.finished"))
def test_a_kill_in_a_skip_passes_over_one_change_and_no_other(link: Link, point: str) -> None:
    link.place.do(UNIQUE)
    link.load(batch(link, NEW, 1, *REFUSED, ("c", "worse", 4), ("c", "f", 6)))
    link.close()
    with closing(open_table_actions(link.state_url, "shop")) as actions:
        actions.ask(TableRequest("1", LINK, str(NEW), Action.SKIP, "somebody"))

    code = run_forked(start_again, str(link.folder), link.topic, crash_at=point)
    link.open()

    assert code == -9
    assert [each.offset for each in link.skipped()] == [2]
    assert (link.rows(NEW), set(link.stopped())) == ([("a", 1), ("b", 2)], {str(NEW)})
    assert link.request().stage is Stage.DONE


def test_a_skip_deletes_the_files_that_a_killed_one_left_and_no_others(link: Link) -> None:
    link.place.do(UNIQUE)
    made = batch(link, NEW, 1, *REFUSED)
    folder = made.path.rpartition("/")[0]
    for name in (LINK, f"{LINK}2"):
        link.place.objects.put(f"{folder}/part-{name}/1.parquet", b"left")
    link.load(made)

    link.ask(Action.SKIP)

    left = [key for key in link.place.objects.list("") if "part-" in key]
    assert left == [f"{folder}/part-{LINK}2/1.parquet"]
    assert link.rows(NEW) == [("a", 1), ("b", 2), ("d", 4)]


def test_a_skip_that_was_killed_waits_while_somebody_holds_the_table_and_is_done_then(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    link.place.do(UNIQUE)
    link.load(batch(link, NEW, 1, *REFUSED))
    link.close()
    with closing(open_table_actions(link.state_url, "shop")) as actions:
        actions.ask(TableRequest("1", LINK, str(NEW), Action.SKIP, "somebody"))
    run_forked(start_again, str(link.folder), link.topic, crash_at="skip.kept")

    # DuckDB has no locks that others could hold: this is what other targets say of theirs.
    with monkeypatch.context() as patched:
        patched.setattr(DuckdbWarehouse, "transact", _transact_held)
        link.open()
        link.load(batch(link, SHADOW, 1, ("u", "a", 2)))
        held = (link.request().stage, [each.offset for each in link.skipped()], link.rows(SHADOW))
    link.load()

    assert held == (Stage.BEGUN, [2], [("a", 2)])
    assert (link.request().stage, [each.offset for each in link.skipped()]) == (Stage.DONE, [2])
    assert link.rows(NEW) == [("a", 1), ("b", 2), ("d", 4)]


_transact = DuckdbWarehouse.transact


def _transact_held(
    self: DuckdbWarehouse, work: Callable[[], object], tables: Sequence[TableId] = (), *, lock_seconds: float = 2.0
) -> object:
    if NEW in tables:
        raise TableWaitsError(str(NEW), "", "the target's table", "somebody holds it", "wait")
    return _transact(self, work, tables, lock_seconds=lock_seconds)


def test_a_skip_that_was_killed_is_refused_where_the_table_is_gone_since_and_keeps_nothing(link: Link) -> None:
    link.place.do(UNIQUE)
    link.load(batch(link, NEW, 1, *REFUSED))
    link.close()
    with closing(open_table_actions(link.state_url, "shop")) as actions:
        actions.ask(TableRequest("1", LINK, str(NEW), Action.SKIP, "somebody"))
    run_forked(start_again, str(link.folder), link.topic, crash_at="skip.kept")
    kept = [each.offset for each in link.skipped()]
    link.place.do("DROP INDEX shop.one", "ALTER TABLE shop.orders RENAME TO elsewhere")

    link.open()
    link.load(batch(link, SHADOW, 1, ("u", "a", 2)))

    assert kept == [2]
    assert (link.request().stage, link.skipped()) == (Stage.REFUSED, [])
    assert link.rows(SHADOW) == [("a", 2)]


def start_again(folder: str, topic: list[tuple[int, bytes]]) -> None:
    link = new_link(Path(folder))
    link.topic = topic
    link.open()


def test_no_change_is_passed_over_where_the_table_itself_is_refused(link: Link) -> None:
    link.place.do("ALTER TABLE shop.orders RENAME TO elsewhere")
    link.load(batch(link, NEW, 1, ("u", "a", 2)))

    skipped = link.ask(Action.SKIP)
    link.close()
    link.place.do("ALTER TABLE shop.elsewhere RENAME TO orders")
    link.open()

    assert skipped.stage is Stage.REFUSED
    assert "no single change is refused" in skipped.told
    assert (link.rows(NEW), link.skipped()) == ([("a", 2)], [])


def test_a_skip_of_a_table_that_goes_on_is_refused(link: Link) -> None:
    skipped = link.ask(Action.SKIP)

    assert (skipped.stage, skipped.told) == (
        Stage.REFUSED,
        "it has not stopped here, so there is no change to pass over",
    )


def test_values_that_the_link_hides_are_hidden_in_what_a_skip_keeps(link: Link) -> None:
    link.hides = ("qty",)
    link.place.do(UNIQUE)
    link.load(batch(link, NEW, 1, *REFUSED))

    link.ask(Action.SKIP)

    assert json.loads(link.skipped()[0].row)[0] | {"id": "bad", "qty": HIDDEN} == json.loads(link.skipped()[0].row)[0]


@pytest.mark.parametrize("then", ["go on", "start again", "lose the state database"])
def test_a_dropped_table_is_not_loaded_until_it_begins_anew(link: Link, then: str) -> None:
    dropped = link.ask(Action.DROP)
    link.load(*(batch(link, table, 1, ("c", "b", 2)) for table in (NEW, SHADOW)))
    if then != "go on":
        link.close()
        for file in link.folder.glob("state.db*") if then == "lose the state database" else ():
            file.unlink()
        link.open()
    link.load(batch(link, NEW, 2, ("c", "c", 3)))
    meanwhile = (link.rows(NEW), link.rows(SHADOW), link.waiting(), link.request().has_dropped)

    link.load(begins_anew(6), batch(link, NEW, 7, ("c", "anew", 7)))

    assert (dropped.stage, dropped.has_dropped) == (Stage.DONE, True)
    assert meanwhile == ([("a", 1)], [("a", 1), ("b", 2)], {NEW: -1}, True)
    assert (link.rows(NEW), link.waiting()) == ([("anew", 7)], {})
    link.load()
    assert (link.request().stage, link.request().has_dropped) == (Stage.OVER, False)


def test_a_dropped_table_that_had_just_been_made_stays_dropped_over_a_start(link: Link) -> None:
    # A start with a table that waits reads the last message a second time.
    link.ask(Action.PAUSE, SHADOW)
    link.load(batch(link, SHADOW, 1, ("c", "b", 2)))
    link.load(begins_anew(3))
    link.ask(Action.DROP)
    link.close()
    link.open()
    assert link.waiting()[NEW] == -1


def test_a_refused_table_that_resume_does_not_help_can_be_dropped_and_stops_nobody_any_more(link: Link) -> None:
    link.place.do("ALTER TABLE shop.orders RENAME TO elsewhere")
    link.load(batch(link, NEW, 1, ("u", "a", 2)))

    assert link.ask(Action.RESUME).told.startswith("it is tried again now, and stops again if the cause is still")
    assert list(link.stopped()) == [str(NEW)]
    link.ask(Action.DROP)
    assert (link.waiting(), link.stopped()) == ({NEW: -1}, {})
    with pytest.raises(UsageError, match=r"penstock snapshot FILE shop\.orders --full-refresh"):
        link.ask(Action.RESUME)
    assert link.request().has_dropped


def test_a_drop_that_an_older_copy_of_the_state_database_does_not_know_is_written_down_again(link: Link) -> None:
    link.ask(Action.PAUSE)
    link.ask(Action.RESUME)
    link.close()
    copy = (link.folder / "state.db").read_bytes()
    link.open()
    link.ask(Action.DROP)
    link.close()
    for file in link.folder.glob("state.db*"):
        file.unlink()
    (link.folder / "state.db").write_bytes(copy)

    link.open()

    assert (link.request().has_dropped, link.request().told) == (True, "the target's own record")


def test_a_paused_table_that_is_left_out_of_the_link_holds_no_files_any_more(link: Link) -> None:
    link.ask(Action.PAUSE)
    link.load(*(batch(link, table, 1, ("u", "a", 2)) for table in (NEW, SHADOW)))
    before = link.waiting()
    link.close()

    link.tables = (OLD, SHADOW)
    link.open()
    link.load(batch(link, SHADOW, 2, ("c", "b", 3)))

    assert (before, link.waiting()) == ({NEW: 2}, {})
    assert (link.rows(NEW), link.rows(SHADOW)) == ([("a", 1)], [("a", 2), ("b", 3)])
