"""A lease that is to end at a place ends there, and not some megabytes behind."""

from __future__ import annotations

import pytest

from penstock.core.mysql.log_items import LogAdvanced, LogItem, StatementLogged, TransactionBegan, TransactionEnded
from penstock.core.positions import BinlogPosition
from penstock.links.capture.live import items_until

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


def test_items_before_the_stop_are_all_wanted() -> None:
    assert items_until([_BEGAN, _ENDED], _STOP) == [_BEGAN, _ENDED]


def test_without_a_stop_all_items_are_wanted() -> None:
    assert items_until([_BEGAN, _ENDED, _BEHIND], None) == [_BEGAN, _ENDED, _BEHIND]
