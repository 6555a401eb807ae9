"""Snapshots that have ended, while the state database can be read and not be written to: they do not begin again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from tests.unit.links.snapshot_model import Capture, Snapshots, request
from tests.unit.links.snapshot_source import Reader, Source

from penstock.core.errors import UnavailableError, UsageError
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.snapshots import SnapshotOptions, Status

if TYPE_CHECKING:
    from penstock.ports.snapshots import Chunk, ChunkOrder, Snapshot


@dataclass
class FullList(Snapshots):
    """A `SnapshotList` that can be read, and not always be written to."""

    is_full: bool = True

    def tell(self, snapshot: Snapshot) -> None:
        if self.is_full:
            message = "the disk of the state database is full"
            raise UnavailableError(message, "make room")
        super().tell(snapshot)


class ReaderOfSpoiltRows(Reader):
    """Its second chunk cannot be read, whenever that is tried."""

    def read(self, order: ChunkOrder) -> Chunk:
        if order.cursor:
            message = "rows cannot be read"
            raise UsageError(message, "look at them")
        return super().read(order)


@pytest.mark.parametrize("full_refresh", [False, True])
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_snapshot_whose_end_cannot_be_told_is_not_begun_again(*, full_refresh: bool, is_killed: bool) -> None:
    capture = Capture(Source({1: 1, 2: 2, 3: 3}), snapshots := FullList())
    snapshots.add(asked := request(1, SnapshotOptions(full_refresh=full_refresh)))

    for _ in range(8):
        go_on(capture, 1)
        if is_killed and any(each.is_done for each in capture.capture.snapshots.values()):
            capture.start()

    assert kinds(capture) == [SchemaChangeKind.CREATE] * full_refresh
    assert len(capture.topic.places) == 3 + full_refresh
    assert capture.topic.folded == capture.source.rows
    snapshots.is_full = False
    go_on(capture, 1)
    assert (snapshots.known[asked.id].status, snapshots.known[asked.id].rows) == (Status.DONE, 3)
    assert not capture.capture.snapshots


def test_another_snapshot_begins_once_the_end_of_the_one_before_is_told() -> None:
    capture = Capture(Source({1: 1, 2: 2, 3: 3}), snapshots := FullList(), at_once=1)
    for number in (1, 2):
        asked = request(number, SnapshotOptions(full_refresh=True))
        snapshots.known[asked.id] = asked

    go_on(capture, 8)
    while_full = kinds(capture)
    snapshots.is_full = False
    go_on(capture, 8)

    assert while_full == [SchemaChangeKind.CREATE]
    assert kinds(capture) == [SchemaChangeKind.CREATE] * 2
    assert [each.status for each in snapshots.all()] == [Status.DONE, Status.DONE]


def test_a_snapshot_whose_failure_cannot_be_told_is_not_begun_again() -> None:
    capture = Capture(source := Source({key: key for key in range(5)}), snapshots := FullList())
    capture.reader = ReaderOfSpoiltRows(source)
    capture.start()
    snapshots.add(asked := request(1, SnapshotOptions(chunk_rows=2, full_refresh=True)))

    go_on(capture, 8)
    while_full = kinds(capture)
    snapshots.is_full = False
    go_on(capture, 2)

    assert while_full == kinds(capture) == [SchemaChangeKind.CREATE]
    told = snapshots.known[asked.id]
    assert (told.status, told.error, told.hint) == (Status.FAILED, "rows cannot be read", "look at them")


def go_on(capture: Capture, times: int) -> None:
    for _ in range(times):
        capture.step()
        capture.read()
        capture.step()


def kinds(capture: Capture) -> list[SchemaChangeKind]:
    return [each.kind for each in capture.topic.schema_changes]
