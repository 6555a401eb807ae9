"""What the S3 spolt commits, and what it leaves for the next time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.core.batches import Batch
from penstock.core.errors import FencedError, PositionError
from penstock.core.schema_changes import SchemaChange, SchemaChangeKind
from penstock.core.tables import TableId
from penstock.links.objects.plan import ObjectsPlan, TopicRange
from penstock.links.objects.publish import BatchPublisher
from penstock.links.objects.record import ObjectsRecord
from penstock.links.objects.write import RangeWritten

if TYPE_CHECKING:
    from tests.unit.links.conftest import MemoryPublisher

USERS = TableId("shop", "users")
NOTHING = ObjectsPlan(0, (), ())


def batch(topic: str, start: int, end: int, order: int, partition: int = 0) -> Batch:
    """A file whose changes are from `order` on in the log, one after the other."""
    orders = (1, order, 0), (1, order + end - start - 1, 0)
    fields = ("db", USERS, topic, partition, start, end, end - start, "path", 1, "parquet", 1)
    return Batch(*fields, *orders, 7)


def written(*parts: Batch, planned: int | None = None) -> RangeWritten:
    """A range in files; `planned` is where it should have ended."""
    first, end = parts[0], parts[-1].end_offset
    place = (first.topic, first.partition, first.start_offset, first.start_offset, planned or end)
    return RangeWritten(TopicRange("db", "shop.users", *place, ()), end, parts)


def announced(order: int, topic: str = "t", kind: SchemaChangeKind = SchemaChangeKind.SCHEMA) -> SchemaChange:
    return SchemaChange("db", USERS, topic, "", 1, 2, 1, (1, order, 0), kind)


def batches(publisher: MemoryPublisher) -> list[tuple[str, int, int]]:
    return [(b.topic, b.start_offset, b.rows) for b in map(Batch.from_json, publisher.committed)]


def test_batches_and_the_place_behind_them_are_committed_together(publisher: MemoryPublisher) -> None:
    rows = BatchPublisher(publisher, "batches", epoch=3).publish(NOTHING, [written(batch("t", 0, 4, 1))])

    assert rows == {"shop.users": (4, 7)}
    assert batches(publisher) == [("t", 0, 4)]
    assert ObjectsRecord.from_mapping(publisher.records[-1]).places == {("t", 0): (4, 4)}


def test_a_schema_change_comes_between_the_rows_before_and_behind_it(publisher: MemoryPublisher) -> None:
    plan = ObjectsPlan(1, ((0, announced(2)),), ())

    BatchPublisher(publisher, "batches", 1).publish(
        plan, [written(batch("t.v2", 0, 1, 2)), written(batch("t", 0, 1, 1))]
    )

    assert batches(publisher) == [("t", 0, 1), ("t", 0, 0), ("t.v2", 0, 1)]


def test_what_a_schema_change_says_is_passed_on(publisher: MemoryPublisher) -> None:
    told = replace(announced(2, kind=SchemaChangeKind.TRUNCATE), file="bin.000001", timestamp_ms=8)

    BatchPublisher(publisher, "batches", 1).publish(ObjectsPlan(1, ((0, told),), ()), [])

    (passed,) = map(Batch.from_json, publisher.committed)
    assert (passed.kind, passed.file, passed.last_timestamp_ms) == (SchemaChangeKind.TRUNCATE, "bin.000001", 8)


def test_what_follows_a_range_that_was_cut_short_waits(publisher: MemoryPublisher) -> None:
    plan = ObjectsPlan(1, ((0, announced(50)),), ())

    BatchPublisher(publisher, "batches", 1).publish(
        plan, [written(batch("t", 0, 2, 1), planned=9), written(batch("t.v2", 0, 1, 51))]
    )

    record = ObjectsRecord.from_mapping(publisher.records[-1])
    assert batches(publisher) == [("t", 0, 2)]
    assert (record.schemas_offset, record.places) == (0, {("t", 0): (2, 2), ("t.v2", 0): (0, 0)})


def test_a_table_that_waits_keeps_no_other_back(publisher: MemoryPublisher) -> None:
    other = replace(announced(60), table=TableId("shop", "orders"), topic="other")
    plan = ObjectsPlan(2, ((0, announced(50)), (1, other)), ())
    link = BatchPublisher(publisher, "batches", 1)

    link.publish(plan, [written(batch("t", 0, 2, 1), planned=9)])
    link.publish(ObjectsPlan(3, ((0, announced(50)),), ()), [written(batch("t", 2, 9, 44))])

    first, second = map(ObjectsRecord.from_mapping, publisher.records)
    assert batches(publisher) == [("t", 0, 2), ("other", 0, 0), ("t", 2, 7), ("t", 0, 0)]
    assert (first.schemas_offset, first.passed) == (0, (1,))
    assert (second.schemas_offset, second.passed) == (3, ())


def test_a_hole_between_two_files_is_refused_and_nothing_committed(publisher: MemoryPublisher) -> None:
    link = BatchPublisher(publisher, "batches", 1)
    link.publish(NOTHING, [written(batch("t", 0, 4, 1))])

    with pytest.raises(PositionError, match="starts at 5, not at 4"):
        link.publish(NOTHING, [written(batch("t", 5, 6, 6))])

    assert len(publisher.committed) == 1


def test_an_instance_that_was_replaced_does_not_start(publisher: MemoryPublisher) -> None:
    BatchPublisher(publisher, "batches", epoch=5).publish(NOTHING, [])

    with pytest.raises(FencedError):
        BatchPublisher(publisher, "batches", epoch=4)
