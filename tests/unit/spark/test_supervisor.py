"""What the supervisor says of an error that Spark printed, and when it gives a link up."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from threading import Barrier
from typing import TYPE_CHECKING, cast

import pytest

from penstock.core.errors import DisplacedError, FencedError, LogPurgedError, PenstockError, UnavailableError
from penstock.spark import supervisor
from penstock.spark.queries import QueryPlace
from penstock.spark.supervisor import Supervisor, _explain
from penstock.wiring.mirror import LinkCondition

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.wiring.mirror import Conditions

_STORY = """\
org.apache.spark.sql.streaming.StreamingQueryException: Job aborted
\tat org.apache.spark.sql.execution.streaming.runtime.StreamExecution.run(StreamExecution.scala:1)
Caused by: java.lang.IllegalStateException: outer
\t... 3 more
Caused by: java.io.IOException: {}
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""


def test_a_full_disk_is_said_in_words() -> None:
    error = _explain("Spark ended link shopdb", _STORY.format("No space left on device"))

    assert error.message == "Spark ended link shopdb: a disk is full"
    assert "nothing is lost" in error.hint
    assert error.retryable


def test_the_innermost_cause_is_named() -> None:
    error = _explain("Spark ended link shopdb", _STORY.format("Connection reset"))

    assert error.message.startswith("Spark ended link shopdb: java.io.IOException: Connection reset")


def test_a_stack_is_left_to_the_log() -> None:
    error = _explain("Spark ended link shopdb", "java.io.EOFException\n\tat java.io.DataInputStream.readInt(D.java:1)")

    assert error.message == "Spark ended link shopdb: java.io.EOFException"


def test_a_python_process_that_was_killed_is_said_in_words() -> None:
    story = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n" + _STORY.format("EOF")
    error = _explain("Spark ended link shopdb", story)

    assert error.message == "Spark ended link shopdb: a Python process of Spark's ended in the middle of its work"
    assert error.retryable


class _Query:
    """A query that runs until it is stopped."""

    isActive = True  # noqa: N815 - Spark's name

    def stop(self) -> None:
        self.isActive = False

    def exception(self) -> None:
        return None


@dataclass
class _Target:
    """A link whose target is away for its first few starts."""

    name: str
    away: int
    starts: int = 0
    brings_changes_in: bool = False
    goes_on: bool = False

    def start(self, _place: QueryPlace) -> StreamingQuery:
        self.starts += 1
        if self.starts <= self.away:
            message = f"the target of {self.name} is away"
            raise UnavailableError(message, "start it")
        return cast("StreamingQuery", _Query())

    def failure(self) -> None:
        return None

    def close(self) -> None:
        return None


@dataclass
class _Until:
    """Servers that end the run when `is_over` says so."""

    is_over: Callable[[], bool]

    def ensure(self) -> None:
        if self.is_over():
            raise KeyboardInterrupt


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> QueryPlace:
    monkeypatch.setattr(supervisor, "_BACKOFF_SECONDS", (0.0, 0.0, 0.0))
    monkeypatch.setattr(supervisor, "_POLL_SECONDS", 0.0)
    return QueryPlace(cast("SparkSession", None), once=False)


def test_a_link_whose_target_is_away_for_long_goes_on_when_it_is_back_while_others_have_gone_on(
    place: QueryPlace,
) -> None:
    away, there = _Target("away", away=20), _Target("there", away=0)
    conditions: Conditions = {}
    runner = Supervisor([away, there], place, _Until(lambda: away.starts > away.away), conditions)

    with pytest.raises(KeyboardInterrupt):
        runner.run()

    assert (away.starts, there.starts) == (21, 1)
    assert (conditions["away"].state, conditions["away"].error, conditions["away"].failures) == ("running", "", 20)
    assert conditions["there"] == LinkCondition("running")


def test_links_that_all_lack_something_give_up(place: QueryPlace) -> None:
    links = [_Target("one", away=99), _Target("other", away=99)]

    with pytest.raises(UnavailableError, match="is away"):
        Supervisor(links, place, _Until(lambda: links[0].starts > 30), {}).run()

    assert all(link.starts < 10 for link in links)


@dataclass
class _AwayLater:
    """A link that runs until `ends`, and whose target is away for its next starts."""

    name: str
    away: int
    ends: Callable[[], bool]
    starts: int = 0
    brings_changes_in: bool = False
    goes_on: bool = False

    def start(self, _place: QueryPlace) -> StreamingQuery:
        self.starts += 1
        if 1 < self.starts <= self.away:
            raise self._error()
        return cast("StreamingQuery", _EndsWhen(self.ends) if self.starts == 1 else _Query())

    def failure(self) -> PenstockError | None:
        return self._error() if self.starts == 1 and self.ends() else None

    def close(self) -> None:
        return None

    def _error(self) -> PenstockError:
        return UnavailableError(f"the target of {self.name} is away", "start it")


@dataclass
class _EndsWhen:
    """A query that ends when `ends` says so."""

    ends: Callable[[], bool]

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        return not self.ends()

    def stop(self) -> None:
        return None

    def exception(self) -> None:
        return None


def test_a_link_that_recovered_from_an_outage_counts_as_going_when_another_one_is_away_later(
    place: QueryPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_HEALTHY_SECONDS", -1.0)
    recovered = _Target("recovered", away=8)
    away = _AwayLater("away", away=50, ends=lambda: recovered.starts > 8)
    conditions: Conditions = {}

    with pytest.raises(KeyboardInterrupt):
        Supervisor([recovered, away], place, _Until(lambda: away.starts > 50), conditions).run()

    assert (recovered.starts, conditions["away"].state) == (9, "running")


def test_links_that_fail_out_of_step_in_one_outage_all_go_on_after_it(place: QueryPlace) -> None:
    first, second = _Target("first", away=5), _Target("second", away=3)
    conditions: Conditions = {}
    runner = Supervisor([first, second], place, _Until(lambda: first.starts > 5), conditions)

    with pytest.raises(KeyboardInterrupt):
        runner.run()

    assert {name: each.state for name, each in conditions.items()} == {"first": "running", "second": "running"}


@dataclass
class _Source:
    """A link whose log is gone for good."""

    name: str
    brings_changes_in: bool = True
    goes_on: bool = False

    def start(self, _place: QueryPlace) -> StreamingQuery:
        message = f"the log of {self.name} was purged"
        raise LogPurgedError(message, "start a new pipeline with an initial snapshot")

    def failure(self) -> None:
        return None

    def close(self) -> None:
        return None


@dataclass
class _Carrier:
    """A link of what another one brings in: started once through, it ends by itself."""

    name: str
    starts: list[bool] = field(default_factory=list)
    away_at_the_end: bool = False
    brings_changes_in: bool = False
    goes_on: bool = False

    def start(self, place: QueryPlace) -> StreamingQuery:
        self.starts.append(place.once)
        if place.once and self.away_at_the_end:
            message = f"the target of {self.name} is away"
            raise UnavailableError(message, "start it")
        query = _Query()
        query.isActive = not place.once
        return cast("StreamingQuery", query)

    def failure(self) -> None:
        return None

    def close(self) -> None:
        return None


def test_a_run_whose_sources_have_all_failed_for_good_carries_what_is_there_and_ends_with_the_error(
    place: QueryPlace,
) -> None:
    looks = iter(range(100))
    files, target = _Carrier("objects"), _Carrier("to-target")
    services = _Until(lambda: next(looks, None) is None)
    supervisor = Supervisor([_Source("shopdb"), files, target], place, services, {})

    with pytest.raises(LogPurgedError, match="the log of shopdb was purged"):
        supervisor.run()

    assert files.starts == target.starts == [False, True]


def test_a_target_that_is_away_does_not_keep_a_run_whose_sources_have_failed(place: QueryPlace) -> None:
    files, target = _Carrier("objects"), _Carrier("to-target", away_at_the_end=True)
    supervisor = Supervisor([_Source("shopdb"), target, files], place, _Until(lambda: len(target.starts) > 30), {})

    with pytest.raises(LogPurgedError):
        supervisor.run()

    assert files.starts == [False, True]


def test_a_source_that_failed_for_good_leaves_another_one_going(place: QueryPlace) -> None:
    looks = iter(range(10))
    other = _Carrier("freightdb", brings_changes_in=True)
    conditions: Conditions = {}
    supervisor = Supervisor([_Source("shopdb"), other], place, _Until(lambda: next(looks, None) is None), conditions)

    with pytest.raises(KeyboardInterrupt):
        supervisor.run()

    assert (conditions["shopdb"].state, other.starts) == ("failed", [False])


@dataclass
class _Waiting(_Carrier):
    """A link whose start ends when all links' have begun."""

    all_begin: Barrier = field(kw_only=True)

    def start(self, place: QueryPlace) -> StreamingQuery:
        self.all_begin.wait(timeout=10)
        return super().start(place)


def test_links_start_side_by_side(place: QueryPlace) -> None:
    looks, all_begin = iter(range(3)), Barrier(3)
    links = [_Waiting(name, all_begin=all_begin) for name in ("shopdb", "objects", "to-target")]

    with pytest.raises(KeyboardInterrupt):
        Supervisor(links, place, _Until(lambda: next(looks, None) is None), {}).run()

    assert [link.starts for link in links] == [[False]] * 3


@dataclass
class _Taken:
    """A link that is taken over, by `ends` in turn, and then goes on."""

    name: str
    ends: list[type[PenstockError]]
    starts: int = 0
    brings_changes_in: bool = True
    goes_on: bool = False

    def start(self, _place: QueryPlace) -> StreamingQuery:
        self.starts += 1
        if self.ends:
            message = f"{self.name} was taken over"
            raise self.ends.pop(0)(message, "stop one of the two")
        return cast("StreamingQuery", _Query())

    def failure(self) -> None:
        return None

    def close(self) -> None:
        return None


def test_a_link_that_a_task_of_ours_took_over_is_taken_back(place: QueryPlace) -> None:
    link = _Taken("shopdb", [DisplacedError, DisplacedError])

    with pytest.raises(KeyboardInterrupt):
        Supervisor([link], place, _Until(lambda: link.starts > 2), {}).run()

    assert link.starts == 3


@pytest.mark.parametrize("ends", [[FencedError], [DisplacedError, FencedError], [DisplacedError] * 99])
def test_a_run_ends_when_another_instance_takes_over(place: QueryPlace, ends: list[type[PenstockError]]) -> None:
    link, other = _Taken("shopdb", list(ends)), _Carrier("freightdb", brings_changes_in=True)

    with pytest.raises(FencedError, match="shopdb was taken over"):
        Supervisor([link, other], place, _Until(lambda: link.starts > 20), {}).run()

    assert link.starts <= 4


@dataclass
class _InParts:
    """A link that has two queries, which end by themselves, ahead of the one that it is for."""

    name: str
    starts: int = 0
    brings_changes_in: bool = False

    @property
    def goes_on(self) -> bool:
        return self.starts < 3

    def start(self, place: QueryPlace) -> StreamingQuery:
        self.starts += 1
        query = _Query()
        query.isActive = self.starts == 3 and not place.once
        return cast("StreamingQuery", query)

    def failure(self) -> None:
        return None

    def close(self) -> None:
        return None


@pytest.mark.parametrize("once", [True, False])
def test_a_link_with_parts_to_do_first_is_started_again_after_each(place: QueryPlace, *, once: bool) -> None:
    link = _InParts("joined")
    looks = iter(range(20))
    runner = Supervisor([link], replace(place, once=once), _Until(lambda: next(looks, None) is None), {})

    with nullcontext() if once else pytest.raises(KeyboardInterrupt):
        runner.run()

    assert link.starts == 3
