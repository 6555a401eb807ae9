"""Transforms do not pass over in silence what takes rows of a table without a change for each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs
from tests.unit.links.conftest import SCHEMAS

from penstock.config.spolts import SpoltSpec
from penstock.core.errors import SpoltError
from penstock.core.schema_changes import Move, SchemaChange, SchemaChangeKind
from penstock.core.tables import TableId
from penstock.links.spolts.load import load_code
from penstock.links.spolts.plan import SpoltPlanner
from penstock.links.spolts.process import RangeProcessed, RangeProcessor
from penstock.links.spolts.publish import SpoltPublisher
from penstock.links.spolts.record import SpoltRecord
from penstock.links.spolts.spec import SpoltJob
from penstock.spolts.testing import LocalSchemas

if TYPE_CHECKING:
    from tests.unit.links.conftest import MemoryPublisher, MemoryTopics

TOPIC = "db.shop.users"
READ = SpoltRecord({(TOPIC, 0): 2}, told=1)
EVENT = SchemaChange("db", TableId("shop", "users"), TOPIC, "", 1, 10, 1, (7, 120, 0), file="bin.000007")


def planner(**more: object) -> SpoltPlanner:
    keys = {"name": "few", "from": "db.shop.users", "to": "out", "transforms": [{"filter": "id > 1"}], **more}
    return SpoltPlanner(SpoltSpec.model_validate(keys), ["db"], SCHEMAS)


@pytest.fixture
def read(topics: MemoryTopics) -> MemoryTopics:
    topics.announce(10, TOPIC)
    topics.fill(TOPIC, 3)
    return topics


def tell(topics: MemoryTopics, event: SchemaChange) -> None:
    topics.values[SCHEMAS, 0].append(event.to_json())


@pytest.mark.parametrize(
    ("event", "what"),
    [
        (replace(EVENT, kind=SchemaChangeKind.TRUNCATE), "was emptied"),
        (replace(EVENT, kind=SchemaChangeKind.DROP), "ended"),
        (replace(EVENT, kind=SchemaChangeKind.CREATE), "began anew"),
        (replace(EVENT, kind=SchemaChangeKind.RENAME, moves=(Move("shop.new", "shop.users", 1),)), "got the rows"),
        (
            replace(EVENT, kind=SchemaChangeKind.RENAME, table=TableId("shop", "old"), topic="db.shop.old",
                    moves=(Move("shop.users", "shop.old", 1),)),
            "gave it its own",
        ),
    ],
)  # fmt: skip
def test_the_spolt_stops_and_says_what_to_do(read: MemoryTopics, event: SchemaChange, what: str) -> None:
    tell(read, event)

    with pytest.raises(SpoltError, match=rf"few: db\.shop\.\w+ .*{what}.* at bin\.000007:120.* stay in out") as caught:
        planner().plan(read, read, READ)

    assert "on_emptied: pass" in caught.value.hint


def test_what_passes_is_logged_once_and_known_from_then_on(read: MemoryTopics, publisher: MemoryPublisher) -> None:
    tell(read, replace(EVENT, kind=SchemaChangeKind.TRUNCATE))
    passing = planner(on_emptied="pass")

    with capture_logs() as logged:
        (found,) = passing.plan(read, read, READ)
        passing.plan(read, read, READ)

    assert [(each["output"], each["why"]) for each in logged] == [
        ("out", "db.shop.users was emptied at bin.000007:120")
    ]
    assert (found.start, found.told) == (2, 2)
    publisher.records = [READ.to_mapping()]
    SpoltPublisher(publisher, "letters", 1).publish([RangeProcessed(found, 3, (), (), 1, 0)])
    record = SpoltRecord.from_mapping(publisher.position() or {})
    read.fill(TOPIC, 1)
    assert planner().plan(read, read, replace(record, ids={}))


def test_what_passes_is_known_also_where_nothing_comes_after_it(read: MemoryTopics, publisher: MemoryPublisher) -> None:
    tell(read, replace(EVENT, kind=SchemaChangeKind.TRUNCATE))
    read.values[TOPIC, 0].pop()
    publisher.records = [READ.to_mapping()]
    passing = planner(on_emptied="pass")
    passing.plan(read, read, READ)
    spolt = SpoltSpec.model_validate({"name": "few", "from": TOPIC, "to": "out", "transforms": [{"filter": "id > 1"}]})
    processor = RangeProcessor(SpoltJob(spolt), load_code(spolt), read, LocalSchemas())

    done = list(processor.process(passing.plan(read, read, READ)))
    SpoltPublisher(publisher, "letters", 1).publish(done)

    record = SpoltRecord.from_mapping(publisher.position() or {})
    assert (record.places, record.told, publisher.committed) == (READ.places, 2, [])
    assert not passing.plan(read, read, record)
    assert not planner().plan(read, read, record)


OTHER = replace(EVENT, table=TableId("shop", "other"), topic="db.shop.other")
RUNNING = SpoltRecord({(OTHER.topic, 0): 2}, told=1)


@pytest.fixture
def new(topics: MemoryTopics) -> MemoryTopics:
    """A table that came while the spolt ran, which has read another one; there are rows in its topic."""
    tell(topics, OTHER)
    topics.fill(OTHER.topic, 2)
    tell(topics, replace(EVENT, kind=SchemaChangeKind.CREATE))
    topics.fill(TOPIC, 3)
    return topics


def test_a_table_that_begins_while_the_spolt_runs_is_read(new: MemoryTopics) -> None:
    (found,) = planner(**{"from": "db.shop.*"}).plan(new, new, RUNNING)

    assert (found.topic, found.start, found.end) == (TOPIC, 0, 3)


def test_a_table_that_was_emptied_before_its_first_row_was_read_may_have_rows_from_before(new: MemoryTopics) -> None:
    tell(new, replace(EVENT, kind=SchemaChangeKind.TRUNCATE))

    with pytest.raises(SpoltError, match="was emptied"):
        planner(**{"from": "db.shop.*"}).plan(new, new, RUNNING)
    (found,) = planner(**{"from": "db.shop.*", "on_emptied": "pass"}).plan(new, new, RUNNING)
    assert (found.start, found.end, found.told) == (0, 3, 3)
    new.values[TOPIC, 0].clear()
    assert not planner(**{"from": "db.shop.*"}).plan(new, new, RUNNING)


@pytest.mark.parametrize(
    ("event", "record"),
    [
        (EVENT, READ),
        (replace(EVENT, kind=SchemaChangeKind.TRUNCATE), SpoltRecord({})),
        (replace(EVENT, kind=SchemaChangeKind.TRUNCATE), SpoltRecord({(TOPIC, 0): 2})),
        (replace(EVENT, kind=SchemaChangeKind.TRUNCATE, table=TableId("shop", "other"), topic="db.shop.other"), READ),
    ],
)
def test_what_takes_no_rows_that_were_read_stops_nothing(
    read: MemoryTopics, event: SchemaChange, record: SpoltRecord
) -> None:
    tell(read, event)

    assert planner().plan(read, read, record)


def test_code_of_a_users_own_goes_on(read: MemoryTopics) -> None:
    tell(read, replace(EVENT, kind=SchemaChangeKind.TRUNCATE))

    assert planner(transforms=[], function="m:f").plan(read, read, READ)


def test_what_was_told_is_in_the_record() -> None:
    assert SpoltRecord.from_mapping(READ.to_mapping()) == READ
    older = {name: value for name, value in READ.to_mapping().items() if name != "told"}
    assert SpoltRecord.from_mapping(older).told == -1
