"""Each link of a pipeline as a query: what its driver side does with a micro-batch."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING, Protocol

import structlog

from penstock.config.sinks import DeltaSinkSpec
from penstock.links.capture.live import LeaseEnded
from penstock.links.capture.range_plan import RangeDropped, RangePublished
from penstock.links.counts import CarriedRows
from penstock.links.objects.plan import ObjectsPlan
from penstock.links.objects.publish import BatchPublisher
from penstock.links.objects.write import RangeWritten
from penstock.links.warehouse.load import WarehouseLoader
from penstock.spark.capture_tasks import CapturePlanning, Started
from penstock.spark.delta.open import open_lake_sink
from penstock.spark.finisher import Finisher
from penstock.spark.link_source import outcomes_by_part
from penstock.spark.objects_tasks import ObjectsPlanning
from penstock.spark.queries import QueryPlace, start_link_query, start_topic_query
from penstock.wiring.files import SWEEP_SECONDS, batch_reader, files_from, sweep_files
from penstock.wiring.open import (
    OBJECTS_LINK,
    batch_topic,
    create_ledgers,
    open_publisher,
    open_registry,
    spark_kafka_options,
)
from penstock.wiring.warehouses import open_sinks

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.core.tables import TableId
    from penstock.links.capture.spec import CaptureSpec
    from penstock.ports.sink import Sink
    from penstock.ports.state import State
    from penstock.spark.link_source import PlannerFactory

_log = structlog.get_logger()

_BATCHES_MAX = 500


class Link(Protocol):
    """One link of a running pipeline. After a failure, `close` and `start` it again."""

    @property
    def name(self) -> str:
        """What operators call it."""
        ...

    @property
    def brings_changes_in(self) -> bool:
        """Whether it reads something that no other link of the pipeline writes."""
        ...

    def start(self, place: QueryPlace) -> StreamingQuery:
        """Open what the driver side needs and start the query."""
        ...

    def failure(self) -> BaseException | None:
        """What ended the query on the driver side, as it was raised; None if nothing did."""
        ...

    def close(self) -> None:
        """Let go of what the driver side holds. Safe to call twice."""
        ...


class CaptureLink:
    """A source's log into Kafka."""

    brings_changes_in = True

    def __init__(self, spec: CaptureSpec, tasks_max: int) -> None:
        """Capture what `spec` says, with at most `tasks_max` tasks side by side."""
        self.name = spec.source_name
        self._spec = spec
        self._tasks_max = tasks_max
        self._finisher = Finisher(self._take)

    def start(self, place: QueryPlace) -> StreamingQuery:
        """See `Link`."""
        self._finisher.error = None
        planning = CapturePlanning(self._spec, self._tasks_max)
        return start_link_query(place, self.name, "penstock.mysql", planning, self._finisher)

    def failure(self) -> BaseException | None:
        """See `Link`."""
        return self._finisher.error

    def close(self) -> None:
        """See `Link`."""

    def _take(self, rows: pa.Table) -> None:
        published: list[RangePublished] = []
        for part in outcomes_by_part(rows):
            for outcome in part:
                match outcome:
                    case RangePublished():
                        published.append(outcome)
                    case _:
                        self._note(outcome)
        if published:
            through = max((each.position for each in published), key=lambda position: position.order)
            rows_carried = sum(each.rows for each in published)
            told = {"files": len(published), "through": str(through), "rows": rows_carried}
            _log.info("backlog published", source=self.name, **told)

    def _note(self, outcome: object) -> None:
        match outcome:
            case LeaseEnded(position, publications, rows):
                _log.info("lease ended", source=self.name, through=str(position), publications=publications, rows=rows)
            case Started(how):
                _log.info("capture started", source=self.name, how=how)
            case RangeDropped(begin, waited) if waited:
                _log.warning("a range had no turn", source=self.name, begin=str(begin), waited_seconds=round(waited))
            case RangeDropped():
                pass
            case _:
                raise TypeError(outcome)


class ObjectsLink:
    """The topics of all tables into files: the S3 spolt."""

    name = OBJECTS_LINK
    brings_changes_in = False

    def __init__(self, pipeline: PipelineSpec, state: State, epoch: int, tasks_max: int) -> None:
        """Write with at most `tasks_max` tasks side by side."""
        self._pipeline = pipeline
        self._counts = CarriedRows(self.name, state)
        self._epoch = epoch
        self._tasks_max = tasks_max
        self._publisher: BatchPublisher | None = None
        self._swept_at = -SWEEP_SECONDS
        self._finisher = Finisher(self._take)

    def start(self, place: QueryPlace) -> StreamingQuery:
        """See `Link`."""
        self._finisher.error = None
        create_ledgers(self._pipeline)
        publisher = open_publisher(self._pipeline, OBJECTS_LINK, self._epoch)
        self._publisher = BatchPublisher(publisher, batch_topic(self._pipeline), self._epoch)
        return start_link_query(place, self.name, "penstock.topics", self.planning(), self._finisher)

    def planning(self) -> PlannerFactory:
        """What makes the planner of its micro-batches."""
        return ObjectsPlanning(self._pipeline, self._tasks_max)

    def failure(self) -> BaseException | None:
        """See `Link`."""
        return self._finisher.error

    def close(self) -> None:
        """See `Link`."""
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None

    def _take(self, rows: pa.Table) -> None:
        plan: ObjectsPlan | None = None
        written: list[RangeWritten] = []
        for part in outcomes_by_part(rows):
            for outcome in part:
                match outcome:
                    case ObjectsPlan():
                        plan = outcome
                    case RangeWritten():
                        written.append(outcome)
                    case _:
                        raise TypeError(outcome)
        if plan is not None and self._publisher is not None:
            self._counts.add(self._publisher.publish(plan, written))
            self._sweep(self._publisher)

    def _sweep(self, publisher: BatchPublisher) -> None:
        """Delete old files, now and then."""
        if time.monotonic() - self._swept_at >= SWEEP_SECONDS:
            sweep_files(self._pipeline, publisher)
            self._swept_at = time.monotonic()


class WarehouseLink:
    """Files into the tables of one sink: the warehouse spolt."""

    brings_changes_in = False

    def __init__(self, pipeline: PipelineSpec, link: LinkSpec, state: State) -> None:
        """Load the tables that `link` wants."""
        self.name = link.name
        self._pipeline = pipeline
        self._link = link
        self._state = state
        self._loader: WarehouseLoader | None = None
        self._finisher = Finisher(self._take)

    def start(self, place: QueryPlace) -> StreamingQuery:
        """See `Link`."""
        self._finisher.error = None
        create_ledgers(self._pipeline)
        sinks = self._open_sinks(place)
        registry, read = open_registry(self._pipeline), batch_reader(self._pipeline)
        loader = self._loader = WarehouseLoader(self.name, sinks, registry, self._state, self._wanted, read)
        start = loader.start(files_from(self._pipeline))
        topic = batch_topic(self._pipeline)
        options = {
            **spark_kafka_options(self._pipeline),
            "assign": json.dumps({topic: [0]}),
            "startingOffsets": json.dumps({topic: {"0": start}}),
            "maxOffsetsPerTrigger": str(_BATCHES_MAX),
        }
        query = start_topic_query(place, self.name, options, self._finisher)
        if not place.once:
            loader.keep_trying(partial(self._end, query))
        return query

    def failure(self) -> BaseException | None:
        """See `Link`."""
        return self._finisher.error

    def close(self) -> None:
        """See `Link`."""
        if self._loader is not None:
            self._loader.close()
            self._loader = None

    def _open_sinks(self, place: QueryPlace) -> Sequence[Sink]:
        kind = self._pipeline.sink(self._link.sink)
        if isinstance(kind, DeltaSinkSpec):
            return [open_lake_sink(self._pipeline, self._link, kind, place.session)]
        return open_sinks(self._pipeline, self._link)

    def _end(self, query: StreamingQuery, error: BaseException) -> None:
        """End the query for what went wrong between two micro-batches."""
        self._finisher.error = self._finisher.error or error
        query.stop()

    def _wanted(self, source: str, table: TableId) -> bool:
        return source == self._link.source and self._link.patterns.matches(table)

    def _take(self, rows: pa.Table) -> None:
        if self._loader is None:
            return
        self._loader.load([(row["offset"], row["value"]) for row in rows.sort_by("offset").to_pylist()])
