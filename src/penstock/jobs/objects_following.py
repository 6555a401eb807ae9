"""The S3 spolt while little comes: rounds of a few rows on the driver, without a micro-batch for each.

What a round does is what a micro-batch does, planned by the same planner and done by
the same tasks. What is much is left to micro-batches.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.jobs.link import Planner
from penstock.jobs.pacing import Pacing
from penstock.jobs.rounds import do_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.jobs.link import PlannedWork, Until
    from penstock.links.objects.followed_log import FollowedLog
    from penstock.links.objects.record import ObjectsRecord

_WAIT_SECONDS = 0.5
_SETTLED_SECONDS = 1.0
"""How soon behind the last rows topics are asked for their ends: a tail does not see the marker behind these."""
_LOOK_SECONDS = 5.0
"""How often topics are looked at, all of them, whatever a tail tells: whether they are there, say."""


class FollowingPlanner(Planner, Protocol):
    """A planner that can be used beside Spark's; it plans from the record that it is told."""

    def know(self, record: ObjectsRecord) -> None:
        """Plan from `record` next."""
        ...

    def is_much(self) -> bool:
        """Whether what `has_work` has found is to be left to tasks on Spark."""
        ...

    def starts(self) -> Mapping[tuple[str, int], int]:
        """From which offset on each (topic, partition) has something new."""
        ...


@dataclass(frozen=True, slots=True)
class ObjectsFollower:
    """Carries what little comes, `record` being what was committed last, at most once in `pace_seconds`.

    `log` is what the planner, and the tasks that it plans, read.
    """

    planner: FollowingPlanner
    log: FollowedLog
    record: Callable[[], ObjectsRecord]
    pace_seconds: float

    def follow(self, work: PlannedWork, until: Until) -> None:
        """Do rounds of `work`. Returns when much waits, or when `until` says so; raises what a round raises."""
        pacing, looked_at = Pacing(self.pace_seconds), time.monotonic()
        # What others have carried since is not to be held.
        self.log.forget()
        while not until(0.0):
            began = time.monotonic()
            pacing.begin(began)
            self.planner.know(self.record())
            has_work = self.planner.has_work()
            if has_work and self.planner.is_much():
                return
            if has_work:
                do_tasks(work, self.planner.plan())
            self.planner.know(self.record())
            self.log.follow(self.planner.starts())
            until(pacing.wait_seconds(time.monotonic()))
            came = self._await(until, _SETTLED_SECONDS if has_work else _LOOK_SECONDS)
            if not came or time.monotonic() - looked_at > _LOOK_SECONDS:
                looked_at = time.monotonic()
                self.log.look()

    def _await(self, until: Until, seconds: float) -> bool:
        """Return whether something came before it was time to look."""
        deadline = time.monotonic() + seconds
        while not until(0.0) and time.monotonic() < deadline:
            if self.log.gather(_WAIT_SECONDS):
                return True
        return False
