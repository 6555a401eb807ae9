"""A link as a streaming query."""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, assert_never

from penstock.jobs.link import JoinWork, MessageWork, PlannedWork
from penstock.jobs.message_following import MESSAGES_MAX, follow_messages
from penstock.spark.finisher import Finisher
from penstock.spark.join_query import JoinFinisher, start_join_query
from penstock.spark.link_source import outcomes_by_part
from penstock.spark.queries import FollowingQuery, start_link_query, start_topic_query
from penstock.spark.stopping import Stopping
from penstock.wiring.open import spark_kafka_options

if TYPE_CHECKING:
    from threading import Event

    import pyarrow as pa
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.config.specs import PipelineSpec
    from penstock.jobs.link import Link
    from penstock.spark.queries import QueryPlace


class LinkQuery:
    """A `Supervised` link: runs it as a query."""

    def __init__(self, spec: PipelineSpec, link: Link, halted: Event) -> None:
        """Run `link` of the pipeline `spec`; what it does by itself ends when `halted` is set."""
        self.name = link.name
        self.brings_changes_in = link.brings_changes_in
        self._spec = spec
        self._link = link
        self._halted = halted
        self._finisher: Finisher | JoinFinisher | None = None

    def start(self, place: QueryPlace) -> StreamingQuery:
        """See `Supervised`."""
        self._finisher = None
        match self._link.open():
            case PlannedWork() as work:
                return self._start_planned(place, work)
            case MessageWork() as work:
                return self._start_messages(place, work)
            case JoinWork() as work:
                self._finisher = finisher = JoinFinisher(work)
                return start_join_query(place, self._spec, work, finisher)
            case work:
                assert_never(work)

    def failure(self) -> BaseException | None:
        """See `Supervised`."""
        return None if self._finisher is None else self._finisher.error

    def close(self) -> None:
        """See `Supervised`."""
        self._link.close()

    def _start_planned(self, place: QueryPlace, work: PlannedWork) -> StreamingQuery:
        stopping = Stopping(self._halted)

        def take(rows: pa.Table) -> None:
            work.take(chain.from_iterable(outcomes_by_part(rows)))
            if work.follow is not None and not place.once:
                work.follow(stopping.wait)

        self._finisher = Finisher(take)
        query = start_link_query(place, self.name, f"penstock.{work.reads}", work.planning, self._finisher)
        return FollowingQuery(query, stopping)

    def _start_messages(self, place: QueryPlace, work: MessageWork) -> StreamingQuery:
        stopping = Stopping(self._halted)

        def take(rows: pa.Table) -> None:
            if stopping.wait(0.0):
                return
            messages = [(row["offset"], row["value"]) for row in rows.sort_by("offset").to_pylist()]
            work.take(messages)
            if messages and not place.once:
                # For as long as the query lives: Spark would bring all of it once more.
                follow_messages(self._spec, work, messages[-1][0] + 1, stopping.wait)

        options = {
            **spark_kafka_options(self._spec),
            "assign": json.dumps({work.topic: [0]}),
            "startingOffsets": json.dumps({work.topic: {"0": work.start}}),
            "maxOffsetsPerTrigger": str(MESSAGES_MAX),
        }
        finisher = self._finisher = Finisher(take)
        query = FollowingQuery(start_topic_query(place, self.name, options, finisher), stopping)

        def end(error: BaseException) -> None:
            finisher.error = finisher.error or error
            query.stop()

        if not place.once:
            work.go_on(end)
        return query
