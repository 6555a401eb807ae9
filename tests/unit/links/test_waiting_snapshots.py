"""Snapshots that wait for a replica: for as long as it takes, but a run that is to end does not wait for them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, cast

from tests.unit.links.snapshot_model import Capture, Snapshots, request
from tests.unit.links.snapshot_source import Source
from tests.unit.links.test_snapshot_locks import QuietStream
from tests.unit.links.test_snapshots import settle

from penstock.core.errors import UnavailableError
from penstock.core.snapshots import SnapshotOptions, Status
from penstock.links.capture.follow import LogFollower, Pace
from penstock.links.capture.live import LiveCapture
from penstock.links.capture.mysql.log_reading import BinlogReading
from penstock.links.capture.refresher_state import Known
from penstock.links.capture.refreshers import Refreshers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ports.log import LogStream


def test_a_snapshot_that_waits_for_a_replica_says_so_and_goes_on_however_long_that_takes() -> None:
    capture = Capture(Source({key: key for key in range(7)}), Snapshots(), at_once=1)
    capture.snapshots.add(request(1, SnapshotOptions(chunk_rows=5)))
    capture.reader.late = UnavailableError("db2 is 99 seconds behind its master", "wait")
    for _ in range(30):
        capture.step()
        capture.read()
    (waiting,) = capture.snapshots.all()

    capture.reader.late = None
    for _ in range(4):
        capture.step()
        capture.read()

    (done,) = capture.snapshots.all()
    assert (waiting.status, waiting.rows, waiting.error) == (Status.RUNNING, 0, "db2 is 99 seconds behind its master")
    assert (done.status, done.rows, done.error) == (Status.DONE, 7, "")
    assert capture.topic.folded == capture.source.rows


def test_only_a_snapshot_that_waits_for_no_replica_keeps_a_capture_busy() -> None:
    capture = Capture(Source({key: key for key in range(7)}), Snapshots(), at_once=1)
    capture.snapshots.add(request(1, SnapshotOptions(chunk_rows=5)))
    capture.snapshots.add(request(2, SnapshotOptions(), "shop.gone"))
    capture.reader.late = UnavailableError("db2 is 99 seconds behind its master", "wait")

    seen = []
    for _ in range(4):
        settle(capture)
        seen.append((capture.refreshers.is_busy, *(each.status for each in capture.snapshots.all())))
    capture.source.cascade({1: 5})
    capture.carry(1)
    settle(capture)
    is_busy_by_reread = capture.refreshers.is_busy
    capture.reader.late = None
    settle(capture)
    settle(capture)
    settle(capture)
    goes_on = capture.refreshers.is_busy
    for _ in range(12):
        settle(capture)

    assert [is_busy for is_busy, *_ in seen] == [True, True, True, False]
    assert [statuses for _, *statuses in seen[1:]] == [
        [Status.RUNNING, Status.REQUESTED],
        [Status.RUNNING, Status.REQUESTED],
        [Status.RUNNING, Status.FAILED],
    ]
    assert (is_busy_by_reread, goes_on) == (False, True)
    assert capture.topic.folded == capture.source.rows
    assert not capture.refreshers.is_busy


class PatientStream(QuietStream):
    """A log in which nothing happens, which is read ten times a second at most, and not without end."""

    reads = 0

    def read(self, wait_seconds: float) -> Sequence[object]:
        self.reads += 1
        assert self.reads < 100
        return super().read(max(0.1, wait_seconds))


def test_a_tail_slice_ends_at_its_stop_though_a_snapshot_waits_which_says_so() -> None:
    capture = Capture(Source({1: 1}), Snapshots())
    capture.snapshots.add(asked := request(1, SnapshotOptions()))
    capture.reader.late = UnavailableError("db2 is 99 seconds behind its master", "wait")
    position = capture.capture.position
    follower = LogFollower(capture.capture.parts.table_catalog, {}, position, Pace(0.0), BinlogReading(position))
    with ThreadPoolExecutor(1) as threads:
        refreshers = Refreshers(capture.capture, capture.snapshots, [(capture.reader, threads.submit)], Known(1, 1))
        live = LiveCapture(capture.capture, cast("LogStream", PatientStream()), follower, refreshers)

        ended = live.run(3600.0, position)

    told = capture.snapshots.known[asked.id]
    assert ended.position == position
    assert (told.status, told.error) == (Status.RUNNING, "db2 is 99 seconds behind its master")
