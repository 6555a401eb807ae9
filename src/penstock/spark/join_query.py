"""A join as a streaming query: Spark's Kafka source, Python workers that decode, the kernel, and our publisher.

Its checkpoint holds its state, and so it is kept. Spark begins a micro-batch again
that it does not know to be done: if the target has it, only the state is moved on.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from penstock.core.joins.blocks import unpack_differences
from penstock.core.joins.unreadable import split_blocks
from penstock.jobs.join_tasks import CompletedPacker, MessagePacker
from penstock.spark.finisher import note_of
from penstock.spark.join_kernel import BLOCKS, completed_blocks, join_blocks, run_blocks, stateful_session
from penstock.spark.moved_state import settle_state
from penstock.spark.worker_errors import Telling, as_told, new_token
from penstock.wiring.join_states import read_places
from penstock.wiring.open import spark_kafka_options

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.config.specs import PipelineSpec
    from penstock.jobs.link import JoinWork, RebuildWork
    from penstock.spark.queries import QueryPlace

OFFSETS_MAX = 200_000
_TRIGGER = "500 milliseconds"


class Finishing(Protocol):
    """Takes what comes of each micro-batch of a query, and what its workers tell by `token`."""

    token: str

    def __call__(self, frame: DataFrame, batch: int, /) -> None:
        """Take one micro-batch."""
        ...


@dataclass(slots=True)
class JoinFinisher:
    """Publishes what comes of each micro-batch, and keeps the error that ended it.

    A join that goes on as it was, and cannot any more, has `given_up`: that is no error.
    """

    work: JoinWork
    error: BaseException | None = None
    given_up: bool = False
    token: str = field(default_factory=new_token)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Take the differences of one micro-batch. Raises RuntimeError, of one line, for whatever goes wrong."""
        try:
            if self.work.has(batch):
                # Spark wants the plan to run, or it takes the state for lost.
                frame.write.format("noop").mode("overwrite").save()
                return
            found, unreadable = split_blocks(run_blocks(frame, differences_of(self.work.checkpoint)))
            differences = unpack_differences(found, len(self.work.job.streams))
            self.work.take(batch, read_places(self.work.checkpoint, batch), differences, unreadable)
        except BaseException as error:  # noqa: BLE001 - it is kept, and told
            # It stays if nobody can be told that the join stands still.
            self.error = told = as_told(error, self.token)
            if self.work.gives_up(told):
                self.given_up, self.error = True, None
            raise RuntimeError(note_of(told)) from None


def start_join_query(
    place: QueryPlace,
    spec: PipelineSpec,
    work: JoinWork | RebuildWork,
    finish: Finishing,
) -> StreamingQuery:
    """Start the query of a join, where its checkpoint stands. Raises as `settle_state` does."""
    settle_state(work.checkpoint)
    session = stateful_session(place.session, work.parallelism)
    options = {
        **spark_kafka_options(spec),
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": "true",
        "subscribe": ",".join(work.job.topics),
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(OFFSETS_MAX),
    }
    messages = session.readStream.format("kafka").options(**options).load()
    # A key is wanted of a tombstone alone, which has nothing else.
    columns = ("topic", "partition", "offset", "value", "IF(value IS NULL, key, NULL) AS key")
    packed = messages.selectExpr(*columns).mapInArrow(Telling(MessagePacker(spec, work.job), finish.token), BLOCKS)
    plan = work.job.plan
    if plan.partial:
        whole = Telling(CompletedPacker(work.job), finish.token)
        packed = completed_blocks(packed, plan.partial).mapInArrow(whole, BLOCKS)
    joined = join_blocks(packed, len(plan.inputs), plan.remembered, optional=plan.optional)
    work.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    # What a killed run has left.
    shutil.rmtree(differences_of(work.checkpoint), ignore_errors=True)
    writer = joined.writeStream.queryName(work.job.name).option("checkpointLocation", str(work.checkpoint))
    writer = writer.foreachBatch(finish)
    writer = writer.trigger(availableNow=True) if place.once else writer.trigger(processingTime=_TRIGGER)
    return writer.start()


def differences_of(checkpoint: Path) -> Path:
    """Where tasks write what comes of a micro-batch; each state has a folder of its own."""
    return checkpoint.parent / "differences" / checkpoint.name
