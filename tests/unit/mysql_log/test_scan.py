"""What the scanner makes of a log."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import pytest

from penstock.core.changes import Op
from penstock.core.errors import LogError
from penstock.core.mysql.log.log_items import LogAdvanced, LogItem, StatementLogged, TransactionBegan, TransactionEnded
from penstock.core.mysql.log.scan import EventScanner
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.positions import BinlogPosition
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from tests.unit.mysql_log.conftest import LogWriter

FILE = "mysql-bin.000001"
START = BinlogPosition(FILE, 4)


def scan(log: LogWriter, position: BinlogPosition = START, **options: object) -> list[LogItem]:
    scanner = EventScanner(position, lambda table: table.name != "secret", **options)  # type: ignore[arg-type]
    return scanner.feed(*log.stream())


def test_a_transaction_is_its_beginning_its_rows_and_its_end(log: LogWriter) -> None:
    log.gtid_list((0, 7, 41))
    begin = log.gtid(42)
    log.table_map("users")
    rows = log.rows()
    log.xid()

    items = scan(log)

    assert [type(item) for item in items] == [TransactionBegan, RowsLogged, TransactionEnded]
    assert items[0] == TransactionBegan(FILE, begin, "0-7-42", 1_700_000_000_000)
    logged = items[1]
    assert isinstance(logged, RowsLogged)
    assert logged.table_map.table == TableId("shop", "users")
    assert (logged.op, logged.offset, logged.gtid, logged.server_id) == (Op.CREATE, rows, "0-7-42", 7)
    assert logged.payload == b"\x01\x01\xfe\x2a\0\0\0"
    assert items[2] == TransactionEnded(BinlogPosition(FILE, log.offset, 0, "0-7-42"), 1_700_000_000_000)


def test_a_transaction_of_unwanted_tables_only_ends(log: LogWriter) -> None:
    log.insert(1, "secret")

    assert scan(log) == [TransactionEnded(BinlogPosition(FILE, log.offset), 1_700_000_000_000)]


def test_an_unwanted_table_may_have_columns_of_kinds_that_nobody_knows(log: LogWriter) -> None:
    log.gtid(1)
    body = b"\x14\0\0\0\0\0\1\0\x04shop\0\x06secret\0\x01\xaa\x09nonsense!"
    log.event(19, body)
    log.rows()
    log.xid()

    assert [type(item) for item in scan(log)] == [TransactionEnded]


def test_events_of_a_transaction_may_leave_out_their_end(log: LogWriter) -> None:
    """As MariaDB 11.7 and newer write them."""
    log.gtid(1)
    map_body = b"\x14\0\0\0\0\0\1\0\x04shop\0\x05users\0\x01\x03\0\0"
    log.event(19, map_body, end=0)
    rows = log.event(23, b"\x14\0\0\0\0\0\1\0\x01\x01\xfe\x2a\0\0\0", end=0)
    log.xid()

    items = scan(log)

    assert [item.offset for item in items if isinstance(item, RowsLogged)] == [rows]
    assert items[-1] == TransactionEnded(BinlogPosition(FILE, log.offset), 1_700_000_000_000)


def test_rows_of_version_two_are_read_past_their_extra_data(log: LogWriter) -> None:
    log.gtid(1)
    log.table_map("users")
    for code in (30, 31, 32):
        log.rows(code=code)
    log.xid()

    rows = [item for item in scan(log) if isinstance(item, RowsLogged)]

    assert [item.op for item in rows] == [Op.CREATE, Op.UPDATE, Op.DELETE]
    assert {item.payload for item in rows} == {b"\x01\x01\xfe\x2a\0\0\0"}


def test_a_lone_statement_can_be_read_again_from_its_gtid(log: LogWriter) -> None:
    log.gtid_list((0, 7, 8))
    begin = log.gtid(9, flags=1)
    log.query("ALTER TABLE users ADD x INT")
    log.insert(10)

    first = scan(log)
    statement = first[0]
    assert isinstance(statement, StatementLogged)
    again = scan(log, statement.begin)

    assert (statement.sql, statement.default_schema) == ("ALTER TABLE users ADD x INT", "shop")
    assert statement.begin == BinlogPosition(FILE, begin, 0, "0-7-8")
    assert statement.end.gtids == "0-7-9"
    assert again == first
    assert scan(log, statement.end) == first[1:]


def test_a_statement_inside_of_a_transaction_is_placed_by_its_own_offset(log: LogWriter) -> None:
    begin = log.gtid(1)
    create = log.query("CREATE TABLE `copy` (`a` int)")
    log.table_map("copy")
    log.rows()
    log.xid()

    first = scan(log)
    statement = first[1]
    assert isinstance(statement, StatementLogged)

    assert (statement.begin.offset, statement.begin.rows_from) == (begin, create)
    assert scan(log, statement.begin) == first
    assert scan(log, statement.end) == [first[0], *first[2:]]


def test_of_an_alter_in_two_phases_only_the_commit_is_a_statement(log: LogWriter) -> None:
    log.gtid(1, flags=1 | 8 | 32, rest=b"\x02" + bytes(5))
    log.query("ALTER TABLE users ADD x INT")
    log.gtid(2, flags=1 | 8 | 32, rest=b"\x04" + bytes(8))
    log.query("ALTER TABLE users ADD x INT")
    log.gtid(3, flags=1 | 2 | 8 | 32, rest=bytes(8) + b"\x08" + bytes(8))
    log.query("ALTER TABLE users ADD y INT")

    assert [type(item) for item in scan(log)] == [TransactionEnded, StatementLogged, TransactionEnded]


def test_without_gtids_begin_and_commit_make_a_transaction(log: LogWriter) -> None:
    begin = log.query("BEGIN")
    log.table_map("users")
    log.rows()
    log.query("COMMIT")
    log.query("DROP TABLE users")

    items = scan(log)

    assert [type(item) for item in items] == [TransactionBegan, RowsLogged, TransactionEnded, StatementLogged]
    assert items[0] == TransactionBegan(FILE, begin, "", 1_700_000_000_000)


def test_what_was_rolled_back_never_appears(log: LogWriter) -> None:
    log.gtid(1)
    log.table_map("users")
    log.rows()
    log.query("ROLLBACK")

    assert [type(item) for item in scan(log)] == [TransactionEnded]


def test_statements_that_changed_rows_outlive_a_rollback_of_the_transaction(log: LogWriter) -> None:
    """The server logs one where it also wrote to a table without transactions, which keeps what was written."""
    begin = log.gtid(1)
    log.query("INSERT INTO with_transactions VALUES (1)")
    log.table_map("users")
    log.rows()
    log.query("UPDATE without_transactions SET a = 2")
    log.query("ROLLBACK")
    behind = log.gtid(2)

    items = scan(log)

    statements = [item for item in items if isinstance(item, StatementLogged)]
    assert statements == items
    assert [(each.sql, each.end) for each in statements] == [
        ("INSERT INTO with_transactions VALUES (1)", BinlogPosition(FILE, begin)),
        ("UPDATE without_transactions SET a = 2", BinlogPosition(FILE, behind)),
    ]


def test_statements_that_changed_rows_outlive_a_rollback_to_a_savepoint(log: LogWriter) -> None:
    log.gtid(1)
    log.query("SAVEPOINT `s`")
    log.table_map("users")
    log.rows()
    log.query("UPDATE without_transactions SET a = 2")
    log.query("SAVEPOINT `t`")
    log.rows()
    log.query("ROLLBACK TO `t`")
    log.query("ROLLBACK TO `s`")
    log.xid()

    assert [type(item) for item in scan(log)] == [TransactionBegan, StatementLogged, TransactionEnded]


@pytest.mark.parametrize("undo", ["ROLLBACK", "ROLLBACK TO `s`"])
def test_a_rollback_of_what_was_already_shown_is_an_error(log: LogWriter, undo: str) -> None:
    log.gtid(1)
    log.table_map("users")
    log.query("SAVEPOINT `s`")
    log.rows()
    log.query(undo)
    scanner = EventScanner(START, lambda _: True, held_bytes_max=10)

    shown = scanner.feed(*log.stream())

    assert [type(item) for item in shown] == [TransactionBegan, RowsLogged]
    with pytest.raises(LogError, match="after a part of it was read"):
        scanner.feed(b"", ())


@pytest.mark.parametrize("undo", ["ROLLBACK", "ROLLBACK TO `s`"])
def test_a_rollback_of_what_an_earlier_reader_published_is_an_error(log: LogWriter, undo: str) -> None:
    begin = log.gtid(1)
    log.table_map("users")
    log.query("SAVEPOINT `s`")
    log.rows()
    rest = log.rows()
    log.query(undo)

    with pytest.raises(LogError, match="after a part of it was read"):
        scan(log, BinlogPosition(FILE, begin, rest))


def test_a_large_transaction_comes_in_pieces(log: LogWriter) -> None:
    log.insert(1, rows=5)
    scanner = EventScanner(START, lambda _: True, held_bytes_max=60)
    buffer, spans = log.stream()

    pieces = [scanner.feed(buffer, [span]) for span in spans]

    sizes = [len(piece) for piece in pieces if piece]
    assert sizes == [3, 2, 2]
    assert list(chain.from_iterable(pieces)) == scan(log)


def test_a_transaction_that_a_crash_cut_off_never_appears(log: LogWriter) -> None:
    log.gtid(1)
    log.table_map("users")
    log.rows()
    log.file, log.offset = "mysql-bin.000002", 4
    log.opening()
    log.insert(2)

    items = scan(log)

    assert [type(item) for item in items] == [LogAdvanced, TransactionBegan, RowsLogged, TransactionEnded]


def test_every_boundary_is_a_place_to_go_on_from(log: LogWriter) -> None:
    log.gtid_list((0, 7, 1), (3, 9, 5))
    log.insert(2, rows=3)
    log.gtid(3, flags=1)
    log.query("CREATE TABLE t (a INT)")
    log.insert(4)
    log.rotate("mysql-bin.000002")
    log.event(15, log.events[1][19:-4])
    log.gtid_list((3, 9, 5), (0, 7, 4))
    log.insert(5, rows=2)

    whole = scan(log)
    inside = TransactionBegan | RowsLogged
    boundaries = [(index, item.end) for index, item in enumerate(whole) if not isinstance(item, inside)]

    assert len(boundaries) == 5
    for index, boundary in boundaries:
        assert from_there(log, boundary) == whole[index + 1 :]


def test_every_row_event_is_a_place_to_go_on_from(log: LogWriter) -> None:
    begin = log.insert(2, rows=4)
    log.insert(3)
    whole = scan(log)

    for index in range(1, 5):
        rows = whole[index]
        assert isinstance(rows, RowsLogged)
        position = BinlogPosition(FILE, begin, rows.offset)
        assert scan(log, position) == [whole[0], *whole[index:]]


def from_there(log: LogWriter, position: BinlogPosition) -> list[LogItem]:
    """Read as a server sends it: only from the position's file and offset on."""
    later = type(log)(file=position.file, offset=position.offset).opening()
    files = [FILE if index < log.starts.index(4, 3) else "mysql-bin.000002" for index in range(len(log.starts))]
    for event, file, start in zip(log.events, files, log.starts, strict=True):
        if (file, start) >= (position.file, position.offset) and event[4] != 15 and not event[17] & 0x20:
            later.events.append(event)
    return EventScanner(position, lambda _: True).feed(*later.stream())


def test_the_front_of_a_file_is_passed_over_when_the_server_sends_all_of_it(log: LogWriter) -> None:
    log.gtid_list((0, 7, 1))
    log.insert(2)
    position = BinlogPosition(FILE, log.offset, 0, "0-7-2")
    log.insert(3)

    items = scan(log, position)

    assert [item.offset for item in items if isinstance(item, TransactionBegan)] == [position.offset]
    assert isinstance(items[-1], TransactionEnded)
    assert items[-1].end.gtids == "0-7-3"


def test_gtids_stay_unknown_until_the_log_tells_them(log: LogWriter) -> None:
    log.insert(2)
    log.rotate("mysql-bin.000002")
    log.gtid_list((0, 7, 2))
    log.insert(3)

    ends = [item.end.gtids for item in scan(log) if isinstance(item, TransactionEnded)]

    assert ends == ["", "0-7-3"]


def test_offsets_go_on_past_four_gibibytes(log_writer: type[LogWriter]) -> None:
    log = log_writer(offset=(1 << 32) - 50).opening()
    position = BinlogPosition(FILE, log.offset)
    log.gtid(1)
    log.table_map("users")
    rows = log.rows()
    log.xid()

    items = scan(log, position)

    assert rows > 1 << 32
    assert isinstance(items[1], RowsLogged)
    assert items[1].offset == rows
    assert isinstance(items[-1], TransactionEnded)
    assert items[-1].end.offset == log.offset


def test_events_that_the_server_left_out_do_not_shift_offsets(log: LogWriter) -> None:
    begin = log.gtid(1)
    log.event(160, b"INSERT INTO users VALUES (42)")
    log.events.pop()
    log.table_map("users")
    rows = log.rows()
    log.xid()

    items = scan(log)

    assert isinstance(items[0], TransactionBegan)
    assert isinstance(items[1], RowsLogged)
    assert (items[0].offset, items[1].offset) == (begin, rows)


def test_a_heartbeat_says_how_far_the_log_is_read(log: LogWriter) -> None:
    log.insert(1)
    log.event(27, FILE.encode(), end=log.offset)

    assert scan(log)[-1] == LogAdvanced(BinlogPosition(FILE, log.offset))


def test_a_heartbeat_inside_of_a_transaction_says_nothing(log: LogWriter) -> None:
    log.gtid(1)
    log.event(27, FILE.encode(), end=log.offset)

    assert scan(log) == []


def test_with_one_file_nothing_comes_after_its_end(log: LogWriter) -> None:
    log.insert(1)
    log.rotate("mysql-bin.000002")
    log.insert(2)
    scanner = EventScanner(START, lambda _: True, one_file=True)

    items = scanner.feed(*log.stream())

    assert scanner.file_ended
    assert items[-1] == LogAdvanced(BinlogPosition("mysql-bin.000002", 4))


def test_a_log_without_checksums_is_read(log_writer: type[LogWriter]) -> None:
    log = log_writer(checksums=False).opening()
    log.insert(1)

    assert len(scan(log)) == 3
