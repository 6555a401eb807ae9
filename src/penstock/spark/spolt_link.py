"""A spolt as a query: user code runs in the tasks, the driver publishes what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from penstock.links.counts import CarriedRows
from penstock.links.spolts.process import RangeProcessed
from penstock.spark.finisher import Finisher
from penstock.spark.link_source import outcomes_by_part
from penstock.spark.queries import start_link_query
from penstock.spark.spolt_driver import DriverProcessing
from penstock.spark.spolt_tasks import HandOver, SpoltLinkPlanning
from penstock.wiring.open import create_ledgers
from penstock.wiring.spolts import open_spolt_publisher, reads_foreign_topics

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.config.specs import PipelineSpec
    from penstock.links.spolts.publish import SpoltPublisher
    from penstock.links.spolts.spec import SpoltJob
    from penstock.ports.state import State
    from penstock.spark.queries import QueryPlace

_log = structlog.get_logger()


class SpoltLink:
    """Topics into topics, through user code."""

    def __init__(self, pipeline: PipelineSpec, job: SpoltJob, state: State, epoch: int, tasks_max: int) -> None:
        """Process with at most `tasks_max` tasks side by side."""
        self.name = job.spolt.name
        self.brings_changes_in = reads_foreign_topics(pipeline, job.spolt)
        self._pipeline = pipeline
        self._job = job
        self._state = state
        self._counts = CarriedRows(self.name, state)
        self._epoch = epoch
        self._tasks_max = tasks_max
        self._publisher: SpoltPublisher | None = None
        self._processing: DriverProcessing | None = None
        self._finisher = Finisher(self._take)

    def start(self, place: QueryPlace) -> StreamingQuery:
        """See `Link`."""
        self._finisher.error = None
        create_ledgers(self._pipeline)
        self._publisher = open_spolt_publisher(self._pipeline, self.name, self._epoch)
        if self._job.spolt.has_expressions:
            self._processing = DriverProcessing(place.session, self._pipeline, self._job)
        planning = SpoltLinkPlanning(self._pipeline, self._job, self._tasks_max)
        return start_link_query(place, self.name, "penstock.topics", planning, self._finisher)

    def failure(self) -> BaseException | None:
        """See `Link`."""
        return self._finisher.error

    def close(self) -> None:
        """See `Link`."""
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None
        if self._processing is not None:
            self._processing.close()
            self._processing = None

    def _take(self, rows: pa.Table) -> None:
        done: list[RangeProcessed] = []
        for part in outcomes_by_part(rows):
            for outcome in part:
                match outcome:
                    case RangeProcessed():
                        done.append(outcome)
                    case HandOver(ranges) if self._processing is not None:
                        done += self._processing.process(ranges)
                    case _:
                        raise TypeError(outcome)
        if done and self._publisher is not None:
            self._counts.add(self._publisher.publish(done))
            self._report(done)

    def _report(self, done: list[RangeProcessed]) -> None:
        letters = [letter for part in done for letter in part.letters]
        _log.info(
            "spolt published",
            spolt=self.name,
            messages=sum(part.count for part in done),
            published=sum(len(each) for part in done for each in part.messages),
            dead_letters=len(letters),
        )
        for letter in letters[:10]:
            _log.warning("dead letter", spolt=self.name, message=letter.message.place, error=letter.error)
