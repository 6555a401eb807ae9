"""A table that its target does not take just now, or at all, holds up what is tied to it, and nothing else."""

from __future__ import annotations

import re
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.sink_case import Place, PostgresTarget
from tests.servers.test_warehouse_loader import IDS, NEW, OLD, SHADOW, SWAP, open_loader, rows_of, told

from penstock.adapters.postgres.connection import connect
from penstock.adapters.state.store import open_state
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    import psycopg

    from penstock.core.batches import Batch
    from penstock.links.warehouse.load import WarehouseLoader
    from penstock.ports.state import State
    from penstock.ports.warehouse import Value

OTHER = TableId("shop", "items")
TABLES = (NEW, OLD, SHADOW, OTHER)
IN_POSTGRES = pytest.mark.parametrize("place", ["postgres"], indirect=True)


@dataclass
class Link:
    """A link into a target, whose batch topic grows; `open` and `close` are a stop and a start."""

    place: Place
    state: State
    topic: list[tuple[int, bytes]]
    loader: WarehouseLoader | None = None

    def open(self) -> None:
        """Start, and load what there is."""
        self.loader = open_loader(self.place.open(), self.state, TABLES, self.topic)
        self.loader.load(self.topic[self.loader.start() :])

    def close(self) -> None:
        if self.loader is not None:
            self.loader.close()
        self.loader = None

    def load(self, *batches: Batch) -> int:
        assert self.loader is not None
        more = [(len(self.topic) + n, batch.to_json()) for n, batch in enumerate(batches)]
        self.topic += more
        return self.loader.load(more)

    def stopped(self) -> dict[str, str]:
        return {each.table: f"{each.error} {each.hint}" for each in self.state.tables() if each.error}

    def waiting(self) -> dict[TableId, int]:
        return self.place.open().waiting()

    def rows(self, table: TableId) -> list[tuple[Value, ...]]:
        return self.place.ask(f"SELECT id, qty FROM {table} ORDER BY id")

    def lock(self, table: TableId) -> AbstractContextManager[psycopg.Connection]:
        """Another session, which holds the table until it is closed."""
        assert isinstance(self.place.target, PostgresTarget)
        other = connect(self.place.target.server)
        other.autocommit = False
        other.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")
        return closing(other)


@pytest.fixture
def link(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Link]:
    with begun_link(place, tmp_path, monkeypatch) as link:
        yield link


@contextmanager
def begun_link(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Link]:
    """A link that has loaded a row into each of three tables."""
    monkeypatch.setitem(IDS, OTHER, 4)
    monkeypatch.setattr("penstock.links.warehouse.set_aside._FIRST_PAUSE_SECONDS", 0.5)
    with closing(open_state(f"sqlite:///{tmp_path / 'state.db'}", "shop")) as state:
        link = Link(place, state, [])
        link.open()
        link.load(*(rows_of(place, table, 0, 1, ("c", "a", 1)) for table in (NEW, SHADOW, OTHER)))
        yield link
        link.close()


def second(place: Place) -> list[Batch]:
    """A change of the row of each table."""
    return [rows_of(place, table, 1, 2, ("u", "a", 2)) for table in (NEW, SHADOW, OTHER)]


def third(place: Place) -> list[Batch]:
    return [rows_of(place, table, 2, 3, ("c", "b", 3)) for table in (NEW, SHADOW, OTHER)]


@IN_POSTGRES
def test_a_table_that_somebody_holds_is_set_aside_and_catches_up_when_they_let_go(link: Link) -> None:
    with link.lock(NEW):
        began = time.monotonic()
        link.load(*second(link.place))
        first_seconds = time.monotonic() - began
        began = time.monotonic()
        link.load(rows_of(link.place, OTHER, 2, 3, ("c", "b", 3)))
        seconds = time.monotonic() - began
        assert (link.waiting(), link.rows(OTHER)) == ({NEW: 3}, [("a", 2), ("b", 3)])
        assert set(link.stopped()) == {str(NEW)}
        assert "it waits at offset 3 of the batch topic, and is tried again within" in link.stopped()[str(NEW)]
        assert "look into pg_locks" in link.stopped()[str(NEW)]
    time.sleep(1.1)

    caught_up = link.load()

    assert (caught_up, link.rows(NEW), link.rows(SHADOW)) == (1, [("a", 2)], [("a", 2)])
    assert (link.waiting(), link.stopped()) == ({}, {})
    assert seconds < first_seconds


@IN_POSTGRES
def test_a_table_that_waits_is_tried_again_while_nothing_comes(link: Link) -> None:
    failures: list[BaseException] = []
    assert link.loader is not None
    with link.lock(NEW):
        link.load(*second(link.place))
        link.loader.keep_trying(failures.append)

    ends_at = time.monotonic() + 30
    while link.stopped() and time.monotonic() < ends_at:
        time.sleep(0.1)

    assert (link.rows(NEW), link.stopped(), failures) == ([("a", 2)], {}, [])


@IN_POSTGRES
def test_what_ends_the_trying_is_told(link: Link) -> None:
    failures: list[BaseException] = []
    assert link.loader is not None
    with link.lock(NEW):
        link.load(*second(link.place))
        link.place.ask(
            "SELECT pg_terminate_backend(pid)::int FROM pg_stat_activity "
            "WHERE application_name = 'penstock' AND state = 'idle' AND pid <> pg_backend_pid()"
        )
        link.loader.keep_trying(failures.append)
        ends_at = time.monotonic() + 30
        while not failures and time.monotonic() < ends_at:
            time.sleep(0.1)

    assert "cannot be reached" in str(failures)


@IN_POSTGRES
def test_a_table_that_waits_is_tried_again_by_the_next_start_which_needs_no_new_message(link: Link) -> None:
    with link.lock(NEW):
        link.load(*second(link.place))
        link.close()

    link.open()

    assert (link.rows(NEW), link.waiting(), link.stopped()) == ([("a", 2)], {}, {})


@IN_POSTGRES
@pytest.mark.parametrize("then", ["go on", "start again"])
def test_tables_that_are_renamed_with_one_that_waits_wait_there_and_others_go_on(link: Link, then: str) -> None:
    place = link.place
    renamed = [
        replace(told(SHADOW, 5), kind=SchemaChangeKind.DROP),
        replace(told(OLD, 5), kind=SchemaChangeKind.RENAME),
        replace(told(NEW, 5), kind=SchemaChangeKind.RENAME),
    ]
    later = [
        rows_of(place, NEW, 2, 6, ("c", "new", 6)),
        rows_of(place, OLD, 0, 6, ("c", "old", 6)),
        rows_of(place, OTHER, 2, 6, ("c", "other", 6)),
    ]
    with link.lock(NEW):
        link.load(*second(place), *(replace(batch, moves=SWAP, file="bin.000001") for batch in renamed), *later)

        assert link.waiting() == {NEW: 3, SHADOW: 6, OLD: 6}
        assert (link.rows(SHADOW), link.rows(OTHER)) == ([("a", 2)], [("a", 2), ("other", 6)])
        assert "it was renamed together with shop.orders, which waits" in link.stopped()[str(SHADOW)]
    if then == "start again":
        link.close()
        link.open()
    else:
        time.sleep(0.6)
        link.load()

    assert (link.waiting(), link.stopped()) == ({}, {})
    assert link.place.tables() == ["shop._orders_del", "shop.items", "shop.orders"]
    assert link.rows(NEW) == [("a", 2), ("new", 6)]
    assert link.rows(OLD) == [("a", 2), ("old", 6)]


@IN_POSTGRES
def test_a_rename_that_meets_a_lock_waits_and_others_go_on(link: Link) -> None:
    moved = replace(told(OLD, 5), kind=SchemaChangeKind.RENAME, moves=SWAP, file="bin.000001")
    with link.lock(SHADOW):
        link.load(moved, rows_of(link.place, OTHER, 1, 6, ("c", "other", 6)))
        assert (set(link.waiting()), link.rows(OTHER)) == ({NEW, OLD, SHADOW}, [("a", 1), ("other", 6)])
    time.sleep(0.6)

    link.load()

    assert (link.waiting(), link.place.tables()) == ({}, ["shop._orders_del", "shop.items", "shop.orders"])


RAISES = """
    CREATE FUNCTION shop.refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'not with us' USING ERRCODE = '{code}'; END $$;
    CREATE TRIGGER refuse BEFORE INSERT ON shop.orders FOR EACH ROW EXECUTE FUNCTION shop.refuse()"""
SWALLOWS = """
    CREATE FUNCTION shop.swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
    CREATE TRIGGER swallow BEFORE INSERT ON shop.orders FOR EACH ROW EXECUTE FUNCTION shop.swallow()"""
WIDE = """
    CREATE FUNCTION shop.wide(text) RETURNS text IMMUTABLE LANGUAGE sql AS
    $$ SELECT string_agg(md5($1 || g), '') FROM generate_series(1, 1000) AS g $$;
    CREATE INDEX wide ON shop.orders ((shop.wide(id || qty))) WHERE qty > 1"""


READ_AGAIN = """
    DELETE FROM penstock.tables WHERE source_table = 'shop.orders';
    DELETE FROM penstock.positions WHERE source_table = 'shop.orders';
    UPDATE penstock.waiting SET next_batch_offset = 0 WHERE source_table = 'shop.orders'"""


@IN_POSTGRES
@pytest.mark.parametrize(("harm", "said", "mend"), [
    (RAISES.format(code="P0001"), "not with us.*a trigger, rule or function", "DROP TRIGGER refuse ON shop.orders"),
    (RAISES.format(code="38000"), "not with us.*a trigger, rule or function", "DROP TRIGGER refuse ON shop.orders"),
    (RAISES.format(code="39000"), "not with us.*a trigger, rule or function", "DROP TRIGGER refuse ON shop.orders"),
    (SWALLOWS, r"took 0 of 1 row\(s\).*takes rows away: disable it", "DROP TRIGGER swallow ON shop.orders"),
    (WIDE, "index row .*drop the index that it names", "DROP INDEX shop.wide"),
    ("CREATE PUBLICATION p FOR TABLE shop.orders", "replica identity .* REPLICA IDENTITY FULL", "DROP PUBLICATION p"),
    ("ALTER TABLE shop.orders ADD CONSTRAINT few CHECK (qty < 2)", "few.* drop the constraint",
     "ALTER TABLE shop.orders DROP CONSTRAINT few"),
    ("ALTER TABLE shop.orders ADD COLUMN shown INTEGER GENERATED ALWAYS AS (1 / (2 - qty)) STORED",
     "division by zero", "ALTER TABLE shop.orders DROP COLUMN shown"),
    ("DROP TABLE shop.orders", "somebody dropped it .*--full-refresh", READ_AGAIN),
])  # fmt: skip
def test_a_table_that_postgresql_refuses_stops_and_no_other(link: Link, harm: str, said: str, mend: str) -> None:
    link.place.do(harm)

    link.load(*second(link.place))
    link.load(*third(link.place))
    (stopped,) = link.stopped().items()
    rows = link.rows(SHADOW), link.rows(OTHER)

    assert rows == ([("a", 2), ("b", 3)], [("a", 2), ("b", 3)])
    assert stopped[0] == str(NEW)
    assert re.search(said, stopped[1], re.DOTALL)
    assert link.waiting() == {NEW: 3}
    assert_goes_on(link, mend)


def test_a_table_that_any_target_refuses_stops_and_no_other(link: Link) -> None:
    link.place.do("ALTER TABLE shop.orders RENAME TO elsewhere")

    link.load(*second(link.place))
    link.load(*third(link.place))

    assert (link.rows(SHADOW), link.waiting()) == ([("a", 2), ("b", 3)], {NEW: 3})
    assert_goes_on(link, "ALTER TABLE shop.elsewhere RENAME TO orders")


def assert_goes_on(link: Link, mend: str) -> None:
    link.close()
    link.place.do(mend)
    link.open()
    assert (link.rows(NEW), link.waiting(), link.stopped()) == (link.rows(SHADOW), {}, {})


def begins_anew(order: int) -> Batch:
    return replace(told(NEW, order), kind=SchemaChangeKind.CREATE)


@pytest.mark.parametrize("harm", ["RENAME TO elsewhere", "DROP COLUMN qty"])
def test_a_refused_table_goes_on_where_it_begins_anew_without_what_came_before(link: Link, harm: str) -> None:
    link.place.do(f"ALTER TABLE shop.orders {harm}")
    link.load(*second(link.place))

    link.load(*third(link.place), begins_anew(4))
    link.load(rows_of(link.place, NEW, 5, 5, ("c", "anew", 5)))

    assert (link.rows(NEW), link.rows(SHADOW)) == ([("anew", 5)], [("a", 2), ("b", 3)])
    assert (link.waiting(), link.stopped()) == ({}, {})


def test_a_refused_table_whose_new_beginning_came_while_nobody_loaded_goes_on_there(link: Link) -> None:
    link.place.do("ALTER TABLE shop.orders DROP COLUMN qty")
    link.load(*second(link.place))
    link.close()
    more = (*third(link.place), begins_anew(4), rows_of(link.place, NEW, 3, 5, ("c", "anew", 5)))
    link.topic += [(len(link.topic) + n, batch.to_json()) for n, batch in enumerate(more)]

    link.open()

    assert (link.rows(NEW), link.rows(SHADOW)) == ([("anew", 5)], [("a", 2), ("b", 3)])
    assert (link.waiting(), link.stopped()) == ({}, {})


def test_a_new_beginning_that_an_older_run_passed_by_is_found_at_the_next_start(link: Link) -> None:
    link.place.do("ALTER TABLE shop.orders DROP COLUMN qty")
    link.load(*second(link.place))
    more = (*third(link.place), begins_anew(4), rows_of(link.place, NEW, 3, 5, ("c", "anew", 5)))
    link.topic += [(len(link.topic) + n, batch.to_json()) for n, batch in enumerate(more)]
    link.close()
    with closing(link.place.open()) as sink:
        sink.finish(len(link.topic), {NEW: 3})

    link.open()

    assert (link.rows(NEW), link.waiting(), link.stopped()) == ([("anew", 5)], {}, {})


def test_a_kill_between_the_decision_and_the_new_beginning_changes_nothing(link: Link) -> None:
    link.place.do("ALTER TABLE shop.orders DROP COLUMN qty")
    link.load(*second(link.place))
    more = (begins_anew(4), rows_of(link.place, NEW, 5, 5, ("c", "anew", 5)))
    link.topic += [(len(link.topic) + n, batch.to_json()) for n, batch in enumerate(more)]
    link.close()
    with closing(link.place.open()) as sink:
        sink.finish(len(link.topic), {NEW: len(link.topic) - 2}, [NEW])

    for _ in range(2):
        link.open()
        assert (link.rows(NEW), link.waiting(), link.stopped()) == ([("anew", 5)], {}, {})
        link.close()


@IN_POSTGRES
def test_tables_that_are_loaded_together_are_committed_together(link: Link) -> None:
    link.load(*second(link.place))

    commits = {link.place.ask(f"SELECT xmin::text FROM {table}")[0] for table in (NEW, SHADOW, OTHER)}

    assert len(commits) == 1
