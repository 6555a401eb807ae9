"""Ranges of the backlog: what is published of them, in whose turn, and where publishing ends."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from penstock.core.changes import Messages
from penstock.core.errors import LogError, UnavailableError
from penstock.core.mysql.log.log_items import LogAdvanced, LogItem
from penstock.core.mysql.log.read_from import on_top_of
from penstock.core.positions import BinlogPosition, PreparedXa, binlog_position
from penstock.core.publication import CaptureRecord, Publication, StoppedTable, join
from penstock.core.publish_tokens import Outlook, PublishToken, TokenState, is_held, outlook
from penstock.links.capture.backlog import (
    ReadAhead,
    SliceEnded,
    SliceFailed,
    SlicePart,
    TablesStopped,
    read_slice,
)
from penstock.links.capture.backlog_slices import BacklogSlice, SliceDropped, SlicePublished
from penstock.links.capture.carry_slice import carry_slice
from penstock.links.capture.follow import LogFollower, Pace
from penstock.links.capture.mysql.log_reading import BinlogReading
from penstock.links.capture.open_capture import CaptureParts, OpenCapture, committed_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.unit.links.conftest import MemoryPublisher

    from penstock.core.positions import Position
    from penstock.links.capture.table_catalog import TableCatalog
    from penstock.ports.replay import Replay

FIRST = BinlogPosition("binlog.000001", 4)
SECOND = BinlogPosition("binlog.000002", 4)
THIRD = BinlogPosition("binlog.000003", 4)
BEGINS = (FIRST, SECOND, THIRD)
UUID = "bbbbbbbb-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
PREPARED = PreparedXa("X'78',X'',1", FIRST.file, 4)
BROKEN = SliceFailed(LogError("broken", "mend it"))
STOPPED = {"shop.users": StoppedTable(str(FIRST), "0000-00-00 is no date", "mend it")}
OPEN, PASSED, OVER = (PublishToken("plan", 1, state) for state in (TokenState.OPEN, TokenState.PASSED, TokenState.OVER))


class Closing:
    """What nobody asks for here: no row is encoded and no statement applied."""

    def close(self) -> None:
        """Nothing is open."""


class MemoryTokens:
    """The capture in memory, taken over as often as one likes."""

    def __init__(self, publisher: MemoryPublisher, begin: BinlogPosition = FIRST) -> None:
        self._publisher = publisher
        self.opened: list[PublishToken] = []
        if not publisher.records:
            self._capture(None, CaptureRecord(begin, 1, 0)).advance(begin)

    def newest(self) -> CaptureRecord | None:
        return committed_record(self._publisher)

    def open(self, publish_token: PublishToken) -> OpenCapture:
        record = self.newest()
        assert record is not None
        self.opened.append(publish_token)
        return self._capture(publish_token, record)

    def end(self, publish_token: PublishToken) -> None:
        capture = self.open(publish_token)
        capture.advance(capture.position)

    def on_top_of(self, base: Position, position: Position) -> Position:
        return on_top_of(binlog_position(base), binlog_position(position))

    def _capture(self, publish_token: PublishToken | None, record: CaptureRecord) -> OpenCapture:
        table_catalog, statements = cast("TableCatalog", Closing()), cast("Replay", Closing())
        parts = CaptureParts(self._publisher, table_catalog, statements, "schemas")
        return OpenCapture(parts, 1, record.position, 0, dict(record.stopped), "", publish_token)


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

    def confirm(self, position: Position) -> None:
        """Keep nothing."""

    def close(self) -> None:
        """Nothing is open."""


def committed(publisher: MemoryPublisher) -> CaptureRecord:
    return CaptureRecord.from_mapping(publisher.records[-1])


def rows(begin: BinlogPosition, end: BinlogPosition) -> Publication:
    return Publication((), begin, end, 0, {})


def range_of(number: int, count: int) -> BacklogSlice:
    return BacklogSlice("plan", number, BEGINS[number], number == count - 1)


def ahead_of(parts: Iterable[SlicePart]) -> ReadAhead:
    return ReadAhead(iter(parts), 1 << 20)


def carry(publish_tokens: MemoryTokens, slices: Sequence[Iterable[SlicePart]]) -> list[SlicePublished | SliceDropped]:
    count = len(slices)
    return [
        carry_slice(range_of(number, count), ahead_of(parts), publish_tokens, epoch=1)
        for number, parts in enumerate(slices)
    ]


def test_ranges_are_published_in_order(publisher: MemoryPublisher) -> None:
    slices: list[list[SlicePart]] = [[SliceEnded(SECOND)], [rows(SECOND, THIRD), SliceEnded(THIRD)]]

    carried = carry(MemoryTokens(publisher), slices)

    assert carried == [SlicePublished(SECOND, 0, 0, goes_on=True), SlicePublished(THIRD, 1, 0, goes_on=False)]
    assert committed(publisher).position == THIRD


def test_behind_a_file_that_leaves_something_prepared_nothing_is_published(publisher: MemoryPublisher) -> None:
    end = BinlogPosition(SECOND.file, SECOND.offset, prepared=(PREPARED,))
    slices: list[list[SlicePart]] = [[SliceEnded(end)], [rows(SECOND, THIRD), BROKEN]]

    carried = carry(MemoryTokens(publisher), slices)

    assert carried[1] == SliceDropped(SECOND)
    assert committed(publisher).position == end


def test_gtids_that_no_file_lists_stay_in_the_position(publisher: MemoryPublisher) -> None:
    publish_tokens = MemoryTokens(publisher, replace(FIRST, gtids=f"{UUID}:1-1000"))

    carry(publish_tokens, [[SliceEnded(replace(SECOND, gtids=f"{UUID}:1001-1005"))]])

    assert committed(publisher).position == replace(SECOND, gtids=f"{UUID}:1-1005")


def test_a_range_that_cannot_be_read_on_is_published_up_to_there(publisher: MemoryPublisher) -> None:
    publish_tokens = MemoryTokens(publisher)
    carry_slice(range_of(0, 3), ahead_of([SliceEnded(SECOND)]), publish_tokens, epoch=1)

    with pytest.raises(LogError, match="broken"):
        carry_slice(range_of(1, 3), ahead_of([rows(SECOND, THIRD), BROKEN]), publish_tokens, epoch=1)
    third = carry_slice(range_of(2, 3), ahead_of([SliceEnded(THIRD)]), publish_tokens, epoch=1)

    assert committed(publisher).position == THIRD
    assert third == SliceDropped(THIRD)


def test_an_error_of_the_log_is_the_last_part_of_a_range() -> None:
    follower = LogFollower(cast("TableCatalog", None), {}, FIRST, Pace(1.0), BinlogReading(FIRST))

    parts = list(read_slice(BreakingStream([LogAdvanced(SECOND)]), follower, {}))

    assert parts == [BROKEN]


def test_a_table_that_stops_is_committed_with_what_lacks_its_rows(publisher: MemoryPublisher) -> None:
    with pytest.raises(LogError, match="broken"):
        carry(MemoryTokens(publisher), [[TablesStopped(STOPPED), rows(FIRST, SECOND), BROKEN]])

    record = committed(publisher)
    assert (record.position, record.stopped) == (SECOND, STOPPED)


def test_behind_a_file_in_which_a_table_stopped_nothing_is_published(publisher: MemoryPublisher) -> None:
    slices: list[list[SlicePart]] = [
        [TablesStopped(STOPPED), SliceEnded(SECOND)],
        [rows(SECOND, THIRD), SliceEnded(THIRD)],
    ]

    carry(MemoryTokens(publisher), slices)

    record = committed(publisher)
    assert (record.position, record.stopped) == (SECOND, STOPPED)


def test_a_range_that_waits_reads_on_and_opens_nothing(publisher: MemoryPublisher) -> None:
    publish_tokens = MemoryTokens(publisher)
    waiting: list[SlicePublished | SliceDropped] = []

    def wait() -> None:
        waiting.append(
            carry_slice(range_of(1, 2), ahead_of([rows(SECOND, THIRD), SliceEnded(THIRD)]), publish_tokens, epoch=1)
        )

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(0.2)
    assert (thread.is_alive(), publish_tokens.opened, committed(publisher).position) == (True, [], FIRST)
    carry_slice(range_of(0, 2), ahead_of([rows(FIRST, SECOND), SliceEnded(SECOND)]), publish_tokens, epoch=1)
    thread.join(10)

    assert waiting == [SlicePublished(THIRD, 1, 0, goes_on=False)]
    assert [publish_token.number for publish_token in publish_tokens.opened] == [0, 1]


def test_who_reads_ahead_stops_where_so_much_waits() -> None:
    part = Publication([Messages("t", [b"k"], [b"v" * 999], [1])], FIRST, SECOND, 0, {})
    ahead = ReadAhead(iter([part, part, part, SliceEnded(SECOND)]), 1500)

    read = [ahead.read_on() for _ in range(4)]

    assert read == [True, True, False, False]
    assert list(ahead.take()) == [join([part, part]), part, SliceEnded(SECOND)]


def test_publications_that_wait_are_joined_and_count_as_both(publisher: MemoryPublisher) -> None:
    first = Publication([Messages("t", [b"1"], [b"v"], [1])], FIRST, SECOND, 5, {"shop.t": (1, 5), "shop.u": (2, 3)})
    second = Publication([Messages("t", [b"2"], [b"w"], [2])], SECOND, THIRD, 0, {"shop.t": (4, 7)})
    ahead = ahead_of([first, second, SliceEnded(THIRD)])
    while ahead.read_on():
        pass

    carry_slice(range_of(0, 1), ahead, MemoryTokens(publisher), epoch=1)

    record = CaptureRecord.from_mapping(publisher.records[-2])
    assert (record.position, record.timestamp_ms) == (THIRD, 5)
    assert record.rows == {"shop.t": (5, 7), "shop.u": (2, 3)}
    assert publisher.committed == [b"v", b"w"]


def test_a_range_that_begins_elsewhere_than_the_capture_stands_publishes_nothing(publisher: MemoryPublisher) -> None:
    carried = carry(MemoryTokens(publisher, SECOND), [[rows(FIRST, SECOND), SliceEnded(SECOND)], [SliceEnded(THIRD)]])

    assert carried == [SliceDropped(FIRST), SliceDropped(SECOND)]
    assert committed(publisher).position == SECOND


def test_nothing_is_published_when_a_newer_instance_is_there(publisher: MemoryPublisher) -> None:
    publish_tokens = MemoryTokens(publisher)

    carried = carry_slice(range_of(0, 1), ahead_of([SliceEnded(SECOND)]), publish_tokens, epoch=0)

    assert (carried, publish_tokens.opened) == (SliceDropped(FIRST), [])


class RefusingTokens(MemoryTokens):
    """A capture whose first publication in a turn gets lost."""

    def open(self, publish_token: PublishToken) -> OpenCapture:
        capture = super().open(publish_token)
        capture.parts.publisher.publish = self._refuse  # type: ignore[method-assign, assignment]
        return capture

    def end(self, publish_token: PublishToken) -> None:
        del self._publisher.publish
        capture = super().open(publish_token)
        capture.advance(capture.position)

    def _refuse(self, *_: object) -> None:
        message = "away"
        raise UnavailableError(message, "wait")


def test_what_cannot_be_published_ends_every_turn_and_moves_no_position(publisher: MemoryPublisher) -> None:
    publish_tokens = RefusingTokens(publisher)

    with pytest.raises(UnavailableError, match="away"):
        carry_slice(range_of(0, 2), ahead_of([rows(FIRST, SECOND), SliceEnded(SECOND)]), publish_tokens, epoch=1)
    second = carry_slice(range_of(1, 2), ahead_of([SliceEnded(THIRD)]), publish_tokens, epoch=1)

    assert second == SliceDropped(SECOND)
    assert (committed(publisher).position, committed(publisher).publish_token) == (
        FIRST,
        PublishToken("plan", 0, TokenState.OVER),
    )


def test_a_turn_that_may_have_passed_on_is_ended_by_nobody(publisher: MemoryPublisher) -> None:
    publish_tokens = RefusingTokens(publisher)

    with pytest.raises(UnavailableError, match="away"):
        carry_slice(range_of(0, 2), ahead_of([SliceEnded(SECOND)]), publish_tokens, epoch=1)

    assert committed(publisher).publish_token is None


@pytest.mark.parametrize(
    ("newest", "expected"),
    [
        (None, (Outlook.NOW, Outlook.LATER, Outlook.LATER)),
        (PublishToken("another", 1, TokenState.PASSED), (Outlook.NOW, Outlook.LATER, Outlook.LATER)),
        (PublishToken("plan", 0, TokenState.OPEN), (Outlook.NEVER, Outlook.LATER, Outlook.LATER)),
        (PublishToken("plan", 0, TokenState.PASSED), (Outlook.NEVER, Outlook.NOW, Outlook.LATER)),
        (PublishToken("plan", 1, TokenState.OPEN), (Outlook.NEVER, Outlook.NEVER, Outlook.LATER)),
        (PublishToken("plan", 1, TokenState.PASSED), (Outlook.NEVER, Outlook.NEVER, Outlook.NOW)),
        (PublishToken("plan", 0, TokenState.OVER), (Outlook.NEVER, Outlook.NEVER, Outlook.NEVER)),
    ],
)
def test_only_the_range_behind_one_that_ended_whole_has_its_turn(
    newest: PublishToken | None, expected: tuple[Outlook, ...]
) -> None:
    assert tuple(outlook(newest, "plan", number) for number in range(3)) == expected


@pytest.mark.parametrize(
    ("newest", "held"),
    [
        (None, False),
        (PublishToken("another", 0, TokenState.OPEN), False),
        (PublishToken("plan", 0, TokenState.PASSED), True),
        (OPEN, True),
        (PASSED, False),
        (OVER, False),
        (PublishToken("plan", 2, TokenState.OPEN), False),
    ],
)
def test_a_turn_is_ended_only_where_nobody_went_on(newest: PublishToken | None, *, held: bool) -> None:
    assert is_held(newest, OPEN) is held
