"""A spolt as a link: user code runs in the tasks, the driver publishes what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from penstock.jobs.link import PlannedWork
from penstock.jobs.spolt_driver import DriverProcessing
from penstock.jobs.spolt_tasks import HandOver, SpoltLinkPlanning
from penstock.links.counts import CarriedRows
from penstock.links.spolts.process import RangeProcessed
from penstock.wiring.open import create_ledgers
from penstock.wiring.spolts import open_spolt_publisher, reads_foreign_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.config.specs import PipelineSpec
    from penstock.core.transforms.changes import Evaluate
    from penstock.links.spolts.publish import SpoltPublisher
    from penstock.links.spolts.spec import SpoltJob
    from penstock.ports.state import State

_log = structlog.get_logger()


class SpoltLink:
    """Topics into topics, through user code."""

    def __init__(
        self,
        pipeline: PipelineSpec,
        job: SpoltJob,
        state: State,
        epoch: int,
        tasks_max: int,
        open_expressions: Callable[[], Evaluate],
    ) -> None:
        """Process with at most `tasks_max` tasks side by side; expressions with what `open_expressions` opens."""
        self.name = job.spolt.name
        self.brings_changes_in = reads_foreign_topics(pipeline, job.spolt)
        self._pipeline = pipeline
        self._job = job
        self._counts = CarriedRows(self.name, state)
        self._epoch = epoch
        self._tasks_max = tasks_max
        self._open_expressions = open_expressions
        self._publisher: SpoltPublisher | None = None
        self._processing: DriverProcessing | None = None

    def open(self) -> PlannedWork:
        """See `Link`."""
        create_ledgers(self._pipeline)
        self._publisher = open_spolt_publisher(self._pipeline, self.name, self._epoch)
        if self._job.spolt.has_expressions:
            self._processing = DriverProcessing(self._open_expressions(), self._pipeline, self._job)
        return PlannedWork("topics", SpoltLinkPlanning(self._pipeline, self._job, self._tasks_max), self._take)

    def close(self) -> None:
        """See `Link`."""
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None
        if self._processing is not None:
            self._processing.close()
            self._processing = None

    def _take(self, outcomes: Iterable[object]) -> None:
        done: list[RangeProcessed] = []
        for outcome in outcomes:
            match outcome:
                case RangeProcessed():
                    done.append(outcome)
                case HandOver(ranges) if self._processing is not None:
                    done += self._processing.process(ranges)
                case _:
                    raise TypeError(outcome)
        # A partition that stands at a message with a fault adds nothing, and its record is there already.
        moved = [part for part in done if part.read_to > part.range.start or part.fault is None]
        if moved and self._publisher is not None:
            self._counts.add(self._publisher.publish(moved))
            self._report(moved)
        fault = next((part.fault for part in done if part.fault is not None), None)
        if fault is not None:
            raise fault

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
