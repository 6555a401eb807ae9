"""Snapshots under live writes: whatever happens to them, the topic folded by key is the table."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.unit.links.snapshot_model import Capture, KilledError, Snapshots, TableRegistry, request
from tests.unit.links.snapshot_source import Source, index_of

from penstock.core.errors import UnavailableError
from penstock.core.publication import CaptureRecord
from penstock.core.snapshots import Method, SnapshotOptions, Status, Wanted, Window, next_locked_rows

_KEYS = 12
_ROUNDS = 60


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


@dataclass
class World:
    """What happens by chance, and what must be true after it."""

    random: Random
    capture: Capture
    asked: int = 0
    may_stop: bool = True
    cascades: bool = False

    def happen(self) -> None:
        capture, random = self.capture, self.random
        match random.choice(
            (
                "write",
                "write",
                "write",
                "carry",
                "carry",
                "step",
                "step",
                "step",
                "read",
                "read",
                "ask",
                "want",
                "kill",
                "stop",
                "cascade",
            )
        ):
            case "write":
                self.write()
            case "carry":
                capture.carry(random.randint(1, 3))
            case "step":
                capture.step()
            case "read":
                capture.reader.failures = random.choice((0, 0, 0, 1))
                capture.read()
            case "ask":
                self.ask()
            case "want":
                self.want()
            case "kill":
                self.kill()
            case "cascade":
                self.cascade()
            case _:
                self.stop()

    def write(self) -> None:
        """Write rows, or touch some that stay as they are."""
        if self.waits_for_lock():
            return
        keys = self.random.sample(range(_KEYS), self.random.randint(1, 3))
        if self.random.random() < 0.3:
            self.capture.source.touch(keys)
        else:
            self.capture.source.write({key: self.random.choice((None, self.random.randint(0, 99))) for key in keys})

    def waits_for_lock(self) -> bool:
        """Whether nothing can be written now: into a locked table only where the lock is lost, now and then."""
        if self.capture.source.is_locked and self.random.random() < 0.7:
            return True
        self.capture.source.is_locked = False
        return False

    def want(self) -> None:
        """Pause, cancel or let go on what is under way."""
        for snapshot in self.capture.snapshots.all(is_open=True):
            wanted = self.random.choice((Wanted.PAUSE, Wanted.RUN, Wanted.RUN, Wanted.CANCEL))
            self.capture.snapshots.want(snapshot.id, wanted)

    def stop(self) -> None:
        """Stop the table, now and then."""
        if self.may_stop and self.random.random() < 0.5:
            self.capture.stop_table()

    def cascade(self) -> None:
        """Change rows, or let them go, as a foreign key does."""
        if not self.cascades or self.waits_for_lock():
            return
        keys = self.random.sample(range(_KEYS), self.random.randint(1, 3))
        goes = self.random.random() < 0.4
        self.capture.source.cascade({key: None if goes else self.random.randint(100, 103) for key in keys})

    def ask(self) -> None:
        if not self.capture.snapshots.all(is_open=True):
            self.asked += 1
            keys = tuple(str(key) for key in self.random.sample(range(_KEYS), 5)) if self.random.random() < 0.25 else ()
            begins = not keys and self.random.random() < 0.25
            method = Method.READ_ONLY if keys else self.random.choice(list(Method))
            options = SnapshotOptions(
                keys=keys, chunk_rows=self.random.randint(1, 5), full_refresh=begins, method=method
            )
            self.capture.snapshots.add(request(self.asked, options))

    def kill(self) -> None:
        """End the process here, or on its way to tell what it has committed."""
        self.capture.snapshots.kills = True
        with suppress(KilledError):
            if self.random.random() < 0.5:
                self.capture.step()
        self.capture.snapshots.kills = False
        self.capture.start()

    def check(self) -> None:
        """What is committed is what the table was at the committed place; of what is being filled, a part."""
        record = CaptureRecord.from_mapping(self.capture.topic.record or {})
        if record.stopped:
            return
        if record.rereads or any(each.mends and not each.is_done for each in record.snapshots.values()):
            # It is known that some rows are not those of the source.
            return
        state, folded = self.capture.source.states[index_of(record.position)], self.capture.topic.folded
        if any(progress.fills and not progress.is_done for progress in record.snapshots.values()):
            # Of a row that was touched and not read yet nobody knows the value.
            assert {key: value for key, value in folded.items() if value is not None}.items() <= state.items()
            assert folded.keys() <= state.keys()
        else:
            assert folded == state

    def finish(self) -> None:
        """Let everything that is asked for come to its end."""
        capture = self.capture
        for snapshot in capture.snapshots.all(is_open=True):
            capture.snapshots.want(snapshot.id, Wanted.RUN)
        for _ in range(200):
            capture.reader.failures = 0
            capture.step()
            capture.read()
            capture.carry(100)
            if not capture.snapshots.all(is_open=True) and not capture.refreshers.is_busy:
                break
        assert not capture.snapshots.all(is_open=True)


@settings(max_examples=200, deadline=None, phases=(Phase.generate,))
@given(st.integers(0, 2**32), st.booleans())
def test_whatever_happens_the_topic_folded_by_key_is_the_table(seed: int, cascades: bool) -> None:  # noqa: FBT001
    source = Source(dict.fromkeys(range(0, _KEYS, 2), 0))
    world = World(Random(seed), Capture(source, Snapshots()), cascades=cascades)  # noqa: S311 - a test

    for _ in range(_ROUNDS):
        world.happen()
        world.check()
    world.finish()
    world.check()
    if world.capture.capture.stopped:
        world.capture.snapshots.add(request(999, SnapshotOptions(chunk_rows=3)))
        world.finish()
        world.check()

    assert not world.capture.capture.stopped
    assert world.capture.topic.folded == world.capture.source.rows
