"""The S3 spolt while little comes: rounds of a few rows on the driver, without a micro-batch for each.

What a round does is what a micro-batch does, planned by the same planner and done by
the same tasks. What is much is left to micro-batches.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.jobs.link import Planner
from penstock.jobs.pacing import Pacing
from penstock.jobs.rounds import do_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.jobs.link import PlannedWork, Until
    from penstock.links.objects.record import ObjectsRecord
    from penstock.ports.topics import TopicTail

_WAIT_SECONDS = 0.5
_LOOK_SECONDS = 5.0
"""How often topics are looked at, all of them, although nothing new came: whether they are there, say."""
_DRAINED_MAX = 10_000


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
    """Carries what little comes, `record` being what was committed last, at most once in `pace_seconds`."""

    planner: FollowingPlanner
    record: Callable[[], ObjectsRecord]
    open_tail: Callable[[Mapping[tuple[str, int], int]], TopicTail]
    pace_seconds: float

    def follow(self, work: PlannedWork, until: Until) -> None:
        """Do rounds of `work`. Returns when much waits, or when `until` says so; raises what a round raises."""
        with ExitStack() as opened:
            tail: TopicTail | None = None
            pacing = Pacing(self.pace_seconds)
            while not until(0.0):
                if tail is not None:
                    # What has come by now is in the plan; what comes from now on will not be missed.
                    tail.take(_DRAINED_MAX, 0.0)
                pacing.begin(time.monotonic())
                self.planner.know(self.record())
                if self.planner.has_work():
                    if self.planner.is_much():
                        return
                    do_tasks(work, self.planner.plan())
                    until(pacing.wait_seconds(time.monotonic()))
                    continue
                if tail is None:
                    tail = opened.enter_context(closing(self.open_tail(self.planner.starts())))
                tail.include(self.planner.starts())
                _await(tail, until)


def _await(tail: TopicTail, until: Until) -> None:
    """Return when something has come, or it is time to look."""
    deadline = time.monotonic() + _LOOK_SECONDS
    while not until(0.0) and time.monotonic() < deadline:
        if tail.take(_DRAINED_MAX, _WAIT_SECONDS):
            return
