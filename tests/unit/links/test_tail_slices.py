"""A tail slice that is to end at a place ends there, and not some megabytes behind."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from penstock.core.changes import Op
from penstock.core.mysql.events.gtid_columns import GtidColumn
from penstock.core.mysql.log.log_items import (
    FewTransactions,
    LogAdvanced,
    LogItem,
    StatementLogged,
    TransactionBegan,
    TransactionEnded,
    TransactionsLogged,
)
from penstock.core.mysql.rows.rows_block import join_rows
from penstock.core.mysql.types.logged_rows import RowsLogged, TableMap
from penstock.core.positions import BinlogPosition
from penstock.core.tables import TableId
from penstock.links.capture.mysql.log_reading import items_until

_STOP = BinlogPosition("binlog.000002", 4)


def _before(offset: int) -> BinlogPosition:
    return BinlogPosition("binlog.000001", offset)


_BEGAN = TransactionBegan("binlog.000001", 100, "0-1-1", 0)
_ENDED = TransactionEnded(_before(200), 0)
_BEHIND = TransactionEnded(BinlogPosition("binlog.000002", 500), 0)


@pytest.mark.parametrize(
    "last",
    [
        LogAdvanced(_STOP),
        TransactionEnded(_STOP, 0),
        StatementLogged("DROP TABLE x", "shop", _before(200), _STOP, 0),
        LogAdvanced(BinlogPosition("binlog.000003", 4)),
    ],
)
def test_items_end_with_the_first_one_that_reaches_the_stop(last: LogItem) -> None:
    items: list[LogItem] = [_BEGAN, _ENDED, last, _BEGAN, _BEHIND]

    assert items_until(items, _STOP) == [_BEGAN, _ENDED, last]


@pytest.mark.parametrize(("stop", "count"), [(100, 1), (150, 2), (200, 2), (201, 3), (300, 3), (4, 1)], ids=str)
def test_a_run_of_transactions_ends_with_the_first_one_that_reaches_the_stop(stop: int, count: int) -> None:
    items: list[LogItem] = [_BEGAN, _run(3)]

    until = items_until(items, _before(stop))

    last = until[-1]
    assert isinstance(last, TransactionsLogged)
    assert (until is items) == (count == 3)
    assert until[:-1] == [_BEGAN]
    assert last.end == BinlogPosition("binlog.000001", count * 100, 0, f"0-1-{count},5-1-1")
    assert last.ends.tolist() == [100, 200, 300][:count]
    assert last.gtids.texts().to_pylist() == ["0-1-1", "0-1-2", "0-1-3"][:count]
    assert [event.offset for block in last.blocks for event in block] == [10, 110, 210][:count]


@pytest.mark.parametrize(("stop", "count"), [(100, 1), (150, 2), (200, 2), (201, 3), (300, 3), (4, 1)], ids=str)
def test_a_few_transactions_end_with_the_first_one_that_reaches_the_stop(stop: int, count: int) -> None:
    run = _run(3)
    places = tuple((n * 100 - 100, n * 100, f"0-1-{n}", 0) for n in (1, 2, 3))
    rows = tuple(chain.from_iterable(run.blocks))
    few = FewTransactions(run.begin, run.end, places, (("0-1-", 1, 3),), rows)
    items: list[LogItem] = [_BEGAN, few]

    until = items_until(items, _before(stop))

    assert (until is items) == (count == 3)
    assert items_until([*items, _BEHIND], _before(stop))[-1] is not _BEHIND
    singles = [single for item in until for single in (item.singly() if isinstance(item, FewTransactions) else [item])]
    assert [item.offset for item in singles if isinstance(item, RowsLogged)] == [10, 110, 210][:count]
    ends = [item.end for item in singles if isinstance(item, TransactionEnded)]
    assert ends[-1] == BinlogPosition("binlog.000001", count * 100, 0, f"0-1-{count},5-1-1")
    assert len(ends) == count


def test_a_run_in_a_file_behind_the_stop_is_cut_to_its_first_transaction() -> None:
    last = items_until([_run(3)], BinlogPosition("binlog.000000", 4000))[-1]

    assert isinstance(last, TransactionsLogged)
    assert len(last.ends) == 1


def _run(count: int) -> TransactionsLogged:
    """Transactions of 100 bytes from the start of the file on, each with a row at its tenth byte."""
    numbers = np.arange(1, count + 1)
    gtids = GtidColumn(("0-1-",), np.zeros(count, np.int64), numbers.astype(np.uint64))
    table_map = TableMap(TableId("shop", "users"), (3,), (0,), (False,), (), ())
    rows = [
        RowsLogged(table_map, Op.CREATE, b"\1\1\0\0\0\0\0", "binlog.000001", n * 100 - 90, 0, f"0-1-{n}", 1)
        for n in numbers.tolist()
    ]
    begin, end = (
        replace(_before(at), gtids=gtids) for at, gtids in ((4, "5-1-1"), (count * 100, f"0-1-{count},5-1-1"))
    )
    return TransactionsLogged(begin, end, numbers * 100, numbers * 0, gtids, (join_rows(rows),))


def test_items_before_the_stop_are_all_wanted() -> None:
    assert items_until([_BEGAN, _ENDED], _STOP) == [_BEGAN, _ENDED]


def test_without_a_stop_all_items_are_wanted() -> None:
    assert items_until([_BEGAN, _ENDED, _BEHIND], None) == [_BEGAN, _ENDED, _BEHIND]
