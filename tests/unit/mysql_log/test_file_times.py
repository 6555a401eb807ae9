"""Files of a log are known by when they were begun."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import LogError
from penstock.core.mysql.log.log_items import LogAdvanced, LogItem, TransactionEnded
from penstock.core.mysql.log.scan import EventScanner
from penstock.core.positions import BinlogPosition, PreparedXa

if TYPE_CHECKING:
    from tests.unit.mysql_log.conftest import LogWriter


def scan(log: LogWriter, position: BinlogPosition) -> list[LogItem]:
    return EventScanner(position, lambda _: True).feed(*log.stream())


def test_a_position_knows_when_its_file_was_begun(log_writer: type[LogWriter]) -> None:
    log = log_writer(timestamp=1_700_000_000).opening()
    log.insert(2)
    log.timestamp = 1_700_000_100
    log.rotate("mysql-bin.000002")
    log.event(15, log.events[1][19:-4])
    log.insert(3)

    ends = [
        item.end
        for item in scan(log, BinlogPosition(log.files[0], 4))
        if isinstance(item, TransactionEnded | LogAdvanced)
    ]

    assert [(end.file[-1], end.file_created) for end in ends] == [
        ("1", 1_700_000_000),
        ("2", 0),
        ("2", 1_700_000_100),
    ]


@pytest.mark.parametrize("offset", [4, 300])
def test_a_file_that_was_begun_at_another_time_is_another_log(log_writer: type[LogWriter], offset: int) -> None:
    log = log_writer(timestamp=1_700_000_000, offset=offset).opening()
    position = BinlogPosition(log.file, offset, file_created=1_700_000_000)

    assert scan(log, position) == []
    with pytest.raises(LogError, match="2023-11-14T22:13:21") as caught:
        scan(log, replace(position, file_created=1_700_000_001))
    assert "the log was reset" in caught.value.hint


def test_a_file_of_another_name_may_be_of_any_time(log_writer: type[LogWriter]) -> None:
    log = log_writer().opening()
    log.insert(2)
    position = BinlogPosition(log.file, log.offset, prepared=(PreparedXa("", "mysql-bin.000001", 4),), file_created=5)

    with pytest.raises(LogError, match="was begun at"):
        scan(log, position)
    scan(log, replace(position, file="mysql-bin.000002"))
