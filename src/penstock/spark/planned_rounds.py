"""Rounds of a link whose work is planned on the driver, and done by tasks on executors."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from penstock.spark.link_tasks import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.jobs.link import PlannedWork, Planner
    from penstock.spark.queries import QueryPlace
    from penstock.spark.stopping import Stopping

_LOOK_SECONDS = 0.025
"""How often a planner that has found no work is asked again."""


@dataclass(slots=True)
class PlannedRounds:
    """What a link's query does in a micro-batch: a round when there is work, or, once through, all of them.

    Where the link stands is known by its target alone: each round is planned from
    the target's committed position. Nothing in Spark's own books says where to go on.
    """

    place: QueryPlace
    work: PlannedWork
    stopping: Stopping
    _planner: Planner | None = field(default=None, init=False)

    def __call__(self, _: DataFrame) -> None:
        """Do what one micro-batch does. Raises what planning, tasks and the driver side raise."""
        if self.place.once:
            planner = self.work.planning()
            planner.fix_end()
            while not self.stopping.wait(0.0) and planner.has_work():
                self._do(planner)
            return
        if self.work.follow is not None:
            # It returns when much waits, or when the link is to end.
            self.work.follow(self.stopping.wait)
        if self._await_work():
            self._do(self._open())

    def _await_work(self) -> bool:
        """Wait until there is work; False when the link is to end."""
        while not self.stopping.wait(0.0):
            if self._open().has_work():
                return True
            self.stopping.wait(_LOOK_SECONDS)
        return False

    def _do(self, planner: Planner) -> None:
        self.work.take(chain.from_iterable(run_tasks(self.place.session, planner.plan())))

    def _open(self) -> Planner:
        if self._planner is None:
            self._planner = self.work.planning()
        return self._planner
