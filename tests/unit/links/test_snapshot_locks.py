"""Snapshots that lock their table: when it is locked, and when it is let go of."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

import pytest
from tests.unit.links.snapshot_model import Capture, Snapshots, request
from tests.unit.links.snapshot_source import TABLE, Reader, Source

from penstock.core.errors import UnavailableError
from penstock.core.snapshots import Method, SnapshotOptions, Status, Wanted
from penstock.links.capture.follow import LogFollower, Pace
from penstock.links.capture.live import LiveCapture
from penstock.links.capture.mysql.log_reading import BinlogReading
from penstock.links.capture.refresher_state import Known
from penstock.links.capture.refreshers import Refreshers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.positions import Position
    from penstock.ports.log import LogStream


def test_rows_that_come_behind_a_lock_that_was_lost_do_not_count() -> None:
    capture = Capture(Source({key: key for key in range(7)}), Snapshots())
    capture.snapshots.add(request(1, SnapshotOptions(chunk_rows=1, method=Method.FULL_LOCK)))
    for _ in range(4):
        capture.step()
        capture.read()
    assert capture.topic.folded == {0: 0}

    capture.source.is_locked = False
    capture.source.write({5: 99})
    capture.carry(1)
    found = []
    for _ in range(12):
        capture.step()
        capture.read()
        found.append(capture.topic.folded.get(5, 99))

    assert set(found) == {99}
    assert capture.topic.folded == capture.source.rows


@pytest.mark.parametrize("steps", [2, 3, 4])
def test_a_table_stays_locked_when_the_snapshot_of_another_that_waits_for_a_lock_is_cancelled(steps: int) -> None:
    options = SnapshotOptions(chunk_rows=2, method=Method.FULL_LOCK)
    capture = Capture(Source({key: key for key in range(7)}), Snapshots(), at_once=1)
    capture.snapshots.add(request(1, options))
    capture.snapshots.add(waiting := request(2, options, "shop.lines"))
    for _ in range(steps):
        capture.step()
        capture.read()
    assert capture.source.is_locked

    capture.snapshots.want(waiting.id, Wanted.CANCEL)
    capture.step()
    capture.read()

    assert capture.source.is_locked
    for _ in range(9):
        capture.step()
        capture.read()
    assert [each.status for each in capture.snapshots.all()] == [Status.DONE, Status.CANCELLED]
    assert len(capture.topic.schema_changes) == 1
    assert capture.topic.folded == capture.source.rows
    assert not capture.source.is_locked


def test_a_table_is_locked_when_the_capture_is_near_the_end_of_the_log_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    capture, now = Capture(Source({key: key for key in range(7)}), Snapshots(), at_once=1), 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    capture.snapshots.add(asked := request(1, SnapshotOptions(chunk_rows=2, method=Method.FULL_LOCK)))

    for number in range(15):
        capture.source.write({number: 5})
        capture.step()
        capture.read()
        capture.step()
        assert not capture.source.is_locked
        now += 60.0
        capture.carry(1)
        capture.step()
    found = capture.snapshots.known[asked.id]
    for _ in range(12):
        capture.step()
        capture.read()

    assert (found.status, found.error) == (
        Status.RUNNING,
        "shop.orders is not locked yet: the capture is about 60 seconds behind the source",
    )
    assert capture.snapshots.known[asked.id].status is Status.DONE
    assert capture.topic.folded == capture.source.rows


def test_every_reader_lets_go_of_the_source_whatever_goes_wrong_with_another() -> None:
    capture = Capture(Source({1: 1}), Snapshots())
    broken = BrokenReader(capture.source)
    refreshers = Refreshers(
        capture.capture,
        capture.snapshots,
        [(reader, capture._submit) for reader in (broken, capture.reader, broken)],
        Known(3, 3),
    )
    capture.reader.lock(TABLE, capture.source.at(0))

    with pytest.raises(UnavailableError):
        refreshers.close()

    assert not capture.source.is_locked


class BrokenReader(Reader):
    """Its connection is gone."""

    def close(self) -> None:
        message = "the source is away"
        raise UnavailableError(message, "try again")


def test_a_lock_that_is_just_taken_when_the_refreshers_close_is_let_go_of() -> None:
    capture = Capture(Source({key: key for key in range(7)}), Snapshots(), at_once=1)
    capture.snapshots.add(request(1, SnapshotOptions(chunk_rows=2, method=Method.FULL_LOCK)))
    capture.step()
    capture.read()
    capture.step()

    capture.refreshers.close()
    capture.read()

    assert not capture.source.is_locked
    for _ in range(12):
        capture.step()
        capture.read()
    assert [each.status for each in capture.snapshots.all()] == [Status.DONE]
    assert capture.topic.folded == capture.source.rows


class QuietStream:
    """A log in which nothing happens."""

    def read(self, wait_seconds: float) -> Sequence[object]:
        time.sleep(wait_seconds)
        return []

    def confirm(self, position: Position) -> None:
        """Nothing is kept."""


@pytest.mark.parametrize("is_recalled", [True, False])
def test_a_lock_outlives_the_time_between_tail_slices_only_if_the_next_one_comes(*, is_recalled: bool) -> None:
    capture = Capture(Source({1: 1}), Snapshots())
    position = capture.capture.position
    follower = LogFollower(capture.capture.parts.table_catalog, {}, position, Pace(0.0), BinlogReading(position))
    live = LiveCapture(capture.capture, cast("LogStream", QuietStream()), follower, capture.refreshers)
    capture.reader.lock(TABLE, position)

    live.go_on(60.0 if is_recalled else 0.0)
    if is_recalled:
        live._take_back()
    else:
        assert live._bridge is not None
        live._bridge.join()

    assert capture.source.is_locked is is_recalled
