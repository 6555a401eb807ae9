"""The time that a snapshot ran, by which it is told how long it still takes."""

from __future__ import annotations

import time

import pytest
from tests.unit.links.snapshot_model import Capture, Snapshots, request
from tests.unit.links.snapshot_source import Source

from penstock.core.errors import UnavailableError
from penstock.core.snapshots import SnapshotOptions, Wanted


class Clock:
    """A clock that goes on only when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


def read_chunk(capture: Capture, clock: Clock, seconds: float) -> None:
    """Begin a chunk, and publish it so many seconds later."""
    capture.step()
    clock.now += seconds
    capture.read()
    capture.step()


@pytest.mark.parametrize("ends", ["paused", "killed", "failed", "waits"])
def test_what_a_snapshot_waited_for_is_no_time_that_it_ran(clock: Clock, ends: str) -> None:
    capture = Capture(Source({key: key for key in range(40)}), Snapshots(), at_once=1)
    asked = request(1, SnapshotOptions(chunk_rows=5))
    capture.snapshots.add(asked)
    for _ in range(2):
        read_chunk(capture, clock, 3)

    if ends == "failed":
        capture.reader.failures = 1
        read_chunk(capture, clock, 0)
    elif ends == "waits":
        capture.reader.late = UnavailableError("db2 is 99 seconds behind its master", "wait")
        read_chunk(capture, clock, 0)
        capture.reader.late = None
    elif ends == "killed":
        capture.start()
    else:
        capture.snapshots.want(asked.id, Wanted.PAUSE)
        capture.step()
    clock.now += 3600
    capture.snapshots.want(asked.id, Wanted.RUN)
    for _ in range(2):
        read_chunk(capture, clock, 3)

    (snapshot,) = capture.snapshots.all()
    assert (snapshot.rows, snapshot.ran_ms) == (20, 12_000)


def test_chunks_that_are_read_side_by_side_take_their_time_once(clock: Clock) -> None:
    capture = Capture(Source({key: key for key in range(40)}), Snapshots(), at_once=2)
    capture.snapshots.add(request(1, SnapshotOptions(chunk_rows=5)))

    for _ in range(3):
        read_chunk(capture, clock, 2)

    (snapshot,) = capture.snapshots.all()
    assert snapshot.rows > 15
    assert snapshot.ran_ms == 6_000


def test_a_snapshot_that_begins_again_begins_with_its_time_too(clock: Clock) -> None:
    capture = Capture(Source({key: key for key in range(40)}), Snapshots(), at_once=1)
    capture.snapshots.add(request(1, SnapshotOptions(chunk_rows=5)))
    for _ in range(2):
        read_chunk(capture, clock, 3)

    capture.reader.is_reordered = True
    for _ in range(2):
        read_chunk(capture, clock, 3)

    (snapshot,) = capture.snapshots.all()
    assert (snapshot.rows, snapshot.ran_ms) == (5, 3_000)
