"""What the S3 spolt commits, and what it leaves for the next time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.core.announcements import Announcement
from penstock.core.batches import Batch
from penstock.core.errors import FencedError, PositionError
from penstock.core.tables import TableId
from penstock.links.objects.plan import ObjectsPlan, TopicRange
from penstock.links.objects.publish import BatchPublisher
from penstock.links.objects.record import ObjectsRecord
from penstock.links.objects.write import RangeWritten

if TYPE_CHECKING:
    from tests.unit.links.conftest import MemoryPublisher

USERS = TableId("shop", "users")
NOTHING = ObjectsPlan(0, (), ())


def written(topic: str, start: int, end: int, *, planned: int | None = None, generation: int = 0) -> RangeWritten:
    """A range of `topic` in one file; `planned` is where it should have ended."""
    topic_range = TopicRange("db", "shop.users", topic, 0, generation, start, start, planned or end, ())
    order = (1, 100 * generation + start, 0)
    batch = Batch("db", USERS, topic, 0, start, end, end - start, "path", 1, "parquet", 1, order, order, 7)
    return RangeWritten(topic_range, end, (batch,))


def announced(order: int, topic: str = "t") -> Announcement:
    return Announcement("db", USERS, topic, "", 1, 2, 1, (1, order, 0))


def batches(publisher: MemoryPublisher) -> list[tuple[str, int, int]]:
    return [(b.topic, b.start_offset, b.rows) for b in map(Batch.from_json, publisher.committed)]


def test_batches_and_the_place_behind_them_are_committed_together(publisher: MemoryPublisher) -> None:
    rows = BatchPublisher(publisher, "batches", epoch=3).publish(NOTHING, [written("t", 0, 4)])

    assert rows == {"shop.users": (4, 7)}
    assert batches(publisher) == [("t", 0, 4)]
    assert ObjectsRecord.from_mapping(publisher.records[-1]).places == {("t", 0): (4, 4)}


def test_an_announcement_comes_between_the_rows_before_and_behind_it(publisher: MemoryPublisher) -> None:
    plan = ObjectsPlan(1, ((0, announced(2)),), ())

    BatchPublisher(publisher, "batches", 1).publish(plan, [written("t", 0, 2), written("t.v2", 0, 1, generation=1)])

    assert batches(publisher) == [("t", 0, 2), ("t", 0, 0), ("t.v2", 0, 1)]


def test_what_follows_a_range_that_was_cut_short_waits(publisher: MemoryPublisher) -> None:
    plan = ObjectsPlan(1, ((0, announced(50)),), ())

    BatchPublisher(publisher, "batches", 1).publish(
        plan, [written("t", 0, 2, planned=9), written("t.v2", 0, 1, generation=1)]
    )

    record = ObjectsRecord.from_mapping(publisher.records[-1])
    assert batches(publisher) == [("t", 0, 2)]
    assert (record.schemas_offset, record.places) == (0, {("t", 0): (2, 2)})


def test_a_hole_between_two_files_is_refused_and_nothing_committed(publisher: MemoryPublisher) -> None:
    link = BatchPublisher(publisher, "batches", 1)
    link.publish(NOTHING, [written("t", 0, 4)])

    with pytest.raises(PositionError, match="starts at 5, not at 4"):
        link.publish(NOTHING, [written("t", 5, 6)])

    assert len(publisher.committed) == 1


def test_an_instance_that_was_replaced_does_not_start(publisher: MemoryPublisher) -> None:
    BatchPublisher(publisher, "batches", epoch=5).publish(NOTHING, [])

    with pytest.raises(FencedError):
        BatchPublisher(publisher, "batches", epoch=4)
