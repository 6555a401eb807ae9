"""What the S3 spolt plans, when topics grow while it looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import PositionError, UnavailableError
from penstock.core.schema_changes import SchemaChange, SchemaChangeKind
from penstock.core.tables import TableId
from penstock.links.objects import plan as planning
from penstock.links.objects.plan import ObjectsPlanner
from penstock.links.objects.record import ObjectsRecord, StoppedReading

if TYPE_CHECKING:
    from tests.unit.links.conftest import MemoryTopics

    from penstock.links.objects.plan import TopicRange

SCHEMAS = "schemas"
TIMELINES = "eras"
CREATE = SchemaChangeKind.CREATE


def places(ranges: tuple[TopicRange, ...]) -> list[tuple[str, int, int]]:
    return [(r.topic, r.start, r.end) for r in ranges]


def test_what_was_never_read_is_planned_with_its_schema_changes(topics: MemoryTopics) -> None:
    topics.announce(10, "t")
    topics.fill("t", 3)

    plan = ObjectsPlanner(topics, SCHEMAS, TIMELINES).plan(ObjectsRecord())

    assert places(plan.ranges) == [("t", 0, 3)]
    assert plan.ranges[0].cuts == ((1, 10, 0),)
    assert [offset for offset, _ in plan.schema_changes] == [0]
    assert plan.settled == 1


def test_what_is_in_files_is_not_planned_again(topics: MemoryTopics) -> None:
    topics.announce(10, "t")
    topics.fill("t", 3)

    plan = ObjectsPlanner(topics, SCHEMAS, TIMELINES).plan(ObjectsRecord(schemas_offset=1, places={("t", 0): (2, 3)}))

    assert (plan.ranges, plan.schema_changes, plan.settled) == ((), (), 1)


def test_a_table_that_goes_on_in_a_new_topic_while_we_look_keeps_its_order(topics: MemoryTopics) -> None:
    topics.announce(10, "t")
    topics.fill("t", 2)

    def goes_on() -> None:
        topics.fill("t", 1)
        topics.announce(20, "t.v2", follows="t")
        topics.fill("t.v2", 1)

    topics.before_ends.append(goes_on)

    plan = ObjectsPlanner(topics, SCHEMAS, TIMELINES).plan(ObjectsRecord())

    assert places(plan.ranges) == [("t", 0, 3), ("t.v2", 0, 1)]
    assert plan.ranges[0].cuts == ((1, 10, 0), (1, 20, 0))
    assert plan.settled == 2


def test_rows_of_the_new_topic_never_come_before_the_rest_of_the_old(topics: MemoryTopics) -> None:
    topics.announce(10, "t")
    topics.announce(20, "t.v2", follows="t")
    topics.fill("t", 2)
    topics.fill("t.v2", 1)

    ObjectsPlanner(topics, SCHEMAS, TIMELINES).plan(ObjectsRecord())

    tables = [topic for topic in topics.asked if topic != SCHEMAS]
    assert tables.index("t.v2") < tables.index("t")


def test_what_follows_a_range_that_is_too_long_waits(topics: MemoryTopics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "_RANGE_OFFSETS_MAX", 5)
    topics.announce(10, "t")
    topics.announce(20, "t.v2", follows="t")
    topics.fill("t", 8)
    topics.fill("t.v2", 1)
    planner = ObjectsPlanner(topics, SCHEMAS, TIMELINES)

    first = planner.plan(ObjectsRecord())
    second = planner.plan(ObjectsRecord(places={("t", 0): (5, 5)}))

    assert (places(first.ranges), first.ranges[0].is_whole) == ([("t", 0, 5)], False)
    assert places(second.ranges) == [("t", 5, 8), ("t.v2", 0, 1)]
    assert [r.is_whole for r in second.ranges] == [True, True]


def test_what_is_announced_again_and_again_while_we_look_is_not_settled(topics: MemoryTopics) -> None:
    topics.announce(10, "t")
    topics.before_ends.extend([lambda: topics.announce(20, "t")] * 9)

    plan = ObjectsPlanner(topics, SCHEMAS, TIMELINES).plan(ObjectsRecord())

    assert len(plan.schema_changes) == plan.settled + 1


def test_schema_changes_that_were_passed_on_before_one_that_waits_are_not_planned_again(topics: MemoryTopics) -> None:
    for order in (10, 20, 30, 40):
        topics.announce(order, "t")

    plan = ObjectsPlanner(topics, SCHEMAS, TIMELINES).plan(ObjectsRecord(schemas_offset=1, passed=(2,)))

    assert [offset for offset, _ in plan.schema_changes] == [1, 3]


def test_where_a_table_began_anew_behind_what_is_not_decided_yet_it_is_waited_for_that(topics: MemoryTopics) -> None:
    began = SchemaChange("db", TableId("shop", "users"), "t", "", 1, 10, 1, (1, 10, 0), CREATE, begins=(5,))
    topics.values[SCHEMAS, 0].append(began.to_json())
    topics.fill("t", 3)
    planner = ObjectsPlanner(topics, SCHEMAS, TIMELINES)

    assert planner.plan(ObjectsRecord(places={("t", 0): (2, 5)})).ranges == ()
    with pytest.raises(PositionError, match="t/0 ends at 3, but was read up to 6"):
        planner.plan(ObjectsRecord(places={("t", 0): (2, 6)}))
    topics.fill("t", 4)
    assert places(planner.plan(ObjectsRecord(places={("t", 0): (2, 5)})).ranges) == [("t", 5, 7)]


def test_while_events_may_be_hidden_behind_an_open_transaction_no_rows_are_planned(topics: MemoryTopics) -> None:
    topics.announce(10, "t")
    topics.fill("t", 1)
    planner = ObjectsPlanner(topics, SCHEMAS, TIMELINES)
    planner.plan(ObjectsRecord())
    # Another source announces something, undecided; what comes behind it is committed: a TRUNCATE, and rows.
    topics.announce(5, "others")
    topics.undecided[SCHEMAS, 0] = 1
    emptied = SchemaChange("db", TableId("shop", "users"), "t", "", 1, 1, 1, (1, 20, 0), SchemaChangeKind.TRUNCATE)
    topics.values[SCHEMAS, 0].append(emptied.to_json())
    topics.fill("t", 2)

    with pytest.raises(UnavailableError, match="has not finished the transactions in schemas"):
        planner.plan(ObjectsRecord(schemas_offset=1, places={("t", 0): (1, 1)}))

    topics.undecided.clear()
    plan = planner.plan(ObjectsRecord(schemas_offset=1, places={("t", 0): (1, 1)}))
    assert plan.ranges[0].cuts == ((1, 10, 0), (1, 5, 0), (1, 20, 0))


def test_nothing_is_planned_of_a_table_that_has_stopped(topics: MemoryTopics) -> None:
    topics.announce(10, "t")
    topics.fill("t", 3)
    stopped = StoppedReading("db", "shop.users", "why", "what to do", 1)
    planner = ObjectsPlanner(topics, SCHEMAS, TIMELINES)

    assert planner.plan(ObjectsRecord(places={("t", 0): (1, 1)}, stopped={("t", 0): stopped})).ranges == ()
    assert ("t", 0) not in planner.starts(ObjectsRecord(stopped={("t", 0): stopped}))


def test_a_topic_is_read_whole_where_a_later_event_says_fewer_partitions(topics: MemoryTopics) -> None:
    topics.announce(10, "t", partitions=2)
    topics.announce(20, "t", partitions=1)
    topics.fill("t", 3)
    topics.fill("t", 2, partition=1)

    plan = ObjectsPlanner(topics, SCHEMAS, TIMELINES).plan(ObjectsRecord())

    assert [(r.topic, r.partition, r.start, r.end) for r in plan.ranges] == [("t", 0, 0, 3), ("t", 1, 0, 2)]
