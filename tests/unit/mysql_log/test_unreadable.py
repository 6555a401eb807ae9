"""Events that the scanner cannot read: named with their place and a remedy, unless nobody wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import CorruptLogError, LogError
from penstock.core.mysql.log.log_items import LogItem, TransactionEnded, TransactionsLogged
from penstock.core.mysql.log.scan import EventScanner, Grouping
from penstock.core.positions import BinlogPosition

if TYPE_CHECKING:
    from tests.unit.mysql_log.conftest import LogWriter

FILE = "mysql-bin.000001"
START = BinlogPosition(FILE, 4)


def scan(log: LogWriter, position: BinlogPosition = START) -> list[LogItem]:
    return EventScanner(position, lambda table: table.name != "secret").feed(*log.stream())


def test_an_unknown_event_is_skipped_only_if_it_says_that_it_may_be(log: LogWriter) -> None:
    log.event(99, b"?", flags=0x80)
    assert scan(log) == []

    log.event(99, b"?")
    with pytest.raises(LogError, match="unknown type 99"):
        scan(log)


PARTS = ("PARTIAL_ROW_DATA", "set binlog_row_event_fragment_threshold on the server to 1 GB")
NEWER = ("unknown type", "needs a newer release of Penstock")


@pytest.mark.parametrize(
    ("code", "flags", "told"), [(172, 0, PARTS), (172, 0x80, PARTS), *((code, 0, NEWER) for code in range(173, 180))]
)
@pytest.mark.parametrize("run_events_min", [1, 1 << 30])
def test_events_that_newer_servers_have_in_place_of_rows_stop_the_capture_where_they_are(
    log: LogWriter, code: int, flags: int, told: tuple[str, str], run_events_min: int
) -> None:
    """MariaDB 12.3 can log rows in parts (PARTIAL_ROW_DATA): none of them may be passed over, whatever they say."""
    log.gtid_list((0, 7, 1))
    for number in range(2, 6):
        log.insert(number)
    whole = log.offset
    log.gtid(6)
    log.table_map("users")
    place = log.event(code, b"a part of a row", flags=flags)
    log.xid()
    log.insert(7)
    scanner = EventScanner(START, lambda _: True, grouping=Grouping(run_events_min))

    items = scanner.feed(*log.stream())

    last = items[-1]
    assert isinstance(last, TransactionEnded | TransactionsLogged)
    assert last.end.offset == whole
    with pytest.raises(LogError, match=rf"type {code} .*at {FILE}:{place}") as caught:
        scanner.feed(b"", ())
    assert told[0] in str(caught.value)
    assert told[1] in caught.value.hint


def test_rows_that_no_table_map_describes_are_an_error(log: LogWriter) -> None:
    log.gtid(1)
    log.rows()

    with pytest.raises(CorruptLogError, match="which nothing describes"):
        scan(log)


def test_a_start_in_the_middle_of_a_transaction_is_noticed(log: LogWriter) -> None:
    log.table_map("users")
    log.rows()
    with pytest.raises(CorruptLogError, match="without its beginning"):
        scan(log)


def test_another_file_than_the_one_asked_for_is_an_error(log: LogWriter) -> None:
    with pytest.raises(LogError, match=r"sends mysql-bin\.000001:4 where mysql-bin\.000005:4 was asked for"):
        scan(log, BinlogPosition("mysql-bin.000005", 4))


def test_a_log_that_goes_back_is_an_error(log: LogWriter) -> None:
    log.insert(1)
    log.event(16, bytes(8), end=200)

    scanner = EventScanner(START, lambda _: True)
    scanner.feed(*log.stream())
    with pytest.raises(CorruptLogError, match="goes back"):
        scanner.feed(b"", ())


def test_items_from_before_an_error_come_first(log: LogWriter) -> None:
    log.insert(1)
    log.event(26, bytes(4))
    scanner = EventScanner(START, lambda _: True)

    items = scanner.feed(*log.stream())

    assert isinstance(items[-1], TransactionEnded)
    for _ in range(2):
        with pytest.raises(LogError, match="INCIDENT"):
            scanner.feed(b"", ())
