"""A join that publishes: from where it goes on, and where its table begins anew."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.unit.joins.test_kept_job import job_of

from penstock.core.errors import FencedError, PenstockError, PositionError, UnavailableError, UsageError
from penstock.core.schema_changes import SchemaChange, SchemaChangeKind
from penstock.links.joins import publish
from penstock.links.joins.publish import (
    Announcement,
    JoinPublisher,
    JoinTarget,
    require_own_output,
    require_standing,
)
from penstock.links.joins.record import JoinRecord
from penstock.ports.registry import RegisteredTable

if TYPE_CHECKING:
    from tests.unit.links.conftest import MemoryPublisher

PLACE = ("reviews", 0)
RECORD = JoinRecord(1, 1, 4, "digest", (5, 9), {PLACE: 6}, {"reviews": "a", "shops": "b"})


def joined(publisher: MemoryPublisher, announcement: Announcement | None = None) -> JoinPublisher:
    job = job_of(1)
    registered = RegisteredTable(job.plan.output, "joined", 1, 2, "")
    return JoinPublisher(
        publisher, JoinTarget("joined", job.plan, registered, 2, "schemas", "letters"), RECORD, announcement
    )


def test_a_join_goes_on_from_the_record_that_was_read(publisher: MemoryPublisher) -> None:
    require_standing(publisher, "joined", None)
    publisher.publish([], RECORD.to_mapping)

    require_standing(publisher, "joined", RECORD)


@pytest.mark.parametrize("read", [None, replace(RECORD, batch=3, places={("reviews", 0): 5})])
def test_what_became_visible_after_the_record_was_read_is_not_published_again(
    publisher: MemoryPublisher, read: JoinRecord | None
) -> None:
    publisher.publish([], RECORD.to_mapping)

    with pytest.raises(UnavailableError, match="since its position was read"):
        require_standing(publisher, "joined", read)


@pytest.mark.parametrize(
    ("kind", "begins"),
    [(SchemaChangeKind.TRUNCATE, (12, 25)), (SchemaChangeKind.CREATE, (12, 25)), (SchemaChangeKind.SCHEMA, ())],
)
def test_a_table_that_is_emptied_says_where_its_topic_ends(
    publisher: MemoryPublisher, kind: SchemaChangeKind, begins: tuple[int, ...]
) -> None:
    publisher.topic_ends = (12, 25)

    joined(publisher, Announcement(kind, (2, 0, 0)))

    (told,) = map(SchemaChange.from_json, publisher.committed)
    assert (told.kind, told.begins) == (kind, begins)


def test_somebody_elses_message_in_the_output_ends_a_join_until_it_begins_anew(publisher: MemoryPublisher) -> None:
    publisher.foreign = {"joined": PositionError("joined/0 has a foreign message", "start anew")}

    with pytest.raises(PositionError, match="foreign message") as refused:
        require_own_output(publisher, "joined", begins=False)

    assert "penstock joinery rebuild FILE joined --empty" in refused.value.hint
    publisher.foreign = {"joined": refused.value}
    require_own_output(publisher, "joined", begins=True)
    assert publisher.take_foreign() == {}


def test_a_state_that_is_ahead_of_its_record_publishes_nothing(publisher: MemoryPublisher) -> None:
    join = joined(publisher)

    with pytest.raises(PositionError, match="has come to micro-batch 6, and 4 is the last one published") as refused:
        join.publish(6, {PLACE: 9}, [])

    assert "penstock joinery rebuild FILE joined --empty" in refused.value.hint
    assert publisher.records == []
    join.publish(5, {PLACE: 9}, [])
    assert [record["batch"] for record in publisher.records] == [5]


@pytest.mark.parametrize(("seconds", "kind"), [(0.0, UsageError), (900.0, FencedError)])
def test_what_is_too_much_for_one_transaction_says_so_and_is_not_tried_again(
    publisher: MemoryPublisher, monkeypatch: pytest.MonkeyPatch, seconds: float, kind: type[PenstockError]
) -> None:
    ended = FencedError("the brokers ended the transaction", "stop one of two instances")

    def fail() -> None:
        raise ended

    monkeypatch.setattr(publish, "PUBLISHING_SECONDS", seconds)
    monkeypatch.setattr(publisher, "settle", fail)

    with pytest.raises(kind) as late:
        joined(publisher).publish(5, {PLACE: 9}, [])

    if kind is UsageError:
        assert late.value.message.startswith("what micro-batch 5 changes of joined took longer than brokers leave a")
        assert "penstock joinery inspect FILE JOIN" in late.value.hint
