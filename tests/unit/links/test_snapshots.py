"""Snapshots of a capture: what is read and published, what is told of them, and how they end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.links.snapshot_model import LINK, Capture, Snapshots, TableRegistry, request
from tests.unit.links.snapshot_source import Reader, Source

from penstock.core.errors import PenstockError, SinkError, UnavailableError
from penstock.core.publication import CaptureRecord
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.snapshots import CANCELLED, Method, SnapshotOptions, Status, Wanted, Window, next_locked_rows
from penstock.links.capture import sendable
from penstock.links.large_messages import LargeMessages

if TYPE_CHECKING:
    from penstock.ports.objects import ObjectStore
    from penstock.ports.snapshots import Chunk, ChunkOrder


def test_a_row_that_changed_since_the_low_place_gives_way() -> None:
    window = Window()
    window.saw([b"b", b"x", None])

    assert window.unchanged([b"a", b"b", b"c"]) == [0, 2]
    assert not window.is_void


def test_a_snapshot_tells_of_its_first_chunk_at_once_whatever_was_told_just_before() -> None:
    capture = Capture(Source({key: key for key in range(6)}), Snapshots(), at_once=1)
    for asked in (request(number, SnapshotOptions(chunk_rows=5)) for number in (1, 2)):
        capture.snapshots.known[asked.id] = asked

    # Each has two chunks; then the second is at its first.
    for _ in range(4):
        capture.step()
        capture.read()
    capture.step()

    first, second = capture.snapshots.all()
    assert (first.status, first.rows) == (Status.DONE, 6)
    assert (second.status, second.rows, second.rows_expected) == (Status.RUNNING, 5, 6)
    assert second.started_at_ms > 0


def test_as_many_tables_are_read_at_once_as_there_are_readers_and_each_by_one() -> None:
    capture = Capture(Source({1: 1}), Snapshots(), at_once=2)
    for number, table in enumerate(("shop.orders", "shop.lines", "shop.users")):
        capture.snapshots.add(request(number, SnapshotOptions(), table))

    capture.step()

    reading = [each._reading.snapshot.table for each in capture.refreshers._refreshers if each._reading]
    assert reading == ["shop.orders", "shop.lines"]
    assert len(capture.pending) == 2


@pytest.mark.parametrize("method", Method)
def test_a_snapshot_of_any_method_reads_all_rows_and_lets_go_of_the_table(method: Method) -> None:
    capture = Capture(Source({key: key for key in range(7)}), Snapshots())
    capture.snapshots.add(request(1, SnapshotOptions(chunk_rows=2, method=method)))

    for _ in range(12):
        capture.step()
        capture.read()
        capture.carry(1)

    (snapshot,) = capture.snapshots.all()
    assert (snapshot.status, snapshot.rows) == (Status.DONE, 7)
    assert capture.topic.folded == capture.source.rows
    assert not capture.source.is_locked


def test_a_blackhole_snapshot_whose_first_chunk_has_to_come_again_reads_the_rest_of_the_rows_too() -> None:
    capture = Capture(Source({key: key for key in range(24)}), Snapshots())
    capture.reader = ReaderOfGrowingTable(capture.source)
    capture.start()
    capture.snapshots.add(asked := request(1, SnapshotOptions(chunk_rows=20, method=Method.BLACKHOLE)))

    for _ in range(12):
        capture.step()
        capture.read()
        capture.carry(1)

    assert capture.snapshots.known[asked.id].status is Status.DONE
    assert {change.key for changes in capture.source.log for change in changes} == set(range(24))


class ReaderOfGrowingTable(Reader):
    """Rows were added between the look at the end of the first chunk and its lock: it is to come again, up to a key."""

    has_grown = False

    def read(self, order: ChunkOrder) -> Chunk:
        chunk = super().read(order)
        if self.has_grown:
            return chunk
        self.has_grown = True
        return replace(chunk, cursor=order.cursor)


def test_a_paused_snapshot_does_not_keep_a_capture_busy_whose_table_waits_to_be_read_again() -> None:
    capture = Capture(Source({key: key for key in range(7)}), Snapshots())
    capture.snapshots.add(asked := request(1, SnapshotOptions(chunk_rows=2)))
    capture.snapshots.want(asked.id, Wanted.PAUSE)
    capture.source.cascade({1: 5})
    capture.carry(1)

    settle(capture)

    assert capture.capture.rereads
    assert not capture.refreshers.is_busy
    capture.snapshots.want(asked.id, Wanted.RUN)
    for _ in range(12):
        settle(capture)
    assert not capture.capture.rereads
    assert capture.topic.folded == capture.source.rows


def settle(capture: Capture) -> None:
    """Take the next step, and have every refresher look at what is asked for."""
    capture.step()
    capture.read()
    while any(each._look_at == 0.0 for each in capture.refreshers._refreshers):
        capture.refreshers.step(capture.source.at(capture.read_to))


def test_a_cancelled_snapshot_whose_table_cannot_be_stopped_now_ends_when_it_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    capture = Capture(Source({key: key for key in range(7)}), Snapshots(), at_once=1)
    capture.snapshots.add(asked := request(1, SnapshotOptions(chunk_rows=2, full_refresh=True)))
    for _ in range(3):
        capture.step()
        capture.read()

    def away(_: int) -> str:
        message = "the Schematizer is away"
        raise UnavailableError(message, "start it")

    capture.snapshots.want(asked.id, Wanted.CANCEL)
    with monkeypatch.context() as patched:
        patched.setattr(TableRegistry, "value_schema", lambda _, id_: away(id_))
        capture.step()
    assert not capture.snapshots.known[asked.id].status.has_ended
    assert asked.id in capture.capture.snapshots

    capture.step()

    assert capture.snapshots.known[asked.id].status is Status.CANCELLED
    record = CaptureRecord.from_mapping(capture.topic.record or {})
    assert "its snapshot was cancelled" in record.stopped[asked.table].error


def test_a_snapshot_in_the_place_of_another_begins_when_that_one_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    capture = Capture(Source({key: key for key in range(7)}), Snapshots(), at_once=2)
    options = SnapshotOptions(chunk_rows=2, full_refresh=True, link=LINK)
    capture.snapshots.add(old := request(1, options))
    for _ in range(3):
        capture.step()
        capture.read()
    capture.snapshots.add(new := request(2, options), in_place_of={old.id})

    def away(*_: object) -> None:
        message = "Kafka is away"
        raise UnavailableError(message, "start it")

    with monkeypatch.context() as patched:
        patched.setattr("penstock.links.capture.refresher.end_unread", away)
        capture.step()
        capture.step()
    read_meanwhile = [each._reading for each in capture.refreshers._refreshers if each._reading]
    for _ in range(9):
        capture.step()
        capture.read()

    assert read_meanwhile == []
    told = [(each.begins_for, each.ends_for) for each in capture.topic.schema_changes]
    assert told == [(LINK, ""), ("", LINK), (LINK, "")]
    ended = [(each.status, each.error) for each in capture.snapshots.all()]
    assert ended == [(Status.CANCELLED, CANCELLED), (Status.DONE, "")]
    assert capture.snapshots.known[new.id].rows == 7


def test_chunks_of_one_table_are_read_at_once_and_published_in_any_order() -> None:
    capture = Capture(Source({key: key for key in range(40)}), Snapshots(), at_once=3)
    capture.snapshots.add(asked := request(1, SnapshotOptions(chunk_rows=2)))
    capture.step()
    capture.read()
    capture.step()
    capture.step()
    assert len(capture.pending) == 3

    capture.read_one(2)
    capture.step()

    record = CaptureRecord.from_mapping(capture.topic.record or {})
    assert record.snapshots[asked.id].left == (("1", "5"), ("7", ""))
    assert set(capture.topic.folded) == set(range(40))


def test_who_goes_on_after_a_kill_reads_only_the_chunks_that_are_left() -> None:
    capture = Capture(Source({key: key for key in range(40)}), Snapshots(), at_once=3)
    capture.snapshots.add(request(1, SnapshotOptions(chunk_rows=2)))
    capture.step()
    capture.read()
    capture.step()
    capture.step()
    for number in (2, 1):
        capture.read_one(number)
        capture.step()
        capture.start()
        capture.step()

    for _ in range(40):
        capture.read()
        capture.step()

    (snapshot,) = capture.snapshots.all()
    assert (snapshot.status, snapshot.rows) == (Status.DONE, 40)


def test_a_snapshot_that_is_cancelled_while_others_read_chunks_of_it_stays_cancelled() -> None:
    capture = Capture(Source({key: key for key in range(40)}), Snapshots(), at_once=3)
    capture.snapshots.add(asked := request(1, SnapshotOptions(chunk_rows=2)))
    capture.step()
    capture.read()
    capture.step()
    capture.step()

    capture.snapshots.want(asked.id, Wanted.CANCEL)
    capture.read()
    first, *_ = capture.refreshers._refreshers
    first._look_at = 0.0
    for _ in range(3):
        capture.refreshers.step(capture.source.at(capture.read_to))
        capture.read()

    (snapshot,) = capture.snapshots.all()
    assert snapshot.status is Status.CANCELLED
    assert asked.id not in CaptureRecord.from_mapping(capture.topic.record or {}).snapshots


def test_readers_that_fail_together_count_as_one_failure() -> None:
    capture = Capture(Source({key: key for key in range(40)}), Snapshots(), at_once=4)
    capture.snapshots.add(asked := request(1, SnapshotOptions(chunk_rows=2)))
    for _ in range(2):
        capture.step()
        capture.read()
    capture.step()

    capture.reader.failures, tries = 1000, 0
    while not capture.snapshots.known[asked.id].status.has_ended:
        capture.step()
        assert len(capture.pending) == 4
        capture.read()
        capture.step()
        tries += 1

    assert capture.snapshots.known[asked.id].status is Status.FAILED
    assert tries == 10


@pytest.mark.parametrize(
    ("error", "status"),
    [(SinkError("denied", "grant it"), Status.FAILED), (UnavailableError("away", "start it"), Status.RUNNING)],
)
def test_a_large_row_that_cannot_be_kept_is_trouble_of_its_snapshot_alone(
    error: PenstockError, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = Capture(Source({key: key for key in range(3)}), Snapshots(), at_once=1)
    capture.snapshots.add(asked := request(1, SnapshotOptions(chunk_rows=2)))
    have_rows_too_large(capture, error, monkeypatch)

    for _ in range(2):
        capture.step()
        capture.read()
    capture.step()
    monkeypatch.undo()
    capture.source.write({7: 7})
    capture.carry(1)

    snapshot = capture.snapshots.known[asked.id]
    assert snapshot.status is status
    assert error.message in snapshot.error
    assert capture.topic.folded == capture.source.rows


def have_rows_too_large(capture: Capture, error: PenstockError, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the topic take no row, and the object store none of them."""

    def open_store() -> ObjectStore:
        raise error

    catalog = capture.capture.parts.table_catalog
    catalog.message_bytes_max = lambda _: 0
    catalog.large_messages = LargeMessages("pipe", "db", open_store)
    monkeypatch.setattr(sendable, "ASKED_BYTES", 0)


def test_a_second_table_takes_one_of_two_readers_of_the_first() -> None:
    capture = Capture(Source({key: key for key in range(40)}), Snapshots(), at_once=2)
    capture.snapshots.add(request(1, SnapshotOptions(chunk_rows=2)))
    capture.step()
    capture.read()
    capture.step()
    capture.snapshots.add(request(2, SnapshotOptions(), "shop.lines"))

    capture.step()
    capture.read_one(0)
    capture.step()

    reading = [each._reading.snapshot.table for each in capture.refreshers._refreshers if each._reading]
    assert sorted(reading) == ["shop.lines", "shop.orders"]


def test_a_copy_that_does_not_come_in_the_log_ends_its_snapshot() -> None:
    capture = Capture(Source({1: 1}), Snapshots())
    capture.snapshots.add(request(1, SnapshotOptions(method=Method.BLACKHOLE)))
    capture.step()
    capture.read()
    capture.source.log[-1].clear()

    capture.carry(1)
    capture.step()

    (snapshot,) = capture.snapshots.all()
    assert snapshot.status is Status.FAILED
    assert "its log has none of them" in snapshot.error


@given(st.integers(1, 5000), st.floats(0, 1e5), st.integers(10, 10_000), st.integers(1, 100_000))
def test_rows_under_a_lock_shrink_at_once_and_grow_slowly(rows: int, took_ms: float, lock_ms: int, most: int) -> None:
    found = next_locked_rows(rows, took_ms, lock_ms, most)

    assert 1 <= found <= most
    assert found <= 2 * rows
    if took_ms > lock_ms:
        assert found <= max(1, rows / 2)


def test_a_server_that_takes_half_the_limit_for_one_row_is_not_read_row_by_row() -> None:
    rows, copied = 200, []
    for took_ms in [150, 120, 230, 110, 190] * 20:
        copied.append(rows)
        rows = next_locked_rows(rows, took_ms, lock_ms=200, rows_max=4000)

    assert sum(copied[20:]) > 10 * len(copied[20:])


def test_a_snapshot_for_one_link_that_ends_early_tells_that_link_alone_and_stops_nothing() -> None:
    capture = Capture(Source({key: key for key in range(7)}), Snapshots())
    capture.snapshots.add(request(1, SnapshotOptions(chunk_rows=2, full_refresh=True, link=LINK)))
    for _ in range(3):
        capture.step()
        capture.read()
    (begun,) = capture.snapshots.all()

    capture.snapshots.want(begun.id, Wanted.CANCEL)
    capture.step()

    assert (begun.status, capture.snapshots.all()[0].status) == (Status.RUNNING, Status.CANCELLED)
    told = [(each.kind, each.begins_for, each.ends_for) for each in capture.topic.schema_changes]
    assert told == [(SchemaChangeKind.SCHEMA, LINK, ""), (SchemaChangeKind.SCHEMA, "", LINK)]
    assert (capture.capture.stopped, capture.topic.folded) == ({}, capture.source.rows)


def test_a_table_that_has_stopped_does_not_begin_for_one_link_alone() -> None:
    capture = Capture(Source({1: 1}), Snapshots())
    capture.stop_table()
    capture.snapshots.add(request(1, SnapshotOptions(full_refresh=True, link=LINK)))

    for _ in range(3):
        capture.step()
        capture.read()

    (ended,) = capture.snapshots.all()
    assert (ended.status, capture.topic.schema_changes) == (Status.FAILED, [])
    assert "without --link" in ended.hint
