"""A link as a streaming query."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from penstock.jobs.link import JoinWork, MessageWork, PlannedWork, RebuildWork
from penstock.jobs.message_following import follow_messages, read_messages
from penstock.spark.finisher import Finisher
from penstock.spark.join_query import (
    BuildingFinisher,
    JoinFinisher,
    is_built,
    start_building_query,
    start_join_query,
    switch_states,
)
from penstock.spark.planned_rounds import PlannedRounds
from penstock.spark.queries import FollowingQuery, start_link_query
from penstock.spark.stopping import Stopping

if TYPE_CHECKING:
    from threading import Event

    from pyspark.sql import DataFrame
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
        self._finisher: Finisher | JoinFinisher | BuildingFinisher | None = None
        self.goes_on = False

    def start(self, place: QueryPlace) -> StreamingQuery:
        """See `Supervised`."""
        self._finisher, self.goes_on = None, False
        match self._link.open():
            case PlannedWork() as work:
                return self._start_planned(place, work)
            case MessageWork() as work:
                return self._start_messages(place, work)
            case JoinWork() as work:
                self._finisher = finisher = JoinFinisher(work)
                return start_join_query(place, self._spec, work, finisher)
            case RebuildWork() as work:
                return self._start_rebuild(place, work)
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
        self._finisher = Finisher(PlannedRounds(place, work, stopping))
        return FollowingQuery(start_link_query(place, self.name, self._finisher), stopping)

    def _start_rebuild(self, place: QueryPlace, work: RebuildWork) -> StreamingQuery:
        self.goes_on = True
        if not is_built(work):
            self._finisher = building = BuildingFinisher(work)
            return start_building_query(place, self._spec, work, building)
        self._finisher = switching = Finisher(lambda _: switch_states(place.session, work))
        return start_link_query(replace(place, once=True), self.name, switching)

    def _start_messages(self, place: QueryPlace, work: MessageWork) -> StreamingQuery:
        stopping = Stopping(self._halted)

        def take(_: DataFrame) -> None:
            if stopping.wait(0.0):
                return
            if place.once:
                read_messages(self._spec, work, stopping.wait)
            else:
                follow_messages(self._spec, work, work.start, stopping.wait)

        finisher = self._finisher = Finisher(take)
        query = FollowingQuery(start_link_query(place, self.name, finisher), stopping)

        def end(error: BaseException) -> None:
            finisher.error = finisher.error or error
            query.stop()

        if not place.once:
            work.go_on(end)
        return query
