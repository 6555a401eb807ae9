"""What waits in a topic partition becomes a file when it is enough, old enough, or needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.links.objects.closing import BatchClosing
from penstock.links.objects.plan import ObjectsPlanner
from penstock.links.objects.record import ObjectsRecord

if TYPE_CHECKING:
    from tests.unit.links.conftest import MemoryTopics

    from penstock.links.objects.plan import ObjectsPlan

CLOSING = BatchClosing(rows=5, bytes=100, seconds=60.0)
TOLD = 1
"""Schema-change events that were passed on: the first of the topic."""


def planner_of(topics: MemoryTopics, closing: BatchClosing = CLOSING) -> ObjectsPlanner:
    return ObjectsPlanner(topics, "schemas", "eras", closing)


def places(plan: ObjectsPlan) -> list[tuple[str, int, int, int]]:
    return [(r.topic, r.partition, r.start, r.end) for r in plan.ranges]


def test_few_rows_wait_until_the_first_has_waited_long_enough(topics: MemoryTopics) -> None:
    topics.announce(10, "t")
    topics.fill("t", 2)
    planner, record = planner_of(topics), ObjectsRecord(schemas_offset=TOLD)

    first = planner.plan(record, 1_000.0)
    topics.fill("t", 1)
    early = planner.plan(record, 1_059.0)
    due = planner.plan(record, 1_060.0)
    after = planner.plan(ObjectsRecord(TOLD, {("t", 0): (3, 3)}), 1_060.0)
    topics.fill("t", 1)
    again = planner.plan(ObjectsRecord(TOLD, {("t", 0): (3, 3)}), 1_061.0)

    assert [places(plan) for plan in (first, early, due, after, again)] == [[], [], [("t", 0, 0, 3)], [], []]


def test_enough_rows_go_at_once_and_others_wait_on(topics: MemoryTopics) -> None:
    topics.announce(10, "t", partitions=2)
    topics.fill("t", 2, partition=0)
    topics.fill("t", 5, partition=1)

    plan = planner_of(topics).plan(ObjectsRecord(schemas_offset=TOLD))

    assert places(plan) == [("t", 1, 0, 5)]


def test_enough_bytes_go_at_once_by_the_size_that_messages_had_before(topics: MemoryTopics) -> None:
    topics.announce(10, "t")
    topics.fill("t", 2)
    planner = planner_of(topics)

    small = planner.plan(ObjectsRecord(TOLD, message_bytes={"t": 49}))
    large = planner.plan(ObjectsRecord(TOLD, message_bytes={"t": 50}))

    assert (places(small), places(large)) == ([], [("t", 0, 0, 2)])


def test_without_a_time_everything_goes_at_once(topics: MemoryTopics) -> None:
    topics.announce(10, "t")
    topics.fill("t", 1)

    plan = planner_of(topics, BatchClosing(5, 100, 0.0)).plan(ObjectsRecord(schemas_offset=TOLD))

    assert places(plan) == [("t", 0, 0, 1)]


def test_a_new_schema_waits_for_nothing_and_takes_all_rows_of_its_table_along(topics: MemoryTopics) -> None:
    topics.announce(10, "t", partitions=2)
    topics.fill("t", 1, partition=0)
    topics.fill("t", 1, partition=1)
    planner, record = planner_of(topics), ObjectsRecord(schemas_offset=TOLD)
    before = planner.plan(record, 1.0)
    topics.announce(20, "t", partitions=2)

    plan = planner.plan(record, 2.0)

    assert places(before) == []
    assert places(plan) == [("t", 0, 0, 1), ("t", 1, 0, 1)]
    assert [offset for offset, _ in plan.schema_changes] == [1]


def test_a_topic_never_overtakes_the_one_that_it_follows(topics: MemoryTopics) -> None:
    topics.announce(10, "t")
    topics.announce(20, "t.v2", follows="t")
    topics.fill("t", 1)
    topics.fill("t.v2", 9)
    planner, record = planner_of(topics), ObjectsRecord(schemas_offset=2)

    waits, due = planner.plan(record, 0.0), planner.plan(record, 60.0)

    assert places(waits) == []
    assert places(due) == [("t", 0, 0, 1), ("t.v2", 0, 0, 9)]


def test_whoever_stops_waits_for_nothing(topics: MemoryTopics) -> None:
    topics.announce(10, "t")
    topics.fill("t", 1)
    planner = planner_of(topics)

    planner.stop_waiting()

    assert places(planner.plan(ObjectsRecord(schemas_offset=TOLD))) == [("t", 0, 0, 1)]
