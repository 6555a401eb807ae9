"""Which tables' rows are wanted may change while a log is read, and between two readers of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.mysql_log.scanning import FEW, FILE, RUNS, SINGLE, START
from tests.unit.mysql_log.single_items import without_beginnings

from penstock.core.errors import LogError
from penstock.core.mysql.log.log_items import LogItem, StatementLogged, TransactionBegan, TransactionEnded
from penstock.core.mysql.log.open_transaction import OpenTransaction
from penstock.core.mysql.log.scan import EventScanner, Grouping
from penstock.core.mysql.log.xa import PreparedTransactions
from penstock.core.mysql.types.logged_rows import RowsLogged

if TYPE_CHECKING:
    from collections.abc import Collection

    from tests.unit.mysql_log.conftest import LogWriter

    from penstock.core.positions import BinlogPosition
    from penstock.core.tables import TableId


def rows_of(items: list[LogItem]) -> list[RowsLogged]:
    return [item for item in without_beginnings(items) if isinstance(item, RowsLogged)]


@pytest.mark.parametrize("grouping", [SINGLE, FEW, RUNS])
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
def test_rows_behind_a_statement_are_asked_for_when_it_was_taken(
    log: LogWriter, grouping: Grouping, *, inside: bool
) -> None:
    log.insert(1, "parent")
    log.gtid(2, flags=0 if inside else 1)
    log.query("CREATE TABLE child (p INT REFERENCES parent (id) ON DELETE CASCADE)")
    if inside:
        log.table_map("child")
        log.rows()
        log.xid()
    log.insert(3, "parent")
    taken: list[LogItem] = []

    def wanted(table: TableId) -> bool:
        return table.name == "child" or any(isinstance(item, StatementLogged) for item in taken)

    for piece in EventScanner(START, wanted, grouping=grouping).pieces(*log.stream()):
        taken += piece

    assert [rows.table.name for rows in rows_of(taken)] == ["child"] * inside + ["parent"]


TABLES = {"a": 20, "b": 30}
SOME_TABLES = ("a", "b", "ab")


def scan_xa(log: LogWriter, wanted: Collection[str], position: BinlogPosition = START) -> list[LogItem]:
    scanner = EventScanner(position, lambda table: table.name in wanted)
    items = scanner.feed(*log.served(*position.read_from))
    scanner.require_readable()
    return items


def xa_of(log: LogWriter, tables: Collection[str]) -> None:
    """A committed XA transaction with an event of rows of each of these, one behind the other, all different."""
    log.gtid(1, flags=0x48, rest=b"\1\0\0\0\1\0x")
    for name, table_id in TABLES.items():
        log.table_map(name, table_id=table_id)
    for number, table in enumerate(tables):
        log.rows(b"\x01\x01" + (b"\xfe" + bytes([number, 0, 0, 0])) * (1 + number % 3), TABLES[table])
    log.event(38, b"\0\1\0\0\0\1\0\0\0\0\0\0\0x")
    log.xa_finish("COMMIT", b"x")


@given(st.lists(st.sampled_from(sorted(TABLES)), min_size=1, max_size=8))
def test_an_xa_commit_in_pieces_goes_on_behind_its_last_row_whatever_is_wanted_now(
    log_writer: type[LogWriter], tables: list[str]
) -> None:
    log = log_writer().opening()
    xa_of(log, tables)
    whole = rows_of(scan_xa(log, TABLES))
    assert [rows.table.name for rows in whole] == tables

    for before, now in product(SOME_TABLES, repeat=2):
        prepared, began, *items = scan_xa(log, before)
        for rows in rows_of(items):
            assert isinstance(prepared, TransactionEnded)
            assert isinstance(began, TransactionBegan)
            behind = replace(prepared.end, offset=began.offset, rows_from=rows.rows_from + 1)
            left = [each for each in whole if each.rows_from > rows.rows_from and each.table.name in now]
            assert rows in whole
            assert rows_of(scan_xa(log, now, behind)) == left


@pytest.mark.parametrize("more", [0, 1])
def test_an_xa_commit_has_places_for_a_gibibyte_of_rows_of_all_tables(log: LogWriter, *, more: int) -> None:
    xa_of(log, ["a"])
    (rows,) = rows_of(scan_xa(log, {"a"}))
    transaction = OpenTransaction(FILE, 4, "", 0, explicit=True)
    transaction.count_xa_rows(0, (1 << 30) - len(rows.payload) + more, wanted=False)
    transaction.count_xa_rows(rows.rows_from, len(rows.payload), wanted=True)
    transaction.hold(rows, len(rows.payload))
    prepared = PreparedTransactions(1 << 30)

    if more:
        with pytest.raises(LogError, match=f"the XA transaction at {FILE}:4 has over a GiB of rows"):
            prepared.prepare("x", transaction)
    else:
        prepared.prepare("x", transaction)
