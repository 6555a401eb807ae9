"""A join that goes on while its next state is made: what neither of them can read is a dead letter once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.joins.test_kept_job import job_of

from penstock.core.errors import UnavailableError
from penstock.core.joins.unreadable import Unreadable
from penstock.links.joins.publish import JoinPublisher, JoinTarget
from penstock.links.joins.record import JoinRecord
from penstock.ports.registry import RegisteredTable

if TYPE_CHECKING:
    from tests.unit.links.conftest import MemoryPublisher

PLACE = ("reviews", 0)


def poison(*offsets: int) -> list[Unreadable]:
    return [Unreadable(*PLACE, offset, b"hello", "it is not of shop.reviews") for offset in offsets]


def joined(publisher: MemoryPublisher, read: int, begun: int = 0) -> JoinPublisher:
    """A join that has read so many messages, and whose next state has come to `begun`."""
    job = job_of(1)
    registered = RegisteredTable(job.plan.output, "joined", 1, 2, "")
    target = JoinTarget("joined", job.plan, registered, 1, "schemas", "letters")
    return JoinPublisher(publisher, target, JoinRecord(1, 1, 4, "digest", (), {PLACE: read}), None, {PLACE: begun})


def test_what_the_join_has_read_its_next_state_does_not_set_aside(publisher: MemoryPublisher) -> None:
    join = joined(publisher, read=6)

    told = join.set_aside(poison(2, 5))

    assert told == []
    assert publisher.records == []


def test_what_the_next_state_reads_first_the_join_does_not_set_aside_again(publisher: MemoryPublisher) -> None:
    join = joined(publisher, read=6)

    told = join.set_aside(poison(5, 7, 9))
    join.publish(5, {PLACE: 9}, [], poison(7, 8))
    join.publish(6, {PLACE: 10}, [], poison(9))

    assert told == poison(7, 9)
    assert [record["letters"] for record in publisher.records] == [2, 3, 3]
    assert [(record["batch"], record["places"]) for record in publisher.records] == [
        (4, [[*PLACE, 6]]),
        (5, [[*PLACE, 9]]),
        (6, [[*PLACE, 10]]),
    ]


def test_a_message_that_two_inputs_of_a_table_tell_of_is_set_aside_once(publisher: MemoryPublisher) -> None:
    join = joined(publisher, read=6)

    told = join.set_aside(poison(7, 7))
    join.publish(5, {PLACE: 9}, [], poison(7, 8, 8))

    assert told == poison(7)
    assert [record["letters"] for record in publisher.records] == [1, 2]


def test_what_the_next_state_had_read_before_a_start_is_set_aside_by_nobody_again(publisher: MemoryPublisher) -> None:
    join = joined(publisher, read=6, begun=8)

    join.publish(5, {PLACE: 9}, [], poison(7, 8))
    told = join.set_aside(poison(8, 9))

    assert told == poison(9)
    assert [record["letters"] for record in publisher.records] == [1, 2]


def test_nothing_is_published_behind_a_publication_of_which_nobody_knows_whether_it_is_committed(
    publisher: MemoryPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    join, unfinished = joined(publisher, read=6), UnavailableError("not finished", "check that all brokers run")

    def fail() -> None:
        raise unfinished

    with monkeypatch.context() as patch:
        patch.setattr(publisher, "settle", fail)
        with pytest.raises(UnavailableError, match="not finished"):
            join.publish(5, {PLACE: 9}, [])
    with pytest.raises(UnavailableError, match="is not known"):
        join.set_aside(poison(11))

    assert [record["batch"] for record in publisher.records] == [5]
