"""Ranges of the backlog: what is published of them, and where publishing ends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from penstock.core.errors import LogError
from penstock.core.mysql.log_items import LogAdvanced, LogItem
from penstock.core.positions import BinlogPosition, PreparedXa
from penstock.core.publication import CaptureRecord, Publication, StoppedTable
from penstock.links.capture.backlog import (
    RangeEnded,
    RangeFailed,
    RangePart,
    TablesStopped,
    publish_ranges,
    read_range,
)
from penstock.links.capture.follow import LogFollower, Pace
from penstock.links.capture.open_capture import CaptureParts, OpenCapture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.unit.links.conftest import MemoryPublisher

    from penstock.links.capture.statements import StatementHandler
    from penstock.links.capture.table_book import TableBook

FIRST = BinlogPosition("binlog.000001", 4)
SECOND = BinlogPosition("binlog.000002", 4)
THIRD = BinlogPosition("binlog.000003", 4)
UUID = "bbbbbbbb-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
PREPARED = PreparedXa("X'78',X'',1", FIRST.file, 4)
BROKEN = RangeFailed(LogError("broken", "mend it"))
STOPPED = {"shop.users": StoppedTable(str(FIRST), "0000-00-00 is no date", "mend it")}


class BreakingStream:
    """A LogStream that ends in an error."""

    def __init__(self, items: Sequence[LogItem]) -> None:
        self._items = items

    def read(self, wait_seconds: float) -> Sequence[LogItem]:  # noqa: ARG002 - nothing is waited for
        items, self._items = self._items, ()
        if not items:
            raise BROKEN.error
        return items

    def at_end(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing is open."""


def capture_into(publisher: MemoryPublisher) -> OpenCapture:
    # No row is encoded and no statement applied, so nobody asks for the tables.
    book, statements = cast("TableBook", None), cast("StatementHandler", None)
    return OpenCapture(CaptureParts(publisher, book, statements, "schemas", 1), 1, FIRST, 0)


def committed(publisher: MemoryPublisher) -> BinlogPosition:
    return CaptureRecord.from_mapping(publisher.records[-1]).position


def rows(begin: BinlogPosition, end: BinlogPosition) -> Publication:
    return Publication((), begin, end, 0, {})


def test_ranges_are_published_in_order(publisher: MemoryPublisher) -> None:
    ranges: list[list[RangePart]] = [[RangeEnded(SECOND)], [rows(SECOND, THIRD), RangeEnded(THIRD)]]

    publish_ranges(capture_into(publisher), ranges)

    assert committed(publisher) == THIRD


def test_behind_a_file_that_leaves_something_prepared_nothing_is_published(publisher: MemoryPublisher) -> None:
    end = BinlogPosition(SECOND.file, SECOND.offset, prepared=(PREPARED,))
    ranges: list[list[RangePart]] = [[RangeEnded(end)], [rows(SECOND, THIRD), BROKEN]]

    publish_ranges(capture_into(publisher), ranges)

    assert committed(publisher) == end


def test_gtids_that_no_file_lists_stay_in_the_position(publisher: MemoryPublisher) -> None:
    capture = capture_into(publisher)
    capture.advance(replace(FIRST, gtids=f"{UUID}:1-1000"))

    publish_ranges(capture, [[RangeEnded(replace(SECOND, gtids=f"{UUID}:1001-1005"))]])

    assert committed(publisher) == replace(SECOND, gtids=f"{UUID}:1-1005")


def test_a_range_that_cannot_be_read_on_is_published_up_to_there(publisher: MemoryPublisher) -> None:
    ranges: list[list[RangePart]] = [[RangeEnded(SECOND)], [rows(SECOND, THIRD), BROKEN]]

    with pytest.raises(LogError, match="broken"):
        publish_ranges(capture_into(publisher), ranges)

    assert committed(publisher) == THIRD


def test_an_error_of_the_log_is_the_last_part_of_a_range() -> None:
    follower = LogFollower(cast("TableBook", None), {}, FIRST, Pace(1.0))

    parts = list(read_range(BreakingStream([LogAdvanced(SECOND)]), follower, {}))

    assert parts == [BROKEN]


def test_a_table_that_stops_is_committed_with_what_lacks_its_rows(publisher: MemoryPublisher) -> None:
    ranges: list[list[RangePart]] = [[TablesStopped(STOPPED), rows(FIRST, SECOND), BROKEN]]

    with pytest.raises(LogError, match="broken"):
        publish_ranges(capture_into(publisher), ranges)

    record = CaptureRecord.from_mapping(publisher.records[-1])
    assert (record.position, record.stopped) == (SECOND, STOPPED)


def test_behind_a_file_in_which_a_table_stopped_nothing_is_published(publisher: MemoryPublisher) -> None:
    ranges: list[list[RangePart]] = [
        [TablesStopped(STOPPED), RangeEnded(SECOND)],
        [rows(SECOND, THIRD), RangeEnded(THIRD)],
    ]

    publish_ranges(capture_into(publisher), ranges)

    record = CaptureRecord.from_mapping(publisher.records[-1])
    assert (record.position, record.stopped) == (SECOND, STOPPED)
