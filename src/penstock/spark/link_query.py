"""A link as a streaming query."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from penstock.jobs.link import JoinWork, MessageWork, PlannedWork, RebuildWork
from penstock.jobs.message_following import follow_messages, read_messages
from penstock.spark.finisher import Finisher
from penstock.spark.join_query import JoinFinisher, start_join_query
from penstock.spark.planned_rounds import PlannedRounds
from penstock.spark.queries import FollowingQuery, start_link_query
from penstock.spark.rebuild_query import (
    BesideQuery,
    BuildingFinisher,
    Round,
    is_last,
    next_round,
    start_building_query,
    start_last_round,
    switch_states,
)
from penstock.spark.stopping import Stopping

if TYPE_CHECKING:
    from collections.abc import Sequence
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
        self._finishers: Sequence[Finisher | JoinFinisher | BuildingFinisher] = ()
        self._round: Round | None = None
        self.goes_on = False

    def start(self, place: QueryPlace) -> StreamingQuery:
        """See `Supervised`."""
        self._finishers, self.goes_on = (), False
        match self._link.open():
            case PlannedWork() as work:
                return self._start_planned(place, work)
            case MessageWork() as work:
                return self._start_messages(place, work)
            case JoinWork() as work:
                return self._start_join(place, work)
            case RebuildWork() as work:
                return self._start_rebuild(place, work)
            case work:
                assert_never(work)

    def failure(self) -> BaseException | None:
        """See `Supervised`."""
        return next((each.error for each in self._finishers if each.error is not None), None)

    def close(self) -> None:
        """See `Supervised`."""
        self._link.close()

    def _start_planned(self, place: QueryPlace, work: PlannedWork) -> StreamingQuery:
        stopping = Stopping(self._halted)
        finisher = Finisher(PlannedRounds(place, work, stopping))
        self._finishers = (finisher,)
        return FollowingQuery(start_link_query(place, self.name, finisher), stopping)

    def _start_join(self, place: QueryPlace, work: JoinWork) -> StreamingQuery:
        finisher = JoinFinisher(work)
        self._finishers = (finisher,)
        query = start_join_query(place, self._spec, work, finisher)
        if work.until is None or place.once:
            return query
        self.goes_on = True
        return BesideQuery(query, work.until, lambda: finisher.given_up)

    def _start_rebuild(self, place: QueryPlace, work: RebuildWork) -> StreamingQuery:
        self.goes_on = True
        before, self._round = self._round, next_round(work)
        if self._round is None:
            switching = Finisher(lambda _: switch_states(place.session, work))
            self._finishers = (switching,)
            return start_link_query(replace(place, once=True), self.name, switching)
        building = BuildingFinisher(work)
        if work.going_on is None or is_last(self._round, before):
            self._finishers = (building,)
            return start_last_round(place, self._spec, work, building)
        return self._start_beside(place, work, work.going_on, building)

    def _start_beside(
        self, place: QueryPlace, work: RebuildWork, going_on: JoinWork, building: BuildingFinisher
    ) -> StreamingQuery:
        finisher = JoinFinisher(going_on)
        self._finishers = (building, finisher)
        query = start_join_query(place, self._spec, going_on, finisher)
        try:
            made = start_building_query(place, self._spec, work, building)
        except BaseException:
            query.stop()
            raise
        return BesideQuery(query, lambda: not made.isActive, lambda: finisher.given_up, made)

    def _start_messages(self, place: QueryPlace, work: MessageWork) -> StreamingQuery:
        stopping = Stopping(self._halted)

        def take(_: DataFrame) -> None:
            if stopping.wait(0.0):
                return
            if place.once:
                read_messages(self._spec, work, stopping.wait)
            else:
                follow_messages(self._spec, work, work.start, stopping.wait)

        finisher = Finisher(take)
        self._finishers = (finisher,)
        query = FollowingQuery(start_link_query(place, self.name, finisher), stopping)

        def end(error: BaseException) -> None:
            finisher.error = finisher.error or error
            query.stop()

        if not place.once:
            work.go_on(end)
        return query
