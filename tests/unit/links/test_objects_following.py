"""The S3 spolt while little comes: rounds without micro-batches, and when it hands over."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import pytest
from tests.unit.links.conftest import SCHEMAS

from penstock.jobs.link import PlannedWork
from penstock.jobs.objects_following import ObjectsFollower
from penstock.links.objects.followed_log import FollowedLog
from penstock.links.objects.plan import ObjectsPlanner
from penstock.links.objects.record import ObjectsRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tests.unit.links.conftest import MemoryTopics

    from penstock.links.objects.plan import TopicRange

TOPIC = "db.shop.users"
TIMELINES = "timelines"
SECONDS = 20.0
MUCH = 100


@dataclass(frozen=True, slots=True)
class Read:
    """A task that reads the ranges it was given, and says which messages they have."""

    log: FollowedLog
    ranges: tuple[TopicRange, ...]

    def run(self) -> Iterator[object]:
        asked = {(r.topic, r.partition): (r.start, r.end) for r in self.ranges}
        found: dict[tuple[str, int], list[int]] = {place: [] for place in asked}
        for place, fetched in self.log.read_together(asked, 1 << 20):
            found[place] += fetched.offsets
        assert found == {place: list(range(*limits)) for place, limits in asked.items()}
        yield from self.ranges


class SmallPlanner:
    """The real planner of ranges, with one task for all of them."""

    def __init__(self, log: FollowedLog) -> None:
        self._log = log
        self._planner = ObjectsPlanner(log, SCHEMAS, TIMELINES)
        self._record = ObjectsRecord()
        self._ranges: tuple[TopicRange, ...] = ()

    def fix_end(self) -> None:
        """Nobody asks for an end here."""

    def know(self, record: ObjectsRecord) -> None:
        self._record = record

    def has_work(self) -> bool:
        self._ranges = tuple(self._planner.plan(self._record).ranges)
        return bool(self._ranges)

    def is_much(self) -> bool:
        return sum(r.end - r.start for r in self._ranges) >= MUCH

    def plan(self) -> Sequence[Read]:
        return [Read(self._log, self._ranges)]

    def starts(self) -> Mapping[tuple[str, int], int]:
        return self._planner.starts(self._record)


class MemoryTail:
    """Follows topics in memory."""

    def __init__(self, topics: MemoryTopics, starts: Mapping[tuple[str, int], int]) -> None:
        self._topics = topics
        self._places = dict(starts)

    def include(self, starts: Mapping[tuple[str, int], int]) -> None:
        self._places = {**starts, **self._places}

    def take(self, messages_max: int, wait_seconds: float) -> Sequence[tuple[tuple[str, int], int, bytes]]:
        waited = threading.Event()
        for _ in range(max(1, int(wait_seconds / 0.01))):
            found: list[tuple[tuple[str, int], int, bytes]] = []
            for place, start in self._places.items():
                values = self._topics.values[place]
                found += [(place, offset, value) for offset, value in list(enumerate(values))[start:]]
                self._places[place] = len(values)
            if found or not wait_seconds:
                return found[:messages_max]
            waited.wait(0.01)
        return []

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Following:
    """A follower in a thread, what it took, and its end."""

    topics: MemoryTopics
    pace_seconds: float = 0.0
    fails: BaseException | None = None
    rounds: list[list[tuple[int, int]]] = field(default_factory=list)
    raised: BaseException | None = None
    ended: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)
    _record: ObjectsRecord = field(default_factory=ObjectsRecord)
    _taken: threading.Condition = field(default_factory=threading.Condition)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    def await_offset(self, offset: int) -> None:
        with self._taken:
            assert self._taken.wait_for(lambda: self._read_to() >= offset, SECONDS)

    def _read_to(self) -> int:
        return self._record.places.get((TOPIC, 0), (0, 0))[1]

    def _take(self, outcomes: Iterable[object]) -> None:
        if self.fails is not None:
            raise self.fails
        ranges: list[TopicRange] = list(outcomes)  # type: ignore[arg-type]  # what the tasks here yield
        with self._taken:
            self.rounds.append([(r.start, r.end) for r in ranges])
            self._record = ObjectsRecord(places={(r.topic, r.partition): (r.end, r.end) for r in ranges})
            self._taken.notify_all()

    def _run(self) -> None:
        log = FollowedLog(self.topics, lambda starts: MemoryTail(self.topics, starts))
        planner = SmallPlanner(log)
        follower = ObjectsFollower(planner, log, lambda: self._record, self.pace_seconds)
        try:
            follower.follow(PlannedWork("topics", lambda: planner, self._take), self.stopping.wait)
        except ValueError as error:
            self.raised = error
        self.ended.set()


@pytest.fixture
def filled(topics: MemoryTopics) -> MemoryTopics:
    """A table that was announced, and three messages in its topic."""
    topics.announce(1, TOPIC)
    topics.fill(TOPIC, 3)
    return topics


def test_what_is_there_and_what_comes_while_it_waits_is_carried_once_and_in_order(filled: MemoryTopics) -> None:
    with Following(filled) as following:
        following.await_offset(3)
        for more in range(5):
            filled.fill(TOPIC, 2)
            following.await_offset(5 + 2 * more)

    ranges = [each for ranges in following.rounds for each in ranges]
    assert ranges[0][0] == 0
    assert [start for start, _ in ranges[1:]] == [end for _, end in ranges[:-1]]
    assert ranges[-1][1] == 13


def test_a_table_that_begins_while_it_waits_is_carried_too(topics: MemoryTopics) -> None:
    with Following(topics) as following:
        assert not following.ended.wait(0.1)
        topics.announce(1, TOPIC)
        topics.fill(TOPIC, 1)
        following.await_offset(1)
        topics.fill(TOPIC, 1)
        following.await_offset(2)


def test_much_at_once_is_left_to_whoever_runs_tasks(filled: MemoryTopics) -> None:
    with Following(filled) as following:
        following.await_offset(3)
        filled.fill(TOPIC, MUCH)
        assert following.ended.wait(SECONDS)

    assert following.rounds == [[(0, 3)]]


def test_changes_gather_for_as_long_as_its_pace(filled: MemoryTopics) -> None:
    with Following(filled, pace_seconds=60.0) as following:
        following.await_offset(3)
        filled.fill(TOPIC, 2)
        assert not following.ended.wait(0.3)

    assert following.rounds == [[(0, 3)]]


def test_what_a_round_raises_ends_it(filled: MemoryTopics) -> None:
    fault = ValueError("of the target")

    with Following(filled, fails=fault) as following:
        assert following.ended.wait(SECONDS)

    assert following.raised is fault
