"""Topics that are read at their ends: what a tail tells may be late, and is never taken for more than it is."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.links.conftest import SCHEMAS, MemoryTopics

from penstock.core.errors import PositionError
from penstock.links.objects.followed_log import FollowedLog
from penstock.links.objects.plan import ObjectsPlan, ObjectsPlanner
from penstock.links.objects.record import ObjectsRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TIMELINES = "timelines"
PARTITIONS = 2
MUCH = 1 << 20


class LateTail:
    """A tail that has brought what `seen` says, and no more, whatever there is."""

    def __init__(self, topics: MemoryTopics, seen: dict[tuple[str, int], int]) -> None:
        self._topics, self._seen = topics, seen
        self._places: dict[tuple[str, int], int] = {}

    def include(self, starts: Mapping[tuple[str, int], int]) -> None:
        self._places = {**starts, **self._places}

    def take(self, messages_max: int, wait_seconds: float) -> Sequence[tuple[tuple[str, int], int, bytes]]:
        del wait_seconds
        found = [
            (place, offset, self._topics.values[place][offset])
            for place, start in self._places.items()
            for offset in range(start, self._seen.get(place, 0))
        ][:messages_max]
        self._places |= {place: offset + 1 for place, offset, _ in found}
        return found

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class World:
    """One table's log in topics: the order of each row by place and offset, and what was carried."""

    topics: MemoryTopics = field(default_factory=MemoryTopics)
    seen: dict[tuple[str, int], int] = field(default_factory=dict)
    orders: dict[tuple[str, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    told: list[int] = field(default_factory=list)
    order: int = 0
    generation: int = -1
    record: ObjectsRecord = field(default_factory=ObjectsRecord)

    def __post_init__(self) -> None:
        self.log = FollowedLog(self.topics, self._open_tail)
        self.planner = ObjectsPlanner(self.log, SCHEMAS, TIMELINES)
        self.begin_topic()

    def _open_tail(self, starts: Mapping[tuple[str, int], int]) -> LateTail:
        tail = LateTail(self.topics, self.seen)
        tail.include(starts)
        return tail

    def begin_topic(self) -> None:
        self.order += 1
        before = f"t{self.generation}" if self.generation >= 0 else ""
        self.generation += 1
        self.told.append(self.order)
        self.topics.announce(self.order, f"t{self.generation}", follows=before, partitions=PARTITIONS)

    def add_row(self, partition: int) -> None:
        self.order += 1
        place = f"t{self.generation}", partition
        self.orders[place].append(self.order)
        self.topics.values[place].append(b"row %d" % self.order)

    def see(self, places: Sequence[tuple[str, int]]) -> None:
        self.seen.update({place: len(self.topics.values[place]) for place in places})

    def places(self) -> list[tuple[str, int]]:
        tables = [(f"t{number}", p) for number in range(self.generation + 1) for p in range(PARTITIONS)]
        return [(SCHEMAS, 0), (TIMELINES, 0), *tables]

    def round(self) -> ObjectsPlan:
        """Take what has come, plan, hold the plan against the log, read it, and commit it."""
        self.log.gather(0.0)
        plan = self.planner.plan(self.record)
        ends = {(r.topic, r.partition): r.end for r in plan.ranges}
        done = {place: ends.get(place, self.record.places.get(place, (0, 0))[1]) for place in self.places()}
        carried = [order for place, end in done.items() for order in self.orders[place][:end]]
        for topic_range in plan.ranges:
            known = [order for _, order, _ in topic_range.cuts]
            rows = self.orders[topic_range.topic, topic_range.partition][topic_range.start : topic_range.end]
            assert [told for told in self.told if told < max(rows)] == [told for told in known if told < max(rows)]
        for number in range(self.generation):
            before = [
                order for p in range(PARTITIONS) for order in self.orders[f"t{number}", p][done[f"t{number}", p] :]
            ]
            behind = [order for order in carried if order > self.told[number + 1]]
            assert not (before and behind)
        self._read(plan)
        places = {place: (end, end) for place, end in done.items() if end}
        self.record = ObjectsRecord(places=places, schemas_offset=plan.settled)
        self.log.follow(self.planner.starts(self.record))
        return plan

    def _read(self, plan: ObjectsPlan) -> None:
        asked = {(r.topic, r.partition): (r.start, r.end) for r in plan.ranges}
        found: dict[tuple[str, int], list[bytes]] = {place: [] for place in asked}
        for place, fetched in self.log.read_together(asked, MUCH):
            found[place] += fetched.values
        assert found == {place: self.topics.values[place][slice(*limits)] for place, limits in asked.items()}


Step = tuple[Literal["rows", "topic", "see", "round", "look"], int]
steps = st.lists(
    st.tuples(st.just("rows"), st.integers(0, 3))
    | st.tuples(st.just("see"), st.integers(0, 255))
    | st.tuples(st.just("round"), st.just(0))
    | st.tuples(st.sampled_from(["topic", "look"]), st.just(0)),
    max_size=40,
)


@given(steps)
def test_whatever_a_tail_has_brought_plans_keep_the_order_of_the_log_and_everything_arrives(steps: list[Step]) -> None:
    world = World()
    for kind, number in steps:
        match kind:
            case "rows":
                world.add_row(number % PARTITIONS)
            case "topic":
                world.begin_topic()
            case "see":
                world.see([place for index, place in enumerate(world.places()) if number >> (index % 8) & 1])
            case "look":
                world.log.look()
            case "round":
                world.round()
    world.log.look()
    world.round()
    world.round()

    carried = {place: end for place, (_, end) in world.record.places.items()}
    assert {place: len(orders) for place, orders in world.orders.items() if orders} == carried


def test_rows_that_a_tail_has_brought_are_read_without_asking_brokers() -> None:
    world = World()
    world.add_row(0)
    world.round()
    world.round()
    world.add_row(0)
    world.see(world.places())
    world.topics.asked.clear()

    plan = world.round()

    assert [(r.start, r.end) for r in plan.ranges] == [(1, 2)]
    assert set(world.topics.asked) == {SCHEMAS, TIMELINES}


def test_a_topic_that_is_made_anew_is_found_at_the_next_look() -> None:
    world = World()
    world.add_row(0)
    world.round()
    planned = world.round()
    world.record = ObjectsRecord(places={("t0", 0): (1, 1)}, ids={"t0": "id of t0"}, schemas_offset=planned.settled)
    world.topics.topic_ids["t0"] = "another"
    world.add_row(0)
    world.log.look()

    with pytest.raises(PositionError, match="t0"):
        world.planner.plan(world.record)


def test_what_is_too_much_to_hold_is_fetched_again() -> None:
    world = World()
    world.add_row(0)
    world.round()
    world.topics.values["t0", 0] += [bytes(20 << 20)] * 2
    world.orders["t0", 0] += [98, 99]
    world.see(world.places())
    world.log.gather(0.0)
    world.add_row(0)
    world.see(world.places())
    world.log.gather(0.0)

    fetched = world.log.read_together({("t0", 0): (1, 4)}, 1 << 30)

    assert [offset for _, some in fetched for offset in some.offsets] == [1, 2, 3]


class CutTail(LateTail):
    """A tail of a partition that begins behind what it is to bring next."""

    def take(self, messages_max: int, wait_seconds: float) -> Sequence[tuple[tuple[str, int], int, bytes]]:
        message = f"t0/0 no longer holds the first of {messages_max} ({wait_seconds} s)"
        raise PositionError(message, "hint")


def test_where_a_tail_finds_that_messages_were_thrown_away_brokers_are_asked_for_them() -> None:
    topics = MemoryTopics()
    topics.fill("t0", 3)
    log = FollowedLog(topics, lambda _: CutTail(topics, {}))
    log.follow({("t0", 0): 1})

    came = log.gather(0.0)
    ends = log.ends([("t0", 0)])
    fetched = list(log.read_together({("t0", 0): (1, 3)}, MUCH))

    assert (came, ends) == (True, {("t0", 0): 3})
    assert [offset for _, some in fetched for offset in some.offsets] == [1, 2]
    assert not log.gather(0.0)
