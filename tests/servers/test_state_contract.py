"""What every state database promises, on SQLite, MariaDB, MySQL and PostgreSQL."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.servers.kinds import on_every_database

from penstock.adapters.state.store import SqlState, open_state
from penstock.core.errors import PenstockError
from penstock.core.positions import BinlogPosition, PreparedXa, WalPosition
from penstock.ports.state import LinkProgress, TrackerDump

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.ports.state import State

LONG_GTIDS = ",".join(f"3e11fa47-71ca-11e1-9e33-c80aa94{number:05}:1-{number}" for number in range(2000))


@pytest.fixture
def state(state_url: str) -> Iterator[SqlState]:
    state = open_state(state_url, "shop")
    yield state
    state.close()


def link(name: str, **changes: object) -> LinkProgress:
    fields = {
        "link": name,
        "position": "bin.000001:4",
        "state": "live",
        "lag_seconds": 0.125,
        "lag_bytes": 2**40,
        "updated_at_ms": 1_700_000_000_123,
        "error": "",
        "hint": "",
    }
    return LinkProgress(**{**fields, **changes})  # type: ignore[arg-type]  # the fields' types are as above


def test_a_sql_state_is_a_state(state: SqlState) -> None:
    port: State = state

    assert port.links() == []
    assert port.tables() == []
    assert port.position("shopdb") is None
    assert port.tracker_dump("shopdb") is None
    assert port.stopped_tables("a") == {}


@on_every_database
def test_a_dump_is_kept_whole_and_replaced_and_dropped(state: SqlState) -> None:
    dump = TrackerDump(BinlogPosition("bin.000001", 4, 0, "0-1-5"), "CREATE TABLE `ÿ😀` (a int);\n" * 50_000)
    newer = TrackerDump(BinlogPosition("bin.000002", 2**33, 5, LONG_GTIDS), "")

    state.keep_tracker_dump("shopdb", dump)
    state.keep_tracker_dump("other", newer)
    assert state.tracker_dump("shopdb") == dump
    state.keep_tracker_dump("shopdb", newer)
    assert state.tracker_dump("shopdb") == newer
    state.drop_tracker_dump("shopdb", dump.position)
    assert state.tracker_dump("shopdb") == newer
    state.drop_tracker_dump("shopdb", newer.position)
    state.drop_tracker_dump("shopdb", newer.position)

    assert state.tracker_dump("shopdb") is None
    assert state.tracker_dump("other") == newer


def test_a_position_is_replaced(state: SqlState) -> None:
    state.save_position("shopdb", BinlogPosition("bin.000001", 4, 7, "0-1-5"), 10, {"shop.orders-0": 3}, {})
    state.save_position("shopdb", BinlogPosition("bin.000002", 2**40, 0, LONG_GTIDS), 11, {}, {})

    assert state.position("shopdb") == (BinlogPosition("bin.000002", 2**40, 0, LONG_GTIDS), 11)
    assert state.position("other") is None


@on_every_database
def test_rows_add_up_and_the_commit_time_is_that_of_what_was_carried_last(state: SqlState) -> None:
    before_ms = time.time_ns() // 1_000_000
    state.add_rows("a", {"shop.users": (1, 50), "shop.orders": (5, 100)})
    state.add_rows("a", {"shop.orders": (2**40, 90)})
    state.add_rows("a", {"shop.orders": (1, 0)})
    state.add_rows("b", {"shop.orders": (1, 10)})
    state.add_rows("b", {})

    told = [(table.link, table.table, table.rows, table.last_timestamp_ms, table.error) for table in state.tables()]
    assert told == [
        ("a", "shop.orders", 2**40 + 6, 90, ""),
        ("a", "shop.users", 1, 50, ""),
        ("b", "shop.orders", 1, 10, ""),
    ]
    assert all(before_ms <= table.updated_at_ms <= time.time_ns() // 1_000_000 for table in state.tables())


def test_a_stopped_table_keeps_its_rows_and_its_error_until_it_resumes(state: SqlState) -> None:
    state.add_rows("a", {"shop.orders": (5, 100)})
    state.stop_table("a", "shop.orders", "geometry is not carried", "leave it out", 1_000)
    state.stop_table("a", "shop.never_ran", "bad\nbytes", "look", 2_000)
    state.add_rows("a", {"shop.orders": (1, 101)})

    assert state.stopped_tables("a") == {"shop.orders": "geometry is not carried", "shop.never_ran": "bad\nbytes"}
    assert state.stopped_tables("b") == {}
    assert [(table.rows, table.last_timestamp_ms, table.hint) for table in state.tables()] == [
        (0, 0, "look"),
        (6, 101, "leave it out"),
    ]
    state.resume_table("a", "shop.orders")
    state.resume_table("a", "shop.unknown")
    assert state.stopped_tables("a") == {"shop.never_ran": "bad\nbytes"}


def test_a_note_is_no_error_and_stays_until_there_is_nothing_to_say(state: SqlState) -> None:
    state.add_rows("a", {"shop.orders": (5, 100)})
    state.note_table("a", "shop.orders", "dropped")
    state.add_rows("a", {"shop.orders": (1, 101)})

    assert state.stopped_tables("a") == {}
    assert [(table.rows, table.error, table.hint) for table in state.tables()] == [(6, "", "dropped")]
    state.note_table("a", "shop.orders", "")
    assert [(table.rows, table.hint) for table in state.tables()] == [(6, "")]


@on_every_database
def test_a_link_is_replaced_and_links_are_sorted(state: SqlState) -> None:
    state.save_link(link("b"))
    state.save_link(link("a", state="starting", lag_seconds=None, lag_bytes=None))
    state.save_link(link("b", position=LONG_GTIDS, error="no such table", hint="make it"))

    assert state.links() == [
        link("a", state="starting", lag_seconds=None, lag_bytes=None),
        link("b", position=LONG_GTIDS, error="no such table", hint="make it"),
    ]


@on_every_database
def test_a_text_that_a_database_cannot_hold_is_written_in_signs_that_it_can(state: SqlState) -> None:
    state.stop_table("a", "shop.orders", "bytes \x00 and \udcff", "look \x00", 1_000)
    state.note_table("a", "shop.users", "a \x00")
    state.save_link(link("a", error="\x00", hint="\udc80"))

    orders, users = state.tables()
    assert (orders.error, orders.hint) == ("bytes \\x00 and \\udcff", "look \\x00")
    assert users.hint == "a \\x00"
    assert (state.links()[0].error, state.links()[0].hint) == ("\\x00", "\\udc80")


def test_a_position_in_a_wal_comes_back(state: SqlState) -> None:
    state.save_position("shopdb", WalPosition(2**64 - 1, 7), 1, {}, {})

    assert state.position("shopdb") == (WalPosition(2**64 - 1, 7), 1)


def test_a_position_keeps_the_transactions_that_are_prepared(state: SqlState) -> None:
    prepared = (PreparedXa("X'67',X'62',1", "bin.000001", 4), PreparedXa("X'68',X'',1"))

    state.save_position("shopdb", BinlogPosition("bin.000002", 9, prepared=prepared), 1, {}, {})

    assert state.position("shopdb") == (BinlogPosition("bin.000002", 9, prepared=prepared), 1)


@on_every_database
def test_a_position_and_the_rows_before_it_are_written_together(state: SqlState) -> None:
    state.save_position("shopdb", BinlogPosition("bin.000002", 9), 1, {}, {"shop.orders": (5, 100)})
    with pytest.raises(OverflowError if state._engine.dialect.name == "sqlite" else PenstockError):
        state.save_position("shopdb", BinlogPosition("bin.000003", 9), 2, {}, {"shop.orders": (2**80, 100)})

    assert state.position("shopdb") == (BinlogPosition("bin.000002", 9), 1)
    assert [table.rows for table in state.tables()] == [5]


def test_lags_of_tables_are_kept_beside_what_they_carried(state: SqlState) -> None:
    state.add_rows("a", {"shop.orders": (5, 100)})
    state.stop_table("a", "shop.users", "bad", "look", 7_000)
    state.save_table_lags("a", {"shop.orders": 9_000, "shop.users": 0, "shop.new": 8_000})
    state.add_rows("a", {"shop.orders": (1, 101)})
    state.save_table_lags("a", {})

    told = {table.table: (table.rows, table.behind_since_ms, table.stopped_at_ms) for table in state.tables()}
    assert told == {"shop.orders": (6, 9_000, 0), "shop.users": (0, 0, 7_000), "shop.new": (0, 8_000, 0)}
    state.resume_table("a", "shop.users")
    assert [table.stopped_at_ms for table in state.tables()] == [0, 0, 0]


def test_the_place_of_a_link_is_replaced(state: SqlState) -> None:
    assert state.place("a") is None

    state.save_place("a", 5)
    state.save_place("b", 2**40)
    state.save_place("a", 3)

    assert (state.place("a"), state.place("b")) == (3, 2**40)


def test_pipelines_do_not_see_each_other(state: SqlState, state_url: str) -> None:
    other = open_state(state_url, "Shop")
    state.save_link(link("a"))
    state.add_rows("a", {"shop.orders": (1, 1)})
    state.save_position("shopdb", BinlogPosition("bin.000001", 4), 1, {"t-0": 1}, {})
    state.keep_tracker_dump("shopdb", TrackerDump(BinlogPosition("bin.000001", 4), "d"))

    other.drop_tracker_dump("shopdb", BinlogPosition("bin.000001", 4))

    assert (other.links(), other.tables(), other.position("shopdb")) == ([], [], None)
    assert state.tracker_dump("shopdb") is not None
    other.close()


@on_every_database
def test_names_that_differ_in_case_or_accents_are_different_tables(state: SqlState) -> None:
    state.add_rows("a", {"shop.orders": (1, 1), "shop.Orders": (2, 1), "shop.ordérs": (3, 1)})

    assert {table.table: table.rows for table in state.tables()} == {
        "shop.Orders": 2,
        "shop.orders": 1,
        "shop.ordérs": 3,
    }


@on_every_database
def test_the_longest_names_fit(state: SqlState, state_url: str) -> None:
    table = f"{'s' * 64}.{'t' * 64}"
    topic_partition = f"{'t' * 249}-{2**31 - 1}"

    state.add_rows("l" * 160, {table: (1, 1)})
    state.save_position("s" * 48, BinlogPosition("bin.000001", 4), 1, {topic_partition: 2**62}, {})
    open_state(state_url, "p" * 48).close()

    assert [progress.table for progress in state.tables()] == [table]


@on_every_database
def test_instances_that_start_together_make_the_tables_once(state_url: str) -> None:
    with ThreadPoolExecutor(4) as starters:
        states = list(starters.map(lambda _: open_state(state_url, "shop"), range(4)))

    for state in states:
        state.add_rows("a", {"shop.orders": (1, 1)})
    assert [table.rows for table in states[0].tables()] == [4]
    for state in states:
        state.close()


@on_every_database
def test_writers_that_meet_lose_nothing(state: SqlState, state_url: str) -> None:
    other = open_state(state_url, "shop")
    names = [f"shop.t{number}" for number in range(20)]

    with ThreadPoolExecutor(4) as writers:
        writes = [
            writers.submit(
                (state, other)[number % 2].add_rows, "a", dict.fromkeys(names[:: (1, -1)[number % 3 % 2]], (1, 1))
            )
            for number in range(40)
        ]

    assert [write.exception() for write in writes] == [None] * 40
    assert {table.rows for table in state.tables()} == {40}
    other.close()
