"""A join as a streaming query: Spark's Kafka source, Python workers that decode, the kernel, and our publisher.

Its checkpoint holds its state, and so it is kept. Spark begins a micro-batch again
that it does not know to be done: if the target has it, only the state is moved on.
"""

from __future__ import annotations

import pickle
import re
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.core.errors import PenstockError
from penstock.core.joins.blocks import unpack_differences
from penstock.core.joins.unreadable import MARK, split_blocks
from penstock.jobs.join_tasks import MessagePacker
from penstock.spark.finisher import note_of
from penstock.spark.join_kernel import BLOCKS, join_blocks, run_blocks, stateful_session
from penstock.spark.join_state import JoinStateReader
from penstock.spark.moved_state import settle_commit, settle_state
from penstock.wiring.join_states import committed_batches, read_places
from penstock.wiring.open import spark_kafka_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.config.specs import PipelineSpec
    from penstock.jobs.link import JoinWork, RebuildWork
    from penstock.spark.queries import QueryPlace

_OFFSETS_MAX = 200_000
_TRIGGER = "500 milliseconds"
_MARK = "penstock-error:"


@dataclass(frozen=True, slots=True)
class _Telling:
    """Packs messages, and tells our errors so that the driver can read them in what Spark prints."""

    pack: MessagePacker

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.pack(batches)
        except PenstockError as error:
            raise RuntimeError(_MARK + pickle.dumps(error).hex()) from None


def told_error(printed: str) -> PenstockError | None:
    """The error of ours that a worker told, if `printed` has one."""
    found = re.search(_MARK + "([0-9a-f]+)", printed)
    error = pickle.loads(bytes.fromhex(found.group(1))) if found else None  # noqa: S301 - written by our own workers
    return error if isinstance(error, PenstockError) else None


@dataclass(slots=True)
class JoinFinisher:
    """Publishes what comes of each micro-batch, and keeps the error that ended it."""

    work: JoinWork
    error: BaseException | None = None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Take the differences of one micro-batch. Raises RuntimeError, of one line, for whatever goes wrong."""
        try:
            if self.work.has(batch):
                # Spark wants the plan to run, or it takes the state for lost.
                frame.write.format("noop").mode("overwrite").save()
                return
            found, unreadable = split_blocks(run_blocks(frame, _differences(self.work.checkpoint)))
            differences = unpack_differences(found, len(self.work.job.streams))
            self.work.take(batch, read_places(self.work.checkpoint, batch), differences, unreadable)
        except BaseException as error:  # noqa: BLE001 - it is kept, and told
            self.error = told_error(str(error)) or error
            raise RuntimeError(note_of(self.error)) from None


@dataclass(slots=True)
class BuildingFinisher:
    """Passes over what comes of the micro-batches of a state that is made beside another one."""

    work: RebuildWork
    error: BaseException | None = None

    def __call__(self, frame: DataFrame, _batch: int) -> None:
        """Move the state on; see `JoinFinisher`."""
        try:
            aside = frame.filter(f"substring(value, 1, 4) = X'{MARK.hex()}'")
            self.work.set_aside(split_blocks(run_blocks(aside, _differences(self.work.checkpoint)))[1])
        except BaseException as error:  # noqa: BLE001 - it is kept, and told
            self.error = told_error(str(error)) or error
            raise RuntimeError(note_of(self.error)) from None


def start_join_query(place: QueryPlace, spec: PipelineSpec, work: JoinWork, finish: JoinFinisher) -> StreamingQuery:
    """Start the query of a join, where its checkpoint stands. Raises as `settle_state` does."""
    return _start(place, spec, work, finish)


def start_building_query(
    place: QueryPlace, spec: PipelineSpec, work: RebuildWork, finish: BuildingFinisher
) -> StreamingQuery:
    """Start a query that makes a state of all that is there now, and ends. Raises as `settle_state` does."""
    return _start(replace(place, once=True), spec, work, finish)


def is_built(work: RebuildWork) -> bool:
    """Whether a state that is made beside another one has come as far as it must."""
    batches = committed_batches(work.checkpoint)
    places = read_places(work.checkpoint, max(batches)) if batches else {}
    return bool(batches) and all(places.get(place, 0) >= offset for place, offset in work.reaches.items())


def switch_states(session: SparkSession, work: RebuildWork) -> None:
    """Publish what a state that is built makes of the output, and go over to it. Raises as `JoinStateReader`."""
    batch, folder = max(committed_batches(work.checkpoint)), _differences(work.checkpoint)
    before: Sequence[pa.Table] = []
    if work.standing is not None:
        standing = work.standing
        settle_state(standing.checkpoint)
        settle_commit(standing.checkpoint, standing.batch)
        before = JoinStateReader(session, standing.checkpoint, standing.batch).result(standing.job.plan, folder)
    after = JoinStateReader(session, work.checkpoint, batch).result(work.job.plan, folder)
    work.switch(batch, read_places(work.checkpoint, batch), before, after)


def _start(
    place: QueryPlace,
    spec: PipelineSpec,
    work: JoinWork | RebuildWork,
    finish: Callable[[DataFrame, int], None],
) -> StreamingQuery:
    settle_state(work.checkpoint)
    session = stateful_session(place.session, work.parallelism)
    options = {
        **spark_kafka_options(spec),
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": "true",
        "subscribe": ",".join(work.job.topics),
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(_OFFSETS_MAX),
    }
    messages = session.readStream.format("kafka").options(**options).load()
    packed = messages.select("topic", "partition", "offset", "value").mapInArrow(
        _Telling(MessagePacker(spec, work.job)), BLOCKS
    )
    plan = work.job.plan
    joined = join_blocks(packed, len(plan.inputs), plan.remembered, optional=plan.optional)
    work.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    # What a killed run has left.
    shutil.rmtree(_differences(work.checkpoint), ignore_errors=True)
    writer = joined.writeStream.queryName(work.job.name).option("checkpointLocation", str(work.checkpoint))
    writer = writer.foreachBatch(finish)
    writer = writer.trigger(availableNow=True) if place.once else writer.trigger(processingTime=_TRIGGER)
    return writer.start()


def _differences(checkpoint: Path) -> Path:
    """Where tasks write what comes of a micro-batch."""
    return checkpoint.parent / "differences"
