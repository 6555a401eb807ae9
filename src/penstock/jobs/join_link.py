"""A join as a link: topics into a topic, through a state of all their rows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import structlog

from penstock.jobs.link import JoinWork
from penstock.links.counts import CarriedRows
from penstock.links.joins.record import NO_BATCH
from penstock.wiring.joins import forget_older_states, open_join
from penstock.wiring.open import create_ledgers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from penstock.config.specs import PipelineSpec
    from penstock.core.joins.unreadable import Unreadable
    from penstock.links.joins.publish import JoinPublisher
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
        self._publisher: JoinPublisher | None = None

    def open(self) -> JoinWork:
        """See `Link`."""
        create_ledgers(self._pipeline)
        opened = open_join(self._pipeline, self.name, self._epoch, may_wait=self._may_wait)
        publisher = self._publisher = opened.publisher
        record = publisher.record
        if record.generation > 1 and record.batch == NO_BATCH:
            # Its state was lost, or older than what the topic holds.
            _log.warning("join is made again from its topics", join=self.name, generation=record.generation)
        forget_older_states(self._pipeline, self.name, record.generation)
        return JoinWork(opened.job, opened.checkpoint, record.places, record.batch, publisher.has, self._take)

    def close(self) -> None:
        """See `Link`."""
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None

    def _take(
        self,
        batch: int,
        places: Mapping[tuple[str, int], int],
        differences: Sequence[pa.Table],
        unreadable: Sequence[Unreadable],
    ) -> None:
        if self._publisher is not None:
            count = self._publisher.publish(batch, places, differences, unreadable)
            for each in unreadable:
                place = f"{each.topic}/{each.partition} offset {each.offset}"
                _log.warning("message set aside as a dead letter", join=self.name, message=place, reason=each.reason)
            if count:
                self._counts.add({self.name: (count, time.time_ns() // 1_000_000)})
            _log.info("join published", join=self.name, batch=batch, changes=count)
