"""A whole pipeline in one Spark application."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.errors import PenstockError, UsageError
from penstock.links.capture.spec import CaptureSpec
from penstock.links.spolts.spec import spolt_job
from penstock.spark.links import CaptureLink, Link, ObjectsLink, WarehouseLink
from penstock.spark.queries import QueryPlace, register_sources
from penstock.spark.spolt_link import SpoltLink
from penstock.spark.supervisor import Services, Supervisor
from penstock.wiring.epochs import next_epoch
from penstock.wiring.heartbeat import Heartbeats
from penstock.wiring.identity import claim_state
from penstock.wiring.mirror import Conditions, Mirror
from penstock.wiring.open import OBJECTS_LINK, open_pipeline_state
from penstock.wiring.spolts import spolt_stages

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from penstock.config.specs import PipelineSpec
    from penstock.ports.state import State


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """What to run: all links or the one called `only`; for ever, or `once` up to what is committed now."""

    spec: PipelineSpec
    once: bool = False
    only: str | None = None

    def link_names(self) -> tuple[str, ...]:
        """Every link of the pipeline."""
        sources = [source.name for source in self.spec.sources]
        spolts = [spolt.name for spolt in self.spec.spolts]
        return (*sources, *spolts, OBJECTS_LINK, *(link.name for link in self.spec.links))


def run_pipeline(run: PipelineRun, session: SparkSession, services: Services) -> None:
    """Run the pipeline. Returns when `once` is done; otherwise only an exception ends it, as `Supervisor.run` says.

    Raises UsageError for an unknown `only` and a state database of another
    pipeline, FencedError when another instance takes over, and the error of a link
    that cannot go on when the others are through.
    """
    if run.only is not None and run.only not in run.link_names():
        message = f'there is no link "{run.only}" in this pipeline'
        raise UsageError(message, f"its links are: {', '.join(run.link_names())}")
    register_sources(session)
    place = QueryPlace(session, run.spec.home / "checkpoints", run.once)
    conditions: Conditions = {}
    epoch = next_epoch(run.spec)
    with closing(open_pipeline_state(run.spec)) as state:
        claim_state(run.spec, state)
        with Mirror(run.spec, conditions), _heartbeats(run, epoch, state):
            stages = _stages(run, session, epoch, state)
            _run_in_turn([Supervisor(stage, place, services, conditions) for stage in stages])


def _run_in_turn(stages: Sequence[Supervisor]) -> None:
    """Run each when the one before is over. What a link that gives up has brought in before is carried all the same."""
    first: PenstockError | None = None
    for stage in stages:
        try:
            stage.run()
        except PenstockError as error:
            if error is not stage.gave_up:
                raise
            first = first or error
    if first is not None:
        raise first


def _heartbeats(run: PipelineRun, epoch: int, state: State) -> AbstractContextManager[object]:
    """Write heartbeats while captures follow their logs; who is to end with what is committed now needs none."""
    if run.once:
        return nullcontext()
    sources = [source for source in run.spec.sources if run.only in {None, source.name}]
    return Heartbeats(run.spec, sources, epoch, state)


def _stages(run: PipelineRun, session: SparkSession, epoch: int, state: State) -> Sequence[Sequence[Link]]:
    """Links that run side by side. Once through, each stage begins when the one before has read everything."""
    slots = session.sparkContext.defaultParallelism
    sources = run.spec.sources
    # Tasks of a backlog wait for each other, and so must all find a slot; where others run as well, they need one.
    backlog_tasks_max = (slots if run.once else slots - 1) // max(1, len(sources))
    captures = [CaptureLink(CaptureSpec(run.spec, source.name, epoch), backlog_tasks_max) for source in sources]
    objects = ObjectsLink(run.spec, state, epoch, max(1, slots // 2))
    warehouses = [WarehouseLink(run.spec, link, state) for link in run.spec.links]
    tasks_max = max(1, slots // 2)
    spolts = [
        [SpoltLink(run.spec, spolt_job(run.spec, spolt.name), state, epoch, tasks_max) for spolt in stage]
        for stage in spolt_stages(run.spec)
    ]
    stages: Sequence[Sequence[Link]] = [captures, [objects], warehouses, *spolts]
    chosen = [[link for link in stage if run.only in {None, link.name}] for stage in stages]
    if run.once:
        return [stage for stage in chosen if stage]
    return [[link for stage in chosen for link in stage]]
