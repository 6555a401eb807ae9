"""Runs the links of a pipeline as queries of one Spark session."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

from pyspark.java_gateway import ensure_callback_server_started

from penstock.config.sinks import DeltaSinkSpec
from penstock.core.errors import PenstockError
from penstock.jobs.objects_tasks import OFFSETS_PER_TASK
from penstock.spark.delta.open import open_lake_sink
from penstock.spark.expressions import SparkExpressions
from penstock.spark.link_query import LinkQuery
from penstock.spark.queries import QueryPlace
from penstock.spark.supervisor import Services, Supervisor
from penstock.wiring.warehouses import open_sinks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.core.transforms.changes import Evaluate
    from penstock.jobs.link import Link
    from penstock.jobs.runner import PipelineRun
    from penstock.ports.sink import Sink
    from penstock.wiring.mirror import Conditions


class SparkRunner:
    """A `Runner` with a session; each link is started again after a failure, as `Supervisor` says."""

    offsets_per_task = OFFSETS_PER_TASK

    def __init__(self, session: SparkSession, services: Services, halted: Event | None = None) -> None:
        """Run with `session`, by the servers that `services` keeps; once `halted` is set, nothing is written."""
        # Each query needs it, several start side by side, and what makes it is for one thread.
        ensure_callback_server_started(session.sparkContext._gateway)  # type: ignore[no-untyped-call]  # noqa: SLF001 - PySpark has no other way
        self.slots = session.sparkContext.defaultParallelism
        self._session = session
        self._services = services
        self._halted = halted or Event()

    def open_sinks(self, spec: PipelineSpec, link: LinkSpec) -> Sequence[Sink]:
        """See `Runner`."""
        kind = spec.sink(link.sink)
        if isinstance(kind, DeltaSinkSpec):
            return [open_lake_sink(spec, link, kind, self._session)]
        return open_sinks(spec, link)

    def open_expressions(self) -> Evaluate:
        """See `Runner`."""
        return SparkExpressions(self._session)

    def run(self, run: PipelineRun, links: Sequence[Link], conditions: Conditions) -> PenstockError | None:
        """See `Runner`."""
        place = QueryPlace(self._session, run.once)
        queries = [LinkQuery(run.spec, link, self._halted) for link in links]
        supervisor = Supervisor(queries, place, self._services, conditions)
        try:
            supervisor.run()
        except PenstockError as error:
            if error is not supervisor.gave_up:
                raise
            return error
        return None
