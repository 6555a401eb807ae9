"""Tells the state database which tables are not read from their topics any more, for `status` and its like."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import structlog

from penstock.core.tables import TableId
from penstock.core.topic_fingerprints import empty_join

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec
    from penstock.links.objects.record import ObjectsRecord, StoppedReading
    from penstock.ports.state import State

_log = structlog.get_logger()


class StoppedReadings:
    """What was told last of the tables that the S3 spolt, here called `link`, has stopped to read."""

    def __init__(self, spec: PipelineSpec, link: str, state: State) -> None:
        """Nothing was told by this process."""
        self._spec = spec
        self._link = link
        self._state = state
        self._told: dict[str, str] | None = None

    def tell(self, record: ObjectsRecord) -> None:
        """Tell what has changed; a table that `tables` leaves out by now waits for nobody."""
        stopped = {why.table: (_error(why), self._hint(why)) for why in record.stopped.values() if self._is_wanted(why)}
        if self._told is None:
            self._told = dict(self._state.stopped_tables(self._link))
        for table in self._told.keys() - stopped.keys():
            self._state.resume_table(self._link, table)
            del self._told[table]
        for table, (error, hint) in stopped.items():
            if self._told.get(table) != error:
                self._state.stop_table(self._link, table, error, hint, time.time_ns() // 1_000_000)
                self._told[table] = error
                _log.error("table stopped", link=self._link, table=table, error=error, hint=hint)

    def _is_wanted(self, why: StoppedReading) -> bool:
        sources = {source.name: source for source in self._spec.sources}
        if why.source in sources:
            return sources[why.source].patterns.matches(TableId.parse(why.table))
        return self._is_joined(why)

    def _is_joined(self, why: StoppedReading) -> bool:
        return any(join.name == why.source for join in self._spec.joins)

    def _hint(self, why: StoppedReading) -> str:
        """What brings the table back: a join's has no snapshots."""
        return empty_join(why.source) if self._is_joined(why) else why.hint


def _error(why: StoppedReading) -> str:
    went = f"table {why.table} was dropped or got another name after it had stopped: "
    return went + why.error if why.is_gone else why.error
