"""The S3 spolt, which runs and finds nothing to do while a file is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.jobs.links import ObjectsLink

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.config.specs import PipelineSpec
    from penstock.jobs.link import Planner, PlannerFactory, Task, Until
    from penstock.ports.state import State


@dataclass(frozen=True, slots=True)
class HeldPlanner:
    """A planner that finds nothing new while a file is there."""

    planner: Planner
    hold: Path

    def fix_end(self) -> None:
        """See `Planner`."""
        self.planner.fix_end()

    def has_work(self) -> bool:
        """See `Planner`."""
        return not self.hold.exists() and self.planner.has_work()

    def plan(self) -> Sequence[Task]:
        """See `Planner`."""
        return self.planner.plan()


@dataclass(frozen=True, slots=True)
class HeldPlanning:
    """Makes such a planner, in the process that Spark asks."""

    planning: PlannerFactory
    hold: Path

    def __call__(self) -> HeldPlanner:
        """Open the planner."""
        return HeldPlanner(self.planning(), self.hold)


class HeldObjects(ObjectsLink):
    """The S3 spolt, which rests while a file is there."""

    def __init__(self, pipeline: PipelineSpec, state: State, epoch: int, tasks_max: int, hold: Path) -> None:
        """Rest while `hold` is there; the rest as `ObjectsLink`."""
        super().__init__(pipeline, state, epoch, tasks_max)
        self._hold = hold

    def planning(self) -> PlannerFactory:
        """See `ObjectsLink`."""
        return HeldPlanning(super().planning(), self._hold)

    def follow(self, until: Until) -> None:
        """Follow nothing: what is measured is much, and for micro-batches."""
