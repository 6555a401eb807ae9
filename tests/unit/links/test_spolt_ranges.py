"""What a spolt plans to read, and how much of it one task processes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.unit.links.conftest import SCHEMAS

from penstock.config.spolts import SpoltSpec
from penstock.core.errors import PositionError
from penstock.core.spolts.message import Message, Output
from penstock.links.spolts import plan as planning
from penstock.links.spolts import process as processing
from penstock.links.spolts.load import prepare_code
from penstock.links.spolts.plan import SpoltPlanner
from penstock.links.spolts.process import RangeProcessor
from penstock.links.spolts.publish import SpoltPublisher
from penstock.links.spolts.record import SpoltRecord
from penstock.links.spolts.spec import SpoltJob
from penstock.spolts.testing import LocalSchemas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.unit.links.conftest import MemoryPublisher, MemoryTopics

    from penstock.links.spolts.plan import InputRange
    from penstock.links.spolts.process import RangeProcessed


def _spolt(*given: object) -> SpoltSpec:
    return SpoltSpec.model_validate(
        {"name": "s", "function": "m:f", "from": list(given), "to": {"topic": "out", "schema": "same"}}
    )


def _plan(topics: MemoryTopics, spolt: SpoltSpec, record: SpoltRecord | None = None) -> list[tuple[str, int, int, int]]:
    slices = SpoltPlanner(spolt, ["db"], SCHEMAS).plan(topics, topics, record or SpoltRecord())
    return [(each.topic, each.partition, each.start, each.end) for each in slices]


def test_topics_are_read_from_what_is_kept_of_them_and_then_from_where_the_record_stands(topics: MemoryTopics) -> None:
    topics.fill("raw", 5)
    topics.fill("raw", 7, 1)
    topics.first["raw", 1] = 3

    assert _plan(topics, _spolt("raw", "later")) == [("raw", 0, 0, 5), ("raw", 1, 3, 7)]
    record = SpoltRecord({("raw", 0): 5, ("raw", 1): 4}, {"raw": "id of raw"})
    assert _plan(topics, _spolt("raw"), record) == [("raw", 1, 4, 7)]


def test_tables_are_found_by_what_captures_announce_and_by_nobody_elses_topics(topics: MemoryTopics) -> None:
    topics.announce(10, "db.shop.users")
    topics.fill("db.shop.users", 2)
    topics.fill("db.shop.others", 2)

    assert _plan(topics, _spolt("db.shop.*")) == [("db.shop.users", 0, 0, 2)]
    assert _plan(topics, _spolt("db.shop.items")) == []


def test_a_new_topic_of_a_table_waits_until_the_old_one_is_read_to_its_end(topics: MemoryTopics) -> None:
    topics.announce(10, "t")
    topics.announce(20, "t.v2", follows="t")
    topics.announce(30, "t.v3", follows="t.v2")
    for topic in ("t", "t.v2", "t.v3"):
        topics.fill(topic, 2)
    spolt = _spolt("db.shop.users")

    assert _plan(topics, spolt) == [("t", 0, 0, 2)]
    assert _plan(topics, spolt, SpoltRecord({("t", 0): 1})) == [("t", 0, 1, 2)]
    assert _plan(topics, spolt, SpoltRecord({("t", 0): 2})) == [("t.v2", 0, 0, 2)]
    assert _plan(topics, spolt, SpoltRecord({("t", 0): 2, ("t.v2", 0): 2})) == [("t.v3", 0, 0, 2)]


def test_a_new_topic_does_not_wait_for_messages_that_retention_has_taken(topics: MemoryTopics) -> None:
    topics.announce(10, "t")
    topics.announce(20, "t.v2", follows="t")
    topics.fill("t", 5)
    topics.fill("t", 5, 1)
    topics.fill("t.v2", 3)
    topics.first["t", 0], topics.first["t", 1] = 5, 4
    spolt = _spolt("db.shop.users")

    assert _plan(topics, spolt) == [("t", 1, 4, 5)]
    topics.first["t", 1] = 5
    assert _plan(topics, spolt) == [("t.v2", 0, 0, 3)]


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (SpoltRecord({("t", 0): 9}), "ends at 2, but was read up to 9"),
        (SpoltRecord({("t", 0): 1}, {"t": "another"}), "was deleted and recreated"),
        (SpoltRecord({("gone", 0): 1}), "gone/0 is gone"),
    ],
)
def test_a_topic_that_is_not_what_was_read_stops_the_spolt(
    topics: MemoryTopics, record: SpoltRecord, told: str
) -> None:
    topics.fill("t", 2)

    with pytest.raises(PositionError, match=told):
        _plan(topics, _spolt("t", "gone"), record)


def test_what_is_no_longer_in_the_file_is_not_asked_for(topics: MemoryTopics) -> None:
    topics.fill("t", 2)

    assert _plan(topics, _spolt("t"), SpoltRecord({("gone", 0): 1}, {"gone": "id"})) == [("t", 0, 0, 2)]

    topics.fill("gone", 1)
    assert topics.shapes(["gone"])["gone"][0] != "id"
    assert _plan(topics, _spolt("t"), SpoltRecord({("gone", 0): 1}, {"gone": "id"})) == [("t", 0, 0, 2)]


def test_long_ranges_are_cut(topics: MemoryTopics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "_RANGE_OFFSETS_MAX", 5)
    topics.fill("t", 8)

    assert _plan(topics, _spolt("t")) == [("t", 0, 0, 5)]


def _many(message: Message) -> list[Output]:
    return [Output({"n": message.value["n"], "copy": copy}) for copy in range(3)]


@pytest.mark.parametrize(("read_max", "made_max"), [(1 << 20, 1 << 20), (30, 1 << 20), (1 << 20, 60), (1, 1)])
def test_everything_is_processed_once_however_little_a_task_takes(
    topics: MemoryTopics,
    publisher: MemoryPublisher,
    monkeypatch: pytest.MonkeyPatch,
    read_max: int,
    made_max: int,
) -> None:
    monkeypatch.setattr(processing, "_READ_BYTES_MAX", read_max)
    monkeypatch.setattr(processing, "_MADE_BYTES_MAX", made_max)
    monkeypatch.setattr("penstock.links.spolts.run._BATCH_MESSAGES", 2)
    spolt = _spolt({"topic": "t", "format": "json"}, {"topic": "u", "format": "json"})
    for topic in ("t", "u"):
        topics.values[topic, 0] = [json.dumps({"n": number}).encode() for number in range(11)]
    processor = RangeProcessor(SpoltJob(spolt), prepare_code(spolt, _many), topics, LocalSchemas())
    spolts = SpoltPublisher(publisher, "letters", 1)

    for _ in range(100):
        done = list(processor.process(_ranges(topics, publisher, spolt)))
        if not done:
            break
        spolts.publish(done)

    made = [json.loads(value) for value in publisher.committed]
    assert sorted((each["n"], each["copy"]) for each in made) == sorted(
        (number, copy) for number in range(11) for copy in (0, 0, 1, 1, 2, 2)
    )


def _ranges(topics: MemoryTopics, publisher: MemoryPublisher, spolt: SpoltSpec) -> Sequence[InputRange]:
    record = publisher.position()
    planner = SpoltPlanner(spolt, ["db"], SCHEMAS)
    return planner.plan(topics, topics, SpoltRecord() if record is None else SpoltRecord.from_mapping(record))


def test_what_does_not_go_on_from_the_record_is_not_published(topics: MemoryTopics, publisher: MemoryPublisher) -> None:
    spolt = _spolt({"topic": "t", "format": "json"})
    topics.values["t", 0] = [b'{"n": 1}']
    processor = RangeProcessor(SpoltJob(spolt), prepare_code(spolt, _many), topics, LocalSchemas())
    spolts = SpoltPublisher(publisher, "letters", 1)
    done: list[RangeProcessed] = list(processor.process(_ranges(topics, publisher, spolt)))
    spolts.publish(done)

    with pytest.raises(PositionError, match=r"t/0 were processed from 0 on, not from 1"):
        spolts.publish(done)

    assert len(publisher.committed) == 3


def _until_five(message: Message) -> Output:
    if message.value["n"] == 5:
        text = "no fives"
        raise ValueError(text)
    return Output(message.value)


@pytest.mark.parametrize("batch_messages", [2, 5_000])
def test_what_comes_before_a_message_with_a_fault_is_done_and_so_are_other_ranges(
    topics: MemoryTopics, publisher: MemoryPublisher, monkeypatch: pytest.MonkeyPatch, batch_messages: int
) -> None:
    monkeypatch.setattr("penstock.links.spolts.run._BATCH_MESSAGES", batch_messages)
    spolt = _spolt({"topic": "t", "format": "json"}, {"topic": "u", "format": "json"})
    topics.values["t", 0] = [json.dumps({"n": number}).encode() for number in range(3, 8)]
    topics.values["u", 0] = [b'{"n": 9}']
    processor = RangeProcessor(SpoltJob(spolt), prepare_code(spolt, _until_five), topics, LocalSchemas())
    spolts = SpoltPublisher(publisher, "letters", 1)

    done = list(processor.process(_ranges(topics, publisher, spolt)))
    spolts.publish(done)

    assert [(part.read_to, part.count, str(part.fault)[:36]) for part in done] == [
        (2, 2, "spolt s failed on t/0 offset 2: Valu"),
        (1, 1, "None"),
    ]
    assert [json.loads(value)["n"] for value in publisher.committed] == [3, 4, 9]
    (again,) = processor.process(_ranges(topics, publisher, spolt))
    assert (again.range.start, again.read_to, again.count, again.messages) == (2, 2, 0, ())
    mended = RangeProcessor(SpoltJob(spolt), prepare_code(spolt, _many), topics, LocalSchemas())
    spolts.publish(list(mended.process(_ranges(topics, publisher, spolt))))
    assert [json.loads(value)["n"] for value in publisher.committed] == [3, 4, 9, *[5] * 3, *[6] * 3, *[7] * 3]
