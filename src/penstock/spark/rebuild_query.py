"""A join that is made again, in rounds: each reads what is there when it begins, and the join as it was goes on beside.

When what is left is little, that stands still for one more round, and the output goes over.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql.streaming.query import StreamingQuery

from penstock.core.joins.unreadable import MARK, split_blocks
from penstock.spark.finisher import note_of
from penstock.spark.join_kernel import run_blocks
from penstock.spark.join_query import OFFSETS_MAX, differences_of, start_join_query
from penstock.spark.join_state import JoinStateReader
from penstock.spark.moved_state import settle_commit, settle_state
from penstock.spark.worker_errors import as_told, new_token
from penstock.wiring.join_states import committed_batches, flush_state, newest_places, read_places

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from pyspark.errors.exceptions.base import StreamingQueryException
    from pyspark.sql import DataFrame, SparkSession

    from penstock.config.specs import PipelineSpec
    from penstock.jobs.link import RebuildWork
    from penstock.spark.queries import QueryPlace


@dataclass(slots=True)
class BuildingFinisher:
    """Passes over what comes of the micro-batches of a state that is made beside another one."""

    work: RebuildWork
    error: BaseException | None = None
    token: str = field(default_factory=new_token)

    def __call__(self, frame: DataFrame, _batch: int) -> None:
        """Move the state on; see `JoinFinisher`."""
        try:
            aside = frame.filter(f"substring(value, 1, 4) = X'{MARK.hex()}'")
            self.work.set_aside(split_blocks(run_blocks(aside, differences_of(self.work.checkpoint)))[1])
            # No record names it yet, and what Spark has noted of it must be there behind a power cut all the same.
            flush_state(self.work.checkpoint)
        except BaseException as error:  # noqa: BLE001 - it is kept, and told
            self.error = self.work.without_it(as_told(error, self.token))
            raise RuntimeError(note_of(self.error)) from None


class BesideQuery(StreamingQuery):
    """A query that is over when something else is, and not before: also once it has come to its own end.

    That is a join that goes on as it was, while it is made again or waits for another step that is, and that may
    have given up meanwhile; and the last round of a state that is made, over when the state has come far enough.
    """

    def __init__(
        self,
        query: StreamingQuery,
        until: Callable[[], bool],
        has_given_up: Callable[[], bool],
        building: StreamingQuery | None = None,
    ) -> None:
        """Be `query`, and `building` as well: what ends one of them with an error ends both."""
        super().__init__(query._jsq)  # noqa: SLF001 - it has no other way to be made
        self._until = until
        self._has_given_up = has_given_up
        self._building = building

    @property
    def isActive(self) -> bool:  # noqa: N802 - PySpark's name
        """Whether nothing has ended it."""
        return self.exception() is None and not self._until()

    def exception(self) -> StreamingQueryException | None:
        """What ended it, if that was an error."""
        own = None if self._has_given_up() else super().exception()
        return own or (None if self._building is None else self._building.exception())

    def stop(self) -> None:
        """End it, and `building`."""
        try:
            if self._building is not None:
                self._building.stop()
        finally:
            super().stop()


@dataclass(frozen=True, slots=True)
class Round:
    """How far a state that is made is when a round of it begins: messages it has `read`, and those it is `behind`."""

    read: int
    behind: int

    def is_futile(self, before: Round | None) -> bool:
        """Whether one round came to its end since `before`, and nothing was gained: the join goes on as fast as that.

        What a round reads is at least what the state was behind when it began.
        """
        return before is not None and self.read - before.read >= before.behind and self.behind >= before.behind


def next_round(work: RebuildWork) -> Round | None:
    """The round that is to come; None where the state has come as far as it must."""
    places = newest_places(work.checkpoint)
    found = Round(
        read=sum(places.get(place, 0) for place in work.reaches),
        behind=sum(max(0, offset - places.get(place, 0)) for place, offset in work.reaches.items()),
    )
    return None if places and not found.behind else found


def is_last(round_: Round, before: Round | None) -> bool:
    """Whether the join as it was is to stand still in a round: one micro-batch is left, or it will never be less."""
    return (round_.read > 0 and round_.behind <= OFFSETS_MAX) or round_.is_futile(before)


def start_building_query(
    place: QueryPlace, spec: PipelineSpec, work: RebuildWork, finish: BuildingFinisher
) -> StreamingQuery:
    """Start a query that makes a state of all that is there now, and ends. Raises as `settle_state` does."""
    return start_join_query(replace(place, once=True), spec, work, finish)


def start_last_round(
    place: QueryPlace, spec: PipelineSpec, work: RebuildWork, finish: BuildingFinisher
) -> StreamingQuery:
    """Start a query that brings a state as far as it must come, and no further: its output stands still meanwhile."""
    made = start_building_query(place, spec, work, finish)
    return BesideQuery(made, lambda: not made.isActive or next_round(work) is None, lambda: False)


def switch_states(session: SparkSession, work: RebuildWork) -> None:
    """Publish what a state that is built makes of the output, and go over to it. Raises as `JoinStateReader`."""
    batch, folder = max(committed_batches(work.checkpoint)), differences_of(work.checkpoint)
    before: Sequence[pa.Table] = []
    if work.standing is not None:
        standing = work.standing
        settle_state(standing.checkpoint)
        settle_commit(standing.checkpoint, standing.batch)
        before = JoinStateReader(session, standing.checkpoint, standing.batch).result(standing.job.plan, folder)
    after = JoinStateReader(session, work.checkpoint, batch).result(work.job.plan, folder)
    work.switch(batch, read_places(work.checkpoint, batch), before, after)
