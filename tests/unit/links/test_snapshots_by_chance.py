"""Snapshots under live writes: whatever happens to them, the topic folded by key is the table."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.unit.links.snapshot_model import LINK, Capture, KilledError, Snapshots, request
from tests.unit.links.snapshot_source import Source, index_of

from penstock.core.publication import CaptureRecord
from penstock.core.snapshots import Method, SnapshotOptions, Wanted

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEYS = 24
_ROUNDS = 60
_EVENTS = (*("write",) * 3, *("carry",) * 2, *("step",) * 3, *("read",) * 2, "ask", "want", "kill", "stop", "cascade")
_FLOW = ("write", *("step",) * 3, *("read",) * 2, *("carry",) * 2)
_CHUNKS = (*_FLOW * 3, "ask", "ask", "want", "kill", "resume")


@dataclass
class World:
    """What happens by chance, and what must be true after it."""

    random: Random
    capture: Capture
    asked: int = 0
    may_stop: bool = True
    cascades: bool = False
    methods: tuple[Method, ...] = tuple(Method)
    events: tuple[str, ...] = _EVENTS

    def happen(self) -> None:
        capture, random = self.capture, self.random
        match random.choice(self.events):
            case "write":
                self.write()
            case "carry":
                capture.carry(random.randint(1, 3))
            case "step":
                capture.step(looks=random.random() < 0.5)
            case "read":
                capture.reader.failures = random.choice((0, 0, 0, 1))
                capture.reader.rows_fitting = random.choice((1, 2, 1000))
                capture.reader.is_reordered = random.random() < 0.03
                capture.read_one(random.randint(0, 9))
            case "ask":
                self.ask()
            case "want":
                self.want()
            case "resume":
                self.resume()
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

    def resume(self) -> None:
        for snapshot in self.capture.snapshots.all(is_open=True):
            self.capture.snapshots.want(snapshot.id, Wanted.RUN)

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
            begins = not keys and self.random.random() < 0.5
            method = Method.READ_ONLY if keys else self.random.choice(self.methods)
            link = LINK if begins and method is not Method.FULL_LOCK and self.random.random() < 0.6 else ""
            rows = self.random.randint(1, 4)
            options = SnapshotOptions(keys=keys, chunk_rows=rows, full_refresh=begins, method=method, link=link)
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
        state, topic = self.capture.source.states[index_of(record.position)], self.capture.topic
        under_way = [progress for progress in record.snapshots.values() if not progress.is_done]
        is_filled = any(progress.fills for progress in under_way)
        require(topic.folded, state, is_part=is_filled)
        if topic.of_link is not None:
            is_part = is_filled or any(progress.link == LINK for progress in under_way)
            require(topic.of_link, state, is_part=is_part)

    def finish(self) -> None:
        """Let everything that is asked for come to its end."""
        capture = self.capture
        self.resume()
        for _ in range(200):
            capture.reader.failures, capture.reader.is_reordered = 0, False
            capture.step()
            capture.read()
            capture.carry(100)
            if not capture.snapshots.all(is_open=True) and not capture.refreshers.is_busy:
                break
        assert not capture.snapshots.all(is_open=True)


def require(folded: Mapping[int, int | None], state: Mapping[int, int], *, is_part: bool) -> None:
    """What is folded is the table, or a part of it."""
    if is_part:
        # Of a row that was touched and not read yet nobody knows the value.
        assert {key: value for key, value in folded.items() if value is not None}.items() <= state.items()
        assert folded.keys() <= state.keys()
    else:
        assert folded == state


@settings(deadline=None, phases=(Phase.generate,))
@given(st.integers(0, 2**32), st.booleans())
def test_whatever_happens_the_topic_folded_by_key_is_the_table(seed: int, cascades: bool) -> None:  # noqa: FBT001
    source = Source(dict.fromkeys(range(0, _KEYS, 2), 0))
    world = World(Random(seed), Capture(source, Snapshots()), cascades=cascades)  # noqa: S311 - a test

    live_in(world, _ROUNDS)


@settings(max_examples=settings().max_examples // 4, deadline=None, phases=(Phase.generate,))
@given(st.integers(0, 2**32))
def test_in_whatever_order_chunks_of_a_table_are_read_the_topic_folded_by_key_is_the_table(seed: int) -> None:
    random, source = Random(seed), Source(dict.fromkeys(range(_KEYS), 0))  # noqa: S311 - a test
    capture = Capture(source, Snapshots(), at_once=random.randint(2, 4))
    world = World(random, capture, methods=(Method.READ_ONLY,), events=_CHUNKS)

    live_in(world, 3 * _ROUNDS)


def live_in(world: World, rounds: int) -> None:
    """Let much happen; in the end all that is asked for comes to its end, and the topic is the table."""
    for _ in range(rounds):
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
