"""Which tables' rows are wanted may change while a log is read, and between two readers of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.mysql_log.scanning import FEW, RUNS, SINGLE, START
from tests.unit.mysql_log.single_items import without_beginnings

from penstock.core.mysql.log.log_items import LogItem, StatementLogged
from penstock.core.mysql.log.scan import EventScanner, Grouping
from penstock.core.mysql.types.logged_rows import RowsLogged

if TYPE_CHECKING:
    from tests.unit.mysql_log.conftest import LogWriter

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
