"""Rows that a blackhole snapshot has copied into the log: whose they are, and where they stand."""

from __future__ import annotations

from penstock.core.changes import Op
from penstock.core.log_items import LogPassed, RowsRead, TransactionsRead
from penstock.core.mysql.log.log_items import FewTransactions, LogAdvanced, TransactionBegan, TransactionEnded
from penstock.core.mysql.types.logged_rows import RowsLogged, TableMap
from penstock.core.patterns import TablePatterns
from penstock.core.positions import BinlogPosition
from penstock.core.snapshot_copies import CopiedRows, copies_owner, copy_table, is_copy, snapshot_of
from penstock.core.snapshots import SnapshotProgress
from penstock.core.tables import TableId
from penstock.links.capture.mysql.log_reading import BinlogReading

_FILE = "binlog.000007"
_OWNER, _ID = copies_owner("shop", "db"), "0123456789ab"
_ORDERS = TableId("shop", "orders")


def rows_of(table: TableId, offset: int) -> RowsLogged:
    table_map = TableMap(table, (3,), (0,), (False,), ("id",), (False,), key=())
    return RowsLogged(table_map, Op.CREATE, b"\x01\xff\x00\x01\x00\x00\x00", _FILE, offset, 0, "", 1)


def at(offset: int) -> BinlogPosition:
    return BinlogPosition(_FILE, offset)


def test_copied_rows_are_rows_that_were_read_of_their_table_at_their_own_place() -> None:
    copied = CopiedRows(_OWNER, {_ID: SnapshotProgress(str(_ORDERS))})
    copies, live = rows_of(copy_table(_OWNER, _ID), 200), rows_of(_ORDERS, 300)
    reading = BinlogReading(at(4), copied=copied)
    singly = [TransactionBegan(_FILE, 150, "", 0), copies, TransactionEnded(at(250), 0), LogAdvanced(at(260))]
    together = FewTransactions(at(260), at(500), (), (), (live, rows_of(copy_table(_OWNER, _ID), 400)))

    steps = [*reading.steps(singly), *reading.steps([together])]

    (read, ended, _passed, more) = steps
    assert isinstance(read, RowsRead)
    assert isinstance(ended, TransactionsRead)
    assert isinstance(_passed, LogPassed)
    assert isinstance(more, TransactionsRead)
    found = [read.rows, *more.rows]
    assert all(isinstance(each, RowsLogged) for each in found)
    assert [(each.table, each.op, each.offset) for each in found if isinstance(each, RowsLogged)] == [
        (_ORDERS, Op.READ, 200),
        (_ORDERS, Op.CREATE, 300),
        (_ORDERS, Op.READ, 400),
    ]
    assert copied.came_since(_ID, 7, 400)
    assert not copied.came_since(_ID, 7, 401)


def test_copies_of_snapshots_that_ended_and_of_other_pipelines_are_nobodys() -> None:
    reading = BinlogReading(at(4), copied=CopiedRows(_OWNER, {}))
    other = copies_owner("shop", "other")

    steps = list(reading.steps([rows_of(copy_table(_OWNER, _ID), 200), rows_of(copy_table(other, _ID), 300)]))

    assert steps == []


def test_no_pipeline_carries_a_copy_whatever_its_tables_are() -> None:
    copy = copy_table(_OWNER, _ID)

    assert is_copy(copy)
    assert snapshot_of(copy, _OWNER) == _ID
    assert snapshot_of(copy, copies_owner("other", "db")) == ""
    assert not TablePatterns.parse(["*.*"]).matches(copy)
    assert TablePatterns.parse(["*.*"]).matches(TableId("penstock", "snapshot_of_mine"))
