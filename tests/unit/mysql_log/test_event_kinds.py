"""Every kind of event: what docs/binlog.md says of it is what happens."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import CorruptLogError, LogError
from penstock.core.mysql.events.event_codes import EventCode
from penstock.core.mysql.log.log_items import LogAdvanced, LogItem, StatementLogged, TransactionBegan, TransactionEnded
from penstock.core.mysql.log.scan import EventScanner
from penstock.core.mysql.statements.ddl import RowStatement, classify
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.positions import BinlogPosition

if TYPE_CHECKING:
    from tests.unit.mysql_log.conftest import LogWriter

FILE = "mysql-bin.000001"
START = BinlogPosition(FILE, 4)
PASSED_OVER = [
    EventCode.STOP,
    EventCode.INTVAR,
    EventCode.RAND,
    EventCode.USER_VAR,
    EventCode.APPEND_BLOCK,
    EventCode.DELETE_FILE,
    EventCode.BEGIN_LOAD_QUERY,
    EventCode.IGNORABLE,
    EventCode.ROWS_QUERY,
    EventCode.TRANSACTION_CONTEXT,
    EventCode.VIEW_CHANGE,
    EventCode.MARIADB_ANNOTATE_ROWS,
    EventCode.MARIADB_BINLOG_CHECKPOINT,
    EventCode.MARIADB_START_ENCRYPTION,
]


def scan(log: LogWriter) -> list[LogItem]:
    return EventScanner(START, lambda table: table.name != "secret").feed(*log.stream())


def test_the_page_lists_every_event_once() -> None:
    page = (Path(__file__).parents[3] / "docs" / "binlog.md").read_text()

    listed = [name for line in re.findall(r"^\| ([A-Z_0-9, ]+) \|", page, re.MULTILINE) for name in line.split(", ")]

    assert sorted(listed) == sorted(code.name for code in EventCode)


@pytest.mark.parametrize("code", PASSED_OVER)
def test_what_says_nothing_of_tables_is_passed_over_anywhere(log: LogWriter, code: EventCode) -> None:
    log.event(code, b"what\xffever")
    log.gtid(1)
    log.event(code, b"what\xffever")
    log.table_map("users")
    log.event(code, b"what\xffever")
    log.rows()
    log.xid()
    log.event(code, b"what\xffever")

    assert [type(item) for item in scan(log)] == [TransactionBegan, RowsLogged, TransactionEnded]


def test_a_statement_that_changes_rows_comes_with_the_tables_it_names(log: LogWriter) -> None:
    log.gtid(1)
    log.event(EventCode.INTVAR, b"\x02" + bytes(8))
    log.event(EventCode.RAND, bytes(16))
    log.query("INSERT INTO users VALUES (RAND())")
    log.xid()

    statement = scan(log)[1]

    assert isinstance(statement, StatementLogged)
    assert classify(statement.sql) == RowStatement("INSERT", ((None, "users"),))


def test_load_data_as_a_statement_comes_with_the_table_it_names(log: LogWriter) -> None:
    sql = b"LOAD DATA INFILE '/tmp/x' INTO TABLE `users` (`id`)"
    status = b"\x00" + bytes(4)
    body = struct.pack("<IIBHHIIIB", 1, 0, 4, 0, len(status), 1, 10, 20, 0) + status + b"shop\0" + sql
    log.gtid(1)
    log.event(EventCode.BEGIN_LOAD_QUERY, struct.pack("<I", 1) + b"5\tfive\n")
    log.event(EventCode.EXECUTE_LOAD_QUERY, body)
    log.xid()

    statement = scan(log)[1]

    assert isinstance(statement, StatementLogged)
    assert (statement.sql, statement.default_schema) == (sql.decode(), "shop")
    assert classify(statement.sql) == RowStatement("LOAD", ((None, "users"),))


def test_a_statement_may_have_any_number_of_rows_events(log: LogWriter) -> None:
    log.gtid(1)
    log.table_map("users", table_id=20)
    log.table_map("orders", table_id=21)
    for number in range(50):
        log.rows(table_id=20 + number % 2)
    log.xid()

    rows = [item.table_map.table.name for item in scan(log) if isinstance(item, RowsLogged)]

    assert rows == ["users", "orders"] * 25


def test_a_table_with_columns_of_unknown_types_does_not_keep_others_from_being_read(log: LogWriter) -> None:
    columns = b"\3\x03\xf5\x14" + b"\2\x04\x08" + b"\x06"
    log.gtid(1)
    log.event(EventCode.TABLE_MAP, struct.pack("<IHH", 21, 0, 1) + b"\x04shop\0\x07indexed\0" + columns)
    log.rows(table_id=21)
    log.table_map("users")
    log.rows()
    log.xid()

    assert [item.table_map.table.name for item in scan(log) if isinstance(item, RowsLogged)] == ["indexed", "users"]


def test_the_rows_event_that_only_ends_a_statement_has_no_table(log: LogWriter) -> None:
    log.gtid(1)
    log.event(EventCode.WRITE_ROWS, struct.pack("<IHHH", 0xFFFFFF, 0, 1, 2) + b"\x00\x00")
    log.xid()

    assert [type(item) for item in scan(log)] == [TransactionEnded]


@pytest.mark.parametrize("name", [b"mysql-bin", b"mysql-bin.", b"mysql-bin.x1", b".000002", b"\xff.000002", b""])
def test_a_file_that_has_no_number_is_an_error(log: LogWriter, name: bytes) -> None:
    start = log.event(EventCode.ROTATE, struct.pack("<Q", 4) + name)

    with pytest.raises(CorruptLogError, match=f"{FILE}:{start}"):
        scan(log)


@pytest.mark.parametrize("code", [EventCode.HEARTBEAT, EventCode.HEARTBEAT_V2])
def test_both_heartbeats_say_how_far_the_log_is_read(log: LogWriter, code: EventCode) -> None:
    log.insert(1)
    log.event(code, FILE.encode(), end=0)

    assert scan(log)[-1] == LogAdvanced(BinlogPosition(FILE, log.offset))


@pytest.mark.parametrize(
    ("body", "said"), [(b"\1\0\x04full", "full"), (b"\1\0\0", "no reason"), (b"", "no reason"), (b"\1\0\x09x", "x")]
)
def test_an_incident_stops_the_log_and_says_why(log: LogWriter, body: bytes, said: str) -> None:
    start = log.event(EventCode.INCIDENT, body)

    with pytest.raises(LogError, match=f"INCIDENT event at {FILE}:{start}.*lost changes: {said}") as caught:
        scan(log)

    assert "start a new pipeline with an initial snapshot" in caught.value.hint
