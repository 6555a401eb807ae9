"""The streaming queries of a pipeline's links.

Each query gets a checkpoint that Spark removes with it: its own offsets say
nothing that the targets do not know better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.query import StreamingQuery

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.spark.stopping import Stopping


_UNTRACKED = {
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": str(24 * 3600 * 1000),
    "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
}
"""Spark's own books of offsets and commits, which nobody reads, are kept in memory: docs/decisions/0032."""


class FollowingQuery(StreamingQuery):
    """A query whose driver side follows its log within a micro-batch, which has to end before the query can."""

    def __init__(self, query: StreamingQuery, stopping: Stopping) -> None:
        """Be `query`."""
        super().__init__(query._jsq)  # noqa: SLF001 - it has no other way to be made
        self._stopping = stopping

    def stop(self) -> None:
        """End both."""
        self._stopping.stop()
        super().stop()


@dataclass(frozen=True, slots=True)
class QueryPlace:
    """Where queries run: the session, and whether they end when all is read."""

    session: SparkSession
    once: bool


def start_link_query(place: QueryPlace, link: str, carry: Callable[[DataFrame, int], None]) -> StreamingQuery:
    """Start a query whose first micro-batch begins at once; once through, there is one.

    What is in it, nobody reads: `carry` knows from its target where to go on, plans and
    runs jobs. So no Python process looks at a source or plans, and Spark's books say nothing.
    """
    frame = place.session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    writer: DataStreamWriter = frame.writeStream.queryName(link).foreachBatch(carry)
    if place.once:
        return writer.trigger(availableNow=True).start()
    return writer.options(**_UNTRACKED).trigger(processingTime="0 seconds").start()


def print_end(session: SparkSession, query: StreamingQuery) -> str:
    """What ended `query` as Java prints it, with every cause and its stack; "" if it ended by itself."""
    ended: Any = query._jsq.exception()  # noqa: SLF001 - PySpark's own exception has no causes
    if not ended.isDefined():
        return ""
    return str(session.sparkContext._jvm.org.apache.spark.util.Utils.exceptionString(ended.get()))  # type: ignore[union-attr]  # noqa: SLF001
