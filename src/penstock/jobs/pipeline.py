"""A whole pipeline: its links in stages, and what goes on beside them."""

from __future__ import annotations

from contextlib import ExitStack, closing, nullcontext
from itertools import chain
from typing import TYPE_CHECKING

from penstock.jobs.join_link import JoinLink
from penstock.jobs.links import CaptureLink, ObjectsLink, WarehouseLink
from penstock.jobs.spolt_link import SpoltLink
from penstock.links.capture.spec import CaptureSpec
from penstock.links.spolts.spec import spolt_job
from penstock.ports.state import STARTING
from penstock.wiring.epochs import next_epoch
from penstock.wiring.fills import open_fills
from penstock.wiring.heartbeat import Heartbeats
from penstock.wiring.identity import claim_state
from penstock.wiring.micro_batches import MicroBatches, run_tasks_once, sinks_with_tasks
from penstock.wiring.mirror import Conditions, LinkCondition, Mirror
from penstock.wiring.open import open_pipeline_state
from penstock.wiring.refresh_mirror import RefreshMirror
from penstock.wiring.scheduled_audits import ScheduledAudits
from penstock.wiring.scheduled_police import ScheduledPolice
from penstock.wiring.spolts import spolt_stages

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from penstock.core.errors import PenstockError
    from penstock.jobs.link import Link
    from penstock.jobs.runner import PipelineRun, Runner
    from penstock.ports.state import State


def run_pipeline(run: PipelineRun, runner: Runner) -> None:
    """Run the pipeline. Returns when `once` is done; otherwise only an exception ends it.

    Raises UsageError for an unknown `only` and a state database of another
    pipeline, FencedError when another instance takes over, and the error of a link
    that cannot go on when the others are through.
    """
    run.require_known()
    conditions: Conditions = {}
    epoch = next_epoch(run.spec)
    with closing(open_pipeline_state(run.spec)) as state:
        claim_state(run.spec, state)
        with (
            Mirror(run.spec, conditions),
            RefreshMirror(run.spec),
            _heartbeats(run, epoch, state),
            plan_audits(run),
            _police(run),
            _tasks(run),
        ):
            first = _run_stages(run, runner, epoch, state, conditions)
            filled: set[str] = set()
            # What links have asked for at their start, as their targets lack it.
            while first is None and run.once and run.only is None and (asked := open_fills(run.spec) - filled):
                filled |= asked
                first = _run_stages(run, runner, epoch, state, conditions)
            if run.once and run.only is None:
                error = run_tasks_once(run.spec)
                first = first or error
            if first is not None:
                raise first


def _run_stages(
    run: PipelineRun, runner: Runner, epoch: int, state: State, conditions: Conditions
) -> PenstockError | None:
    """Run all links; return the first error of one that cannot go on, which others carry past."""
    first: PenstockError | None = None
    stages = plan_stages(run, runner, epoch, state)
    for link in chain.from_iterable(stages):
        # Of links that are not in there, status says that this run does not run them.
        conditions.setdefault(link.name, LinkCondition(STARTING))
    for stage in stages:
        # What a link that gives up has brought in before is carried all the same.
        error = runner.run(run, stage, conditions)
        first = first or error
    return first


def _heartbeats(run: PipelineRun, epoch: int, state: State) -> AbstractContextManager[object]:
    """Write heartbeats while captures follow their logs; who is to end with what is committed now needs none."""
    if run.once:
        return nullcontext()
    sources = [source for source in run.spec.sources if run.only in {None, source.name}]
    return Heartbeats(run.spec, sources, epoch, state)


def plan_audits(run: PipelineRun) -> AbstractContextManager[object]:
    """Audit by schedule while the whole pipeline runs: one link alone does not bring a target up to date."""
    return nullcontext() if run.once or run.only is not None else ScheduledAudits(run.spec)


def _police(run: PipelineRun) -> AbstractContextManager[object]:
    """Keep topics as the file says while the whole pipeline runs, which it does under the leader's lock alone."""
    return nullcontext() if run.once or run.only is not None else ScheduledPolice(run.spec)


def _tasks(run: PipelineRun) -> AbstractContextManager[object]:
    """Run the tasks of sinks by their schedules while the whole pipeline runs; once through, they come behind all."""
    beside = ExitStack()
    for sink in sinks_with_tasks(run.spec) if not run.once and run.only is None else ():
        beside.enter_context(MicroBatches(run.spec, sink))
    return beside


def plan_stages(run: PipelineRun, runner: Runner, epoch: int, state: State) -> Sequence[Sequence[Link]]:
    """Links that run side by side. Once through, each stage begins when the one before has read everything."""
    slots, sources = runner.slots, run.spec.sources
    # Tasks of a backlog wait for each other, and so must all find a slot; where others run as well, they need one.
    backlog_tasks_max = max(1, (slots if run.once else slots - 1) // max(1, len(sources)))
    captures = [CaptureLink(CaptureSpec(run.spec, source.name, epoch), backlog_tasks_max) for source in sources]
    tasks_max = max(1, slots // 2)
    objects = ObjectsLink(run.spec, state, epoch, tasks_max, runner.offsets_per_task)
    warehouses = [WarehouseLink(run.spec, link, state, runner.open_sinks) for link in run.spec.links]
    spolts = [
        [
            SpoltLink(run.spec, spolt_job(run.spec, spolt.name), state, epoch, tasks_max, runner.open_expressions)
            for spolt in stage
        ]
        for stage in spolt_stages(run.spec)
    ]
    # A join may read what those before it in the file make.
    joins = [[JoinLink(run.spec, join.name, state, epoch, may_wait=not run.once)] for join in run.spec.joins]
    stages: Sequence[Sequence[Link]] = [captures, *joins, [objects], warehouses, *spolts]
    chosen = [[link for link in stage if run.only in {None, link.name}] for stage in stages]
    if run.once:
        return [stage for stage in chosen if stage]
    return [[link for stage in chosen for link in stage]]
