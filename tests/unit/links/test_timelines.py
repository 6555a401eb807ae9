"""Timelines: what is of a later one is behind all that is of an earlier one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.positions import in_timeline, timeline_of
from penstock.core.schema_changes import SchemaChange
from penstock.core.tables import TableId
from penstock.core.timelines import TimelineBegan, timeline_starts, timelines_at
from penstock.links.objects.plan import ObjectsPlanner
from penstock.links.objects.record import ObjectsRecord

if TYPE_CHECKING:
    from tests.unit.links.conftest import MemoryTopics

numbers = st.integers(0, 2**31 - 1)
orders = st.tuples(numbers, st.integers(0, 2**62), st.integers(-1, 2**31))
timelines = st.integers(0, 2**30)


@given(orders, orders, timelines, timelines)
def test_orders_sort_by_timeline_first(one: tuple[int, int, int], two: tuple[int, int, int], a: int, b: int) -> None:
    assert (in_timeline(one, a) < in_timeline(two, b)) == ((a, one) < (b, two))
    assert timeline_of(in_timeline(one, a)) == a
    assert in_timeline(one, 0) == one


@given(
    st.builds(
        TimelineBegan, st.text(), timelines, st.dictionaries(st.tuples(st.text(), numbers), numbers), st.text(),
        st.text(), st.text(), numbers,
    )
)  # fmt: skip
def test_a_timeline_survives_kafka(timeline: TimelineBegan) -> None:
    assert TimelineBegan.from_json(timeline.to_json()) == timeline


def began(timeline: int, **starts: int) -> TimelineBegan:
    return TimelineBegan("db", timeline, {(topic, 0): offset for topic, offset in starts.items()}, "", "", "", 0)


def test_a_message_is_of_the_timeline_that_began_last_before_it() -> None:
    told = [began(1, t=10), began(2, t=10), began(3, t=20, u=5)]

    assert timelines_at(timeline_starts(told, "t", 0, 0), np.array([0, 9, 10, 19, 20])).tolist() == [0, 0, 2, 2, 3]
    assert timelines_at(timeline_starts(told, "u", 0, 2), np.array([0, 4, 5])).tolist() == [2, 2, 3]
    assert timelines_at(timeline_starts(told, "new", 0, 3), np.array([0])).tolist() == [3]


def test_a_plan_knows_the_timelines_of_its_ranges(topics: MemoryTopics) -> None:
    topics.announce(10, "t")
    topics.fill("t", 3)
    topics.values["timelines", 0].append(began(1, t=2).to_json())
    late = SchemaChange("db", TableId("shop", "late"), "late", "", 1, 1, 1, in_timeline((1, 10, 0), 1))
    topics.values["schemas", 0].append(late.to_json())
    topics.fill("late", 1)

    plan = ObjectsPlanner(topics, "schemas", "timelines").plan(ObjectsRecord())

    assert {r.topic: r.timelines for r in plan.ranges} == {"t": ((0, 0), (2, 1)), "late": ((0, 1),)}
