"""A join as a link: topics into a topic, through a state of all their rows."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import structlog

from penstock.core.errors import UnavailableError, UnknownStreamError
from penstock.jobs.link import JoinWork, RebuildWork
from penstock.links.counts import CarriedRows
from penstock.links.joins.record import NO_BATCH
from penstock.wiring.join_rebuild import OpenedRebuild, RefusedRebuild, open_rebuild
from penstock.wiring.join_states import flush_state, forget_other_states
from penstock.wiring.joins import OpenedJoin, open_join
from penstock.wiring.open import create_ledgers
from penstock.wiring.rebuild_marks import end_rebuild, note_refused, note_standing_still
from penstock.wiring.step_waits import waits_for_step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from penstock.config.specs import PipelineSpec
    from penstock.core.errors import PenstockError
    from penstock.core.joins.unreadable import Unreadable
    from penstock.links.joins.publish import JoinLetters
    from penstock.ports.state import State

_log = structlog.get_logger()


class JoinLink:
    """Topics into a topic: a join."""

    brings_changes_in = False

    def __init__(self, pipeline: PipelineSpec, name: str, state: State, epoch: int, *, may_wait: bool) -> None:
        """Make the join called `name`, which `may_wait` for tables that no capture has announced yet."""
        self.name = name
        self._pipeline = pipeline
        self._counts = CarriedRows(name, state)
        self._epoch = epoch
        self._may_wait = may_wait
        self._publisher: JoinLetters | None = None

    def open(self) -> JoinWork | RebuildWork:
        """See `Link`."""
        create_ledgers(self._pipeline)
        try:
            return self._open()
        except UnknownStreamError as error:
            if self._may_wait:
                raise UnavailableError(error.message, error.hint) from error
            raise

    def _open(self) -> JoinWork | RebuildWork:
        match open_rebuild(self._pipeline, self.name, self._epoch):
            case OpenedRebuild() as rebuild:
                return self._rebuild(rebuild)
            case OpenedJoin() as waiting:
                self._publisher = waiting.publisher
                return self._as_it_was(waiting, lambda: not waits_for_step(self._pipeline, self.name))
            case RefusedRebuild(as_it_was, error):
                self._publisher = as_it_was.publisher
                _log.warning("join is not made again", join=self.name, reason=error.message, hint=error.hint)
                return replace(self._as_it_was(as_it_was), stand_still=None)
            case None:
                return self._join()

    def _join(self) -> JoinWork:
        opened = open_join(self._pipeline, self.name, self._epoch)
        publisher = self._publisher = opened.publisher
        record = publisher.record
        if record.generation > 1 and record.batch == NO_BATCH:
            # Its state was lost, or older than what the topic holds.
            _log.warning("join is made again from its topics", join=self.name, generation=record.generation)
        forget_other_states(self._pipeline, self.name, record.generation)
        parallelism = self._pipeline.join(self.name).parallelism
        places, batch, take = record.places, record.batch, partial(self._take, opened)
        return JoinWork(opened.job, opened.checkpoint, places, batch, publisher.has, take, parallelism)

    def _as_it_was(self, opened: OpenedJoin, until: Callable[[], bool] | None = None) -> JoinWork:
        publisher = opened.publisher
        return JoinWork(
            job=opened.job,
            checkpoint=opened.checkpoint,
            places=publisher.record.places,
            batch=publisher.record.batch,
            has=publisher.has,
            take=partial(self._take, opened),
            until=until,
            stand_still=self._stand_still,
        )

    def _stand_still(self, error: PenstockError) -> None:
        note_standing_still(self._pipeline, self.name, self._epoch, error.message)
        _log.warning("join stands still while it is made again", join=self.name, reason=error.message)

    def _rebuild(self, opened: OpenedRebuild) -> RebuildWork:
        letters = self._publisher = opened.letters
        told = {"generation": opened.next_record.generation, "goes_on": opened.as_it_was is not None}
        _log.info("join is made again beside its output", join=self.name, **told)

        def switch(
            batch: int,
            places: Mapping[tuple[str, int], int],
            before: Sequence[pa.Table],
            after: Sequence[pa.Table],
        ) -> None:
            flush_state(opened.checkpoint)
            count = opened.switch(batch, places, before, after)
            end_rebuild(self._pipeline, self.name)
            self._count(count)
            _log.info("join goes on with its new state", join=self.name, batch=batch, changes=count)

        return RebuildWork(
            job=opened.job,
            checkpoint=opened.checkpoint,
            reaches=opened.reaches,
            standing=opened.standing,
            going_on=None if opened.as_it_was is None else self._as_it_was(opened.as_it_was),
            set_aside=lambda unreadable: self._tell(letters.set_aside(unreadable)),
            refuse=lambda error: note_refused(self._pipeline, self.name, self._epoch, error),
            switch=switch,
            parallelism=self._pipeline.join(self.name).parallelism,
        )

    def close(self) -> None:
        """See `Link`."""
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None

    def _take(
        self,
        opened: OpenedJoin,
        batch: int,
        places: Mapping[tuple[str, int], int],
        differences: Sequence[pa.Table],
        unreadable: Sequence[Unreadable],
    ) -> None:
        flush_state(opened.checkpoint)
        count = opened.publisher.publish(batch, places, differences, unreadable)
        self._tell(unreadable)
        self._count(count)
        _log.info("join published", join=self.name, batch=batch, changes=count)

    def _tell(self, unreadable: Sequence[Unreadable]) -> None:
        for each in unreadable:
            place = f"{each.topic}/{each.partition} offset {each.offset}"
            _log.warning("message set aside as a dead letter", join=self.name, message=place, reason=each.reason)

    def _count(self, changes: int) -> None:
        if changes:
            self._counts.add({self.name: (changes, time.time_ns() // 1_000_000)})
