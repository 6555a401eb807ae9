"""What a follower publishes does not depend on how the log was cut into items."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.unit.mysql_log.conftest import LogWriter

from penstock.bench.known_tables import KnownTables
from penstock.core.errors import PenstockError, SinkError, UnavailableError
from penstock.core.mysql.log.heartbeats import HeartbeatWatch
from penstock.core.mysql.log.log_items import FewTransactions, StatementLogged, TransactionEnded, TransactionsLogged
from penstock.core.mysql.log.scan import EventScanner, Grouping
from penstock.core.positions import BinlogPosition, binlog_position
from penstock.core.publication import Publication, StoppedTable
from penstock.core.schema_changes import SchemaChange
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.links.capture import follow, sendable
from penstock.links.capture.follow import LogFollower, Pace
from penstock.links.capture.mysql.log_reading import BinlogReading
from penstock.links.capture.table_catalog import TableCatalog
from penstock.links.large_messages import LargeMessages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.log_items import LoggedStatement
    from penstock.core.mysql.log.log_items import LogItem
    from penstock.ports.objects import ObjectStore

START = BinlogPosition("mysql-bin.000001", 4)
USERS = TableSchema(TableId("shop", "users"), (Column("id", IntegerType(32, unsigned=False), nullable=False),), ("id",))
ONE, TWO = (b"\xfe" + number.to_bytes(4, "little") for number in (1, 2))


def a_log() -> LogWriter:
    """Transactions of a table and of others, with every op, and a key that changes."""
    log = LogWriter().opening()
    log.gtid_list((0, 7, 1))
    for number in range(2, 30):
        log.gtid(number)
        for table_id, table in enumerate(("users", "orders", "others"), 20):
            log.table_map(table, table_id)
            log.rows(b"\x01\x01" + ONE * (number % 3 + 1), table_id, code=23)
            log.rows(b"\x01\x01\x01" + ONE + (TWO if number % 2 else ONE), table_id, code=24)
            log.rows(b"\x01\x01" + TWO, table_id, code=25)
        log.xid()
    return log


def a_follower(pace: Pace, position: BinlogPosition = START, heartbeats: HeartbeatWatch | None = None) -> LogFollower:
    known = KnownTables({USERS.table: USERS})
    announced = SchemaChange("bench", USERS.table, "users", "", 1, 2, 1, (0, 0, -1))
    table_catalog = TableCatalog("bench", known, known, [announced], lambda table: table == USERS.table)
    return LogFollower(table_catalog, {}, position, pace, BinlogReading(position, heartbeats))


def published(items: Sequence[LogItem], pace: Pace) -> list[Publication]:
    follower = a_follower(pace)
    found = [*follower.feed(items), *follower.finish()]
    return [part for part in found if isinstance(part, Publication)]


def messages_of(publication: Publication) -> dict[str, list[tuple[object, bytes]]]:
    """Keys and values by topic; the last bytes of a value are when it was encoded."""
    return {
        part.topic: [
            (key, (value or b"")[:-6])
            for key, value in zip(part.keys.to_pylist(), part.values.to_pylist(), strict=True)
        ]
        for part in publication.messages
    }


def rows_of(parts: Sequence[object]) -> int:
    return sum(rows for part in parts if isinstance(part, Publication) for rows, _ in part.rows.values())


def test_a_table_with_a_large_row_stops_if_the_object_store_refuses_it_and_waits_while_the_store_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sendable, "ASKED_BYTES", 0)

    stopped = stopped_with(SinkError("cannot write it: AccessDenied", "check what the key may do"))

    assert list(stopped) == ["shop.users"]
    assert "which cannot be kept: cannot write it: AccessDenied" in stopped["shop.users"].error
    assert stopped["shop.users"].hint.startswith("check what the key may do; then have the table's rows read again")
    with pytest.raises(UnavailableError):
        stopped_with(UnavailableError("the store is away", "start it"))


def stopped_with(error: PenstockError) -> dict[str, StoppedTable]:
    """Which tables stop where no topic takes a row, and the object store answers each with `error`."""

    def open_store() -> ObjectStore:
        raise error

    known, stopped = KnownTables({USERS.table: USERS}), dict[str, StoppedTable]()
    announced = SchemaChange("bench", USERS.table, "users", "", 1, 2, 1, (0, 0, -1))
    table_catalog = TableCatalog("bench", known, known, [announced], lambda table: table == USERS.table)
    table_catalog.message_bytes_max = lambda _: 0
    table_catalog.large_messages = LargeMessages("pipe", "bench", open_store)
    follower = LogFollower(table_catalog, stopped, START, Pace(0.0), BinlogReading(START))
    items = EventScanner(START, lambda _: True, grouping=Grouping(1)).feed(*a_log().stream())
    list(follower.feed(items))
    list(follower.finish())
    return stopped


@pytest.mark.parametrize("bytes_wanted", [1 << 20, 1])
@pytest.mark.parametrize(
    ("grouping", "kind"), [(Grouping(1), TransactionsLogged), (Grouping(1 << 30, few=True), FewTransactions)]
)
def test_what_is_read_together_is_published_as_what_is_read_singly(
    grouping: Grouping, kind: type[LogItem], bytes_wanted: int
) -> None:
    log = a_log()
    singly, together = (
        EventScanner(START, lambda _: True, grouping=each).feed(*log.stream()) for each in (Grouping(1 << 30), grouping)
    )

    expected = published(singly, Pace(3600.0))
    found = published(together, Pace(3600.0, bytes_wanted=bytes_wanted))

    assert len(together) < 5
    assert any(isinstance(item, kind) for item in together)
    assert [messages_of(each) for each in found] == [messages_of(each) for each in expected]
    assert [(p.begin, p.end, p.timestamp_ms, p.rows) for p in found] == [
        (p.begin, p.end, p.timestamp_ms, p.rows) for p in expected
    ]


@pytest.mark.parametrize(("bytes_wanted", "waits"), [(1 << 20, True), (1, False)])
def test_what_comes_soon_behind_a_small_publication_waits_for_more(bytes_wanted: int, *, waits: bool) -> None:
    items = EventScanner(START, lambda _: True, grouping=Grouping(1 << 30)).feed(*a_log().stream())
    follower = a_follower(Pace(3600.0, bytes_wanted=bytes_wanted))

    assert follower.wait_seconds() == 0.0
    assert [*follower.feed(items), *follower.due()]

    assert (follower.wait_seconds() > 3000.0) == waits


@pytest.mark.parametrize(("interval_seconds", "expected"), [(0.0, 28), (3600.0, 1)])
def test_the_larger_the_interval_the_fewer_publications(interval_seconds: float, expected: int) -> None:
    items = EventScanner(START, lambda _: True, grouping=Grouping(1 << 30)).feed(*a_log().stream())
    follower = a_follower(Pace(interval_seconds))

    found = [part for item in items for part in (*follower.feed([item]), *follower.due())]
    waited = [*follower.finish()]

    assert (len(found), len(waited)) == (expected, 0 if expected == 28 else 1)
    assert rows_of([*found, *waited]) == rows_of(published(items, Pace(3600.0))) == 127


@pytest.mark.parametrize(("interval_seconds", "expected"), [(0.0, 0.0), (7200.0, 7200.0)])
def test_a_publication_waits_from_the_beginning_of_the_one_before(interval_seconds: float, expected: float) -> None:
    items = EventScanner(START, lambda _: True, grouping=Grouping(1 << 30)).feed(*a_log().stream())
    follower = a_follower(Pace(interval_seconds))
    assert not [*follower.feed(items)]

    committing = follower.due()
    next(committing)
    waits_while_it_is_committed = follower.wait_seconds()
    assert not [*committing]

    assert waits_while_it_is_committed == pytest.approx(expected, abs=600.0)
    assert follower.wait_seconds() == pytest.approx(expected, abs=600.0)


def test_what_comes_before_a_publication_is_due_waits_for_it() -> None:
    items = EventScanner(START, lambda _: True, grouping=Grouping(1 << 30)).feed(*a_log().stream())
    half = next(place for place, item in enumerate(items) if isinstance(item, TransactionEnded)) + 1
    follower = a_follower(Pace(0.5))

    first = [*follower.feed(items[:half]), *follower.due()]
    during = [*follower.feed(items[half:]), *follower.due()]
    time.sleep(follower.wait_seconds())
    behind = [*follower.due()]

    assert [len(first), len(during), len(behind)] == [1, 0, 1]


def test_rows_before_a_statement_of_their_own_transaction_are_published_before_it() -> None:
    log = LogWriter().opening()
    log.gtid_list((0, 7, 1))
    log.gtid(2)
    log.table_map("users")
    log.rows(b"\x01\x01" + ONE)
    log.query("DROP TEMPORARY TABLE IF EXISTS `shop`.`x` /* generated by server */")
    log.rows(b"\x01\x01" + TWO)
    log.xid()
    follower = a_follower(Pace(3600.0))

    parts = [*follower.feed(EventScanner(START, lambda _: True).feed(*log.stream())), *follower.finish()]

    first, statement, second = parts
    assert isinstance(first, Publication)
    assert isinstance(statement, StatementLogged)
    assert isinstance(second, Publication)
    assert (rows_of([first]), rows_of([second])) == (1, 1)
    # Whoever goes on behind the statement gets the rest, and only that.
    again = a_follower(Pace(3600.0), statement.end)
    log_behind = log.served(log.file, statement.end.offset)
    rest = [*again.feed(EventScanner(statement.end, lambda _: True).feed(*log_behind)), *again.finish()]
    assert [messages_of(part) for part in rest if isinstance(part, Publication)] == [messages_of(second)]


def fed_with_8_000_rows(log: LogWriter, follower: LogFollower) -> list[Publication | LoggedStatement]:
    """End the transaction that is open in `log` with 40 events of 200 rows; return what they complete, read singly."""
    log.table_map("users")
    for _ in range(40):
        log.rows(b"\x01\x01" + ONE * 200)
    log.xid()
    scanner = EventScanner(START, lambda _: True, held_bytes_max=5_000)
    buffer, spans = log.stream()
    return [part for span in spans for part in follower.feed(scanner.feed(buffer, [span]))]


def test_a_transaction_that_creates_its_table_is_published_in_pieces_as_any_other() -> None:
    log = LogWriter().opening()
    log.gtid_list((0, 7, 1))
    log.gtid(2)
    log.query("CREATE TABLE `users` (`id` int)")
    follower = a_follower(Pace(0.0, bytes_wanted=2_000, bytes_max=8_000))

    parts = fed_with_8_000_rows(log, follower)

    assert rows_of(parts) == 8_000
    assert max(rows_of([part]) for part in parts) <= 2_000


@pytest.mark.parametrize(("quick_seconds", "grow"), [(3600.0, True), (0.0, False)])
def test_pieces_grow_as_long_as_they_pass_quickly(
    monkeypatch: pytest.MonkeyPatch, quick_seconds: float, *, grow: bool
) -> None:
    monkeypatch.setattr(follow, "_QUICK_SECONDS", quick_seconds)
    log = LogWriter().opening()
    log.gtid_list((0, 7, 1))
    log.gtid(2)
    follower = a_follower(Pace(0.0, bytes_max=16_000, piece_bytes=2_000))

    parts = fed_with_8_000_rows(log, follower)

    *pieces, rest = (rows_of([part]) for part in [*parts, *follower.finish()])
    assert sum(pieces) + rest == 8_000
    assert pieces == ([400, 800, 1_600, 3_200] if grow else [400] * len(pieces))


def test_what_comes_behind_a_heartbeat_is_counted_once_wherever_reading_goes_on() -> None:
    log = LogWriter().opening()
    log.gtid_list((0, 7, 1))
    log.insert(2, "orders")
    log.gtid(3)
    for table_id, table in enumerate(("users", "orders"), 20):
        log.table_map(table, table_id)
    for number in range(4):
        log.rows(b"\x01\x01" + ONE * (number + 1), 20)
        log.rows(b"\x01\x01" + TWO * (number + 1), 21)
        if number == 1:
            log.query("DROP TEMPORARY TABLE IF EXISTS `shop`.`x` /* generated by server */")
            log.table_map("users")
            log.table_map("orders", 21)
    log.xid()
    log.insert(4)

    whole = counted_ends(log, START)

    inside = [end for end in whole if end.rows_from]
    assert len(inside) == 4 + 1 + 1
    for begin in inside:
        assert counted_ends(log, begin)[-1] == whole[-1]


def counted_ends(log: LogWriter, begin: BinlogPosition) -> list[BinlogPosition]:
    """Where each part that is published from `begin` on, row by row, and the log end, with what is counted there."""
    follower = a_follower(Pace(0.0, bytes_max=1), begin, HeartbeatWatch(TableId("shop", "beats"), "p", begin.heartbeat))
    items = EventScanner(begin, lambda _: True).feed(*log.served(log.file, begin.offset))
    ends = [part.end for part in (*follower.feed(items), *follower.finish())]
    return [binlog_position(end) for end in (*ends, follower.skip_ahead() or follower.position)]
