"""What a link's driver side raises reaches us whole and Spark in one line, and a stop is no failure."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from structlog.testing import capture_logs

from penstock.core.errors import SinkError
from penstock.spark.delta.errors import explained
from penstock.spark.finisher import Finisher
from penstock.spark.queries import QueryPlace, start_link_query
from penstock.spark.supervisor import Supervisor
from penstock.wiring.mirror import LinkCondition

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.wiring.mirror import Conditions

_LONG = "py4j.protocol.Py4JJavaError: An error occurred while calling " + 5_000 * "o334.merge"
_SECONDS = 60


@pytest.fixture
def start(spark: SparkSession) -> Callable[[Finisher], StreamingQuery]:
    """Start a query whose micro-batches go to a finisher."""

    def started(finisher: Finisher) -> StreamingQuery:
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
        return rows.writeStream.foreachBatch(finisher).start()

    return started


def test_a_long_error_is_kept_as_it_was_and_told_to_spark_in_one_line(
    start: Callable[[Finisher], StreamingQuery],
) -> None:
    raised = SinkError(f"{_LONG}\nand so on", "none")

    def take(frame: DataFrame) -> None:  # noqa: ARG001 - whatever is in it
        raise raised

    finisher = Finisher(take)

    query = start(finisher)
    with pytest.raises(StreamingQueryException):
        query.awaitTermination(_SECONDS)

    assert finisher.error is raised
    told = query.status["message"]
    assert "RuntimeError: SinkError: py4j.protocol.Py4JJavaError: An error occurred" in told
    assert len(told) < 3_000


def test_where_an_error_comes_from_that_nobody_foresaw_is_logged(
    start: Callable[[Finisher], StreamingQuery],
) -> None:
    def take(frame: DataFrame) -> None:
        raise TypeError(frame.count())

    with capture_logs() as logged:
        query = start(Finisher(take))
        with pytest.raises(StreamingQueryException):
            query.awaitTermination(_SECONDS)

    (event,) = logged
    assert event["exc_info"].args == (3,)
    assert event["exc_info"].__traceback__ is not None


def test_spark_prints_no_stack_of_what_ends_a_query(
    spark: SparkSession, start: Callable[[Finisher], StreamingQuery]
) -> None:
    place = QueryPlace(spark, once=False)
    queries = [start(Finisher(lambda _: None)), start_link_query(place, "one", lambda _, __: None)]
    try:
        names = {query._jsq.streamingQuery().getClass().getName() for query in queries}
    finally:
        for query in queries:
            query.stop()

    loggers = spark.sparkContext._jvm.org.apache.logging.log4j.LogManager  # type: ignore[union-attr]
    assert len(names) == 2
    assert [name for name in names if loggers.getLogger(name).isErrorEnabled()] == []


@dataclass(slots=True)
class Broken:
    """A link whose query Spark ends, for a reason that our driver side does not know."""

    name: str = "broken"
    brings_changes_in: bool = True
    goes_on: bool = False

    def start(self, place: QueryPlace) -> StreamingQuery:
        def fail(frame: DataFrame, _batch: int) -> None:
            frame.selectExpr("raise_error('not of ours')").write.format("noop").mode("append").save()

        return start_link_query(place, self.name, fail)

    def failure(self) -> None:
        return None

    def close(self) -> None:
        """Nothing is held."""


def test_what_spark_ended_a_link_with_is_logged_with_its_causes(spark: SparkSession) -> None:
    conditions: Conditions = {}
    services = Until(lambda: "broken" in conditions and conditions["broken"].state == "retrying")

    with pytest.raises(KeyboardInterrupt), capture_logs() as logged:
        Supervisor([Broken()], QueryPlace(spark, once=False), services, conditions).run()

    story, again = logged[:2]
    assert (story["event"], again["event"]) == ("Spark ended a link", "link starts again")
    assert "not of ours" in story["story"]
    assert "\tat org.apache.spark" in story["story"]
    assert "Caused by: " in story["story"]
    assert again["hint"] == "the whole story is in the log"


@dataclass(frozen=True, slots=True)
class Until:
    """Interrupts the pipeline when `is_over` says so."""

    is_over: Callable[[], bool]

    def ensure(self) -> None:
        if self.is_over():
            raise KeyboardInterrupt


def run_a_job(spark: SparkSession) -> None:
    """Keep Spark busy for much longer than a test takes."""
    spark.range(10**13).selectExpr("sum(hash(id) % 7)").toArrow()


def run_a_job_for_a_lake(spark: SparkSession) -> None:
    """Do the same as a sink of Delta tables does."""
    with explained("merge shop.orders"):
        run_a_job(spark)


def sleep_in_the_jvm(spark: SparkSession) -> None:
    """Wait where Spark can only interrupt."""
    spark.sparkContext._jvm.java.lang.Thread.sleep(600_000)  # type: ignore[union-attr]


@dataclass(slots=True)
class Busy:
    """A link with work for longer than a test takes."""

    begin: Callable[[Finisher], StreamingQuery]
    work: Callable[[SparkSession], None]
    name: str = "busy"
    brings_changes_in: bool = True
    goes_on: bool = False
    begun: Event = field(default_factory=Event)
    first_job: int = 0
    finisher: Finisher = field(init=False)
    query: StreamingQuery = field(init=False)

    def start(self, place: QueryPlace) -> StreamingQuery:
        def take(frame: DataFrame) -> None:  # noqa: ARG001 - whatever is in it
            self.first_job = place.session.sparkContext._jsc.sc().dagScheduler().numTotalJobs()
            self.begun.set()
            self.work(place.session)

        self.finisher = Finisher(take)
        self.query = self.begin(self.finisher)
        return self.query

    def failure(self) -> BaseException | None:
        return self.finisher.error

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class CtrlC:
    """Interrupts the pipeline while its link works."""

    spark: SparkSession
    link: Busy

    def ensure(self) -> None:
        if self.link.begun.is_set():
            if self.link.work is not sleep_in_the_jvm:
                await_job(self.spark, self.link)
            raise KeyboardInterrupt


@pytest.mark.parametrize("work", [run_a_job, run_a_job_for_a_lake, sleep_in_the_jvm])
def test_a_link_that_is_stopped_at_its_work_has_not_failed(
    spark: SparkSession,
    start: Callable[[Finisher], StreamingQuery],
    work: Callable[[SparkSession], None],
) -> None:
    link, conditions = Busy(start, work), dict[str, LinkCondition]()

    with pytest.raises(KeyboardInterrupt), capture_logs() as logged:
        Supervisor([link], QueryPlace(spark, once=False), CtrlC(spark, link), conditions).run()

    assert conditions == {"busy": LinkCondition("running")}
    assert logged == []
    assert link.query.status["message"] == "Stopped"
    assert link.query.exception() is None


def test_a_link_whose_work_somebody_else_stops_has_failed(
    spark: SparkSession, start: Callable[[Finisher], StreamingQuery]
) -> None:
    link = Busy(start, run_a_job)
    query = link.start(QueryPlace(spark, once=False))
    assert link.begun.wait(_SECONDS)
    await_job(spark, link)

    query.stop()

    assert isinstance(link.failure(), Py4JJavaError)


def await_job(spark: SparkSession, link: Busy) -> None:
    """Wait until Spark works on the link's own job: one that begins behind a stop is not stopped by it."""
    deadline = time.monotonic() + _SECONDS
    while max(spark.sparkContext.statusTracker().getActiveJobsIds(), default=-1) < link.first_job:
        assert time.monotonic() < deadline
        time.sleep(0.01)
