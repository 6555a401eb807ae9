"""A whole pipeline in one Spark application."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.errors import UsageError
from penstock.core.publication import CaptureRecord
from penstock.links.capture.spec import CaptureSpec
from penstock.links.objects.record import ObjectsRecord
from penstock.spark.links import CaptureLink, Link, ObjectsLink, WarehouseLink, link_name
from penstock.spark.queries import QueryPlace, register_sources
from penstock.spark.supervisor import Services, Supervisor
from penstock.wiring.mirror import Conditions, Mirror
from penstock.wiring.open import OBJECTS_LINK, committed_position, open_pipeline_state, open_topic_log

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        return (*sources, OBJECTS_LINK, *(link_name(link) for link in self.spec.links))


def run_pipeline(run: PipelineRun, session: SparkSession, services: Services) -> None:
    """Run the pipeline. Returns when `once` is done; otherwise only an exception ends it.

    Raises UsageError for an unknown `only`, FencedError when another instance takes
    over, and the error of a link that cannot go on when the others are through.
    """
    if run.only is not None and run.only not in run.link_names():
        message = f'there is no link "{run.only}" in this pipeline'
        raise UsageError(message, f"its links are: {', '.join(run.link_names())}")
    register_sources(session)
    place = QueryPlace(session, run.spec.home / "checkpoints", run.once)
    conditions: Conditions = {}
    with closing(open_pipeline_state(run.spec)) as state, Mirror(run.spec, conditions):
        for stage in _stages(run, session, state):
            Supervisor(stage, place, services, conditions).run()


def _stages(run: PipelineRun, session: SparkSession, state: State) -> Sequence[Sequence[Link]]:
    """Links that run side by side. Once through, each stage begins when the one before has read everything."""
    slots = session.sparkContext.defaultParallelism
    epoch = _next_epoch(run.spec)
    captures = [
        CaptureLink(CaptureSpec(run.spec, source.name, epoch), _ranges_max(slots)) for source in run.spec.sources
    ]
    objects = ObjectsLink(run.spec, state, epoch, max(1, slots // 2))
    warehouses = [WarehouseLink(run.spec, link, state) for link in run.spec.links]
    stages: Sequence[Sequence[Link]] = [captures, [objects], warehouses]
    chosen = [[link for link in stage if run.only in {None, link.name}] for stage in stages]
    if run.once:
        return [stage for stage in chosen if stage]
    return [[link for stage in chosen for link in stage]]


def _ranges_max(slots: int) -> int:
    return max(2, slots // 2)


def _next_epoch(spec: PipelineSpec) -> int:
    """One more than the highest number of an instance that ever published for this pipeline."""
    log = open_topic_log(spec)
    try:
        epochs = [0]
        for source in spec.sources:
            record = committed_position(spec, log, source.name)
            epochs.extend([] if record is None else [CaptureRecord.from_mapping(record).epoch])
        record = committed_position(spec, log, OBJECTS_LINK)
        epochs.extend([] if record is None else [ObjectsRecord.from_mapping(record).epoch])
    finally:
        log.close()
    return max(epochs) + 1
