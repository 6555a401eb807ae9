"""Runs links in this process, without Spark: once through, and an error ends its link at once.

Planners, tasks and driver sides are those that Spark runs. A pipeline of a few
rows takes a second here where Spark takes twenty, so this is what tests run
that are not about Spark, and what is to be interrupted at many places.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, assert_never

from penstock.core.errors import FencedError, PenstockError
from penstock.jobs.capture_tasks import TailSlice
from penstock.jobs.in_process_join import join_in_process, rebuild_in_process
from penstock.jobs.link import JoinWork, MessageWork, PlannedWork, RebuildWork
from penstock.jobs.message_following import read_messages
from penstock.jobs.pipeline import plan_stages, run_pipeline
from penstock.jobs.rounds import do_tasks
from penstock.jobs.runner import PipelineRun
from penstock.links.capture.spec import CaptureSpec
from penstock.wiring.capture_kinds import capture_kind
from penstock.wiring.mirror import LinkCondition
from penstock.wiring.open import open_pipeline_state
from penstock.wiring.warehouses import open_sinks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.core.transforms.changes import Evaluate
    from penstock.jobs.link import Link
    from penstock.ports.sink import Sink
    from penstock.wiring.mirror import Conditions


_TAIL_SLICE_SECONDS = 60.0


class InProcessRunner:
    """A `Runner` of links without Delta tables and expressions, which want Spark."""

    slots = 8
    # So few, for a pipeline that runs here has few rows, and large ranges are to be cut in pieces here too.
    offsets_per_task = 4

    def open_sinks(self, spec: PipelineSpec, link: LinkSpec) -> Sequence[Sink]:
        """See `Runner`."""
        return open_sinks(spec, link)

    def open_expressions(self) -> Evaluate:
        """See `Runner`."""
        message = "nothing here evaluates expressions"
        raise TypeError(message)

    def run(self, run: PipelineRun, links: Sequence[Link], conditions: Conditions) -> PenstockError | None:
        """See `Runner`: one after the other."""
        first: PenstockError | None = None
        for link in links:
            conditions[link.name] = LinkCondition("running")
            try:
                _carry(run.spec, link)
            except FencedError:
                raise
            except PenstockError as error:
                conditions[link.name] = LinkCondition("failed", error.message, error.hint)
                first = first or error
        return first


def carry(spec: PipelineSpec, only: str | None = None) -> None:
    """Bring everything over that is committed now, as `penstock run FILE --once` does; raises as `run_pipeline`.

    All servers of `spec` are named.
    """
    run_pipeline(PipelineRun(spec, once=True, only=only), InProcessRunner())


def carry_link(spec: PipelineSpec, name: str, epoch: int) -> None:
    """Bring over what is committed now by one link, as the instance `epoch`, and no more; raises what it raises."""
    run = PipelineRun(spec, once=True, only=name)
    run.require_known()
    with closing(open_pipeline_state(spec)) as state:
        ((link,),) = plan_stages(run, InProcessRunner(), epoch, state)
        _carry(spec, link)


def follow(spec: PipelineSpec, source: str, epoch: int) -> None:
    """Take a capture over, though there be nothing to do, and follow its log to where it ends now."""
    capture = CaptureSpec(spec, source, epoch)
    with closing(capture_kind(capture.source).log(capture.source)) as log:
        stop = log.head()
    for _ in TailSlice(capture, "in-process", 1, _TAIL_SLICE_SECONDS, stop).run():
        pass


def _carry(spec: PipelineSpec, link: Link) -> None:
    try:
        work = link.open()
        if isinstance(work, RebuildWork) and work.going_on is not None:
            # It goes on as it was, and is opened again when that ends.
            join_in_process(spec, work.going_on)
            link.close()
            work = link.open()
        match work:
            case PlannedWork():
                _do(work)
            case MessageWork():
                read_messages(spec, work, lambda _: False)
            case JoinWork():
                join_in_process(spec, work)
            case RebuildWork():
                rebuild_in_process(spec, work)
            case _:
                assert_never(work)
    finally:
        link.close()


def _do(work: PlannedWork) -> None:
    planner = work.planning()
    planner.fix_end()
    while planner.has_work():
        do_tasks(work, planner.plan())
