"""A few transactions read together are those that are read one by one."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.unit.mysql_log.scanning import FEW, RUNS, SINGLE, START, scan
from tests.unit.mysql_log.single_items import one_by_one

from penstock.core.mysql.log.log_items import TransactionEnded
from penstock.core.mysql.rows.decode import batch_key
from penstock.core.mysql.rows.rows_block import join_rows
from penstock.core.mysql.types.logged_rows import RowsLogged

if TYPE_CHECKING:
    from tests.unit.mysql_log.conftest import LogWriter

UUID = bytes(range(16))
ROW = b"\xfe\x2a\0\0\0"
FRONT = b"\x01\x01"


def test_what_is_read_together_ends_before_a_log_that_goes_back(log: LogWriter) -> None:
    log.insert(3)
    log.insert(4)
    log.gtid(5)
    log.table_map("users")
    log.event(23, struct.pack("<IHH", 20, 0, 1) + FRONT + ROW, end=100)
    log.xid()

    single, in_runs, few = (scan(log, START, grouping) for grouping in (SINGLE, RUNS, FEW))

    assert "goes back to 100" in single.error
    assert in_runs.error == few.error == single.error
    assert one_by_one(few.found) == single.found
    assert [len(each.places) for each in few.few] == [2]


def test_what_is_read_together_ends_before_a_gtid_of_another_kind_of_server(log: LogWriter) -> None:
    log.gtid_list((0, 7, 2))
    log.insert(3)
    log.insert(4)
    log.event(33, b"\1" + UUID + struct.pack("<QBQQ", 1, 2, 0, 1))
    log.query("BEGIN")
    log.table_map("users")
    log.rows()
    log.xid()

    single, in_runs, few = (scan(log, START, grouping) for grouping in (SINGLE, RUNS, FEW))

    assert "is no GTID of the server" in single.error
    assert in_runs.error == few.error == single.error
    assert one_by_one(few.found) == single.found
    assert [len(each.places) for each in few.few] == [2]


def test_what_is_read_together_ends_before_an_event_that_is_shorter_than_its_header(log: LogWriter) -> None:
    log.insert(3)
    log.events.append(log.events[-1][:7])

    single, in_runs, few = (scan(log, START, grouping) for grouping in (SINGLE, RUNS, FEW))

    assert "is shorter than its header" in single.error
    assert in_runs.error == few.error == single.error
    assert one_by_one(few.found) == single.found


def test_the_extra_data_of_rows_are_passed_over(log: LogWriter) -> None:
    log.gtid(3)
    log.table_map("users")
    log.event(30, struct.pack("<IHHH", 20, 0, 1, 2 + 5) + b"extra" + FRONT + ROW)
    log.xid()

    single, few = (scan(log, START, grouping) for grouping in (SINGLE, FEW))

    (together,) = few.few
    assert [rows.payload for rows in together.rows] == [FRONT + ROW]
    assert one_by_one(few.found) == single.found


def test_a_transaction_that_is_not_small_is_read_by_its_events(log: LogWriter) -> None:
    log.insert(3)
    log.gtid(4)
    log.table_map("users")
    log.rows(FRONT + ROW * (20 << 10))
    log.xid()

    single, few = (scan(log, START, grouping) for grouping in (SINGLE, FEW))

    assert [len(each.places) for each in few.few] == [1]
    assert one_by_one(few.found) == single.found


def test_without_gtids_transactions_are_read_together_also_where_the_log_lists_none(
    log_writer: type[LogWriter],
) -> None:
    log = log_writer(server_version=b"8.0.36").opening()
    log.event(35, bytes(8))
    for _ in range(3):
        log.event(34, b"\1" + bytes(16) + struct.pack("<QBQQ", 0, 2, 0, 1))
        log.query("BEGIN")
        log.table_map("users")
        log.rows()
        log.xid()

    single, in_runs, few = (scan(log, START, grouping) for grouping in (SINGLE, RUNS, FEW))

    assert in_runs.items == few.items == single.items
    assert [len(run.ends) for run in in_runs.runs] == [3]
    assert [len(each.places) for each in few.few] == [3]


def test_the_first_gtids_of_a_log_are_read_singly(log: LogWriter) -> None:
    log.gtid_list()
    for number in range(1, 4):
        log.insert(number)

    single, few = (scan(log, START, grouping) for grouping in (SINGLE, FEW))

    assert [item.end.gtids for item in single.found if isinstance(item, TransactionEnded)] == [
        f"0-7-{number}" for number in range(1, 4)
    ]
    assert few.items == single.items
    assert [len(each.places) for each in few.few] == [2]


def test_rows_say_whether_those_that_foreign_keys_changed_are_logged_too_however_they_are_read(log: LogWriter) -> None:
    for number, flags in ((3, 0x11), (4, 0x01), (5, 0x11), (6, 0x8002)):
        log.gtid(number)
        log.table_map("users")
        log.rows(code=32, flags=flags)
        log.xid()

    single, in_runs, few = (scan(log, START, grouping) for grouping in (SINGLE, RUNS, FEW))

    rows = [item for item in single.found if isinstance(item, RowsLogged)]
    assert [row.cascades_logged for row in rows] == [True, False, True, False]
    assert in_runs.items == few.items == single.items
    assert (len(in_runs.runs), len(few.few)) == (1, 1)
    assert join_rows([rows[0], rows[2]])[1].cascades_logged
    assert batch_key(rows[0]) == batch_key(rows[2]) != batch_key(rows[1]) == batch_key(rows[3])
