"""Loading batches into one sink, table by table."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog

from penstock.config.crash_points import CrashPoint
from penstock.core.avro.schemas import table_schema
from penstock.core.batches import read_batch
from penstock.core.errors import TableStoppedError, UnavailableError
from penstock.core.publication import count_rows
from penstock.core.tables import TableId
from penstock.links.counts import CarriedRows
from penstock.links.objects.retention import require_files
from penstock.links.warehouse.side_by_side import SideBySide

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from penstock.core.announcements import Move
    from penstock.core.batches import Batch
    from penstock.core.tables import TableSchema
    from penstock.ports.registry import Registry
    from penstock.ports.sink import Loaded, Sink
    from penstock.ports.state import State

_log = structlog.get_logger()

_TRY_AGAIN_SECONDS = 90.0
"""How long a table waits that somebody holds: longer than a link must run to count as well again."""
_FINISHED = CrashPoint(
    "load.finished", "tables and the batch topic's offset are committed, the figures of status are not"
)


class WarehouseLoader:
    """Loads the batch topic into a sink. A table that cannot go on waits; the others do not."""

    def __init__(
        self,
        link: str,
        sink: Sink | Sequence[Sink],
        registry: Registry,
        state: State,
        wanted: Callable[[str, TableId], bool],
    ) -> None:
        """Load into `sink` the tables that are `wanted`, asked by source and table.

        Several sinks of one target load tables side by side, a table in one of
        them at a time.
        """
        sinks = sink if isinstance(sink, Sequence) else [sink]
        self._link = link
        self._sink = sinks[0]
        self._side_by_side = SideBySide(sinks)
        self._registry = registry
        self._state = state
        self._counts = CarriedRows(link, state)
        self._wanted = wanted
        self._stalled: dict[TableId, int] = {}
        self._try_again_at: float | None = None
        self._notes: dict[TableId, str] = {}

    def start(self, files_from: int = 0) -> int:
        """Return the offset of the batch topic to read from; tables that were stalled are tried again.

        Raises PositionError if files are gone that the target needs: those of batches before `files_from` may be.
        """
        offset = self._sink.batch_offset()
        require_files(self._link, offset, files_from)
        for table in self._state.stopped_tables(self._link):
            self._state.resume_table(self._link, table)
        self._counts.add({}, offset)
        return offset

    def close(self) -> None:
        """Let go of the sinks and the registry."""
        self._side_by_side.close()
        self._registry.close()

    def load(self, messages: Sequence[tuple[int, bytes]]) -> int:
        """Load (offset, batch message) pairs, in order; return how many rows were new.

        Raises UnavailableError, to be started again, when a table has waited long
        enough for somebody to let go of it.
        """
        if self._try_again_at is not None and time.monotonic() >= self._try_again_at:
            reason = f"a table that {self._link} could not have is tried again"
            raise UnavailableError(reason, "see penstock status for the table, and who holds it")
        waiting: dict[TableId, list[tuple[int, Batch]]] = defaultdict(list)
        loaded: dict[str, tuple[int, int]] = {}
        renamed: tuple[int, int, int] | None = None
        for offset, message in messages:
            batch = read_batch(offset, message)
            if not self._wanted(batch.source, batch.table):
                continue
            if batch.moves and batch.first_order != renamed:
                loaded = self._load_tables(waiting, loaded)
                self._rename(offset, batch)
                renamed = batch.first_order
            waiting[batch.table].append((offset, batch))
        loaded = self._load_tables(waiting, loaded)
        if messages:
            self._sink.finish(min([messages[-1][0] + 1, *self._stalled.values()]))
            _FINISHED.pass_by()
            self._counts.add(loaded, messages[-1][0] + 1)
        return sum(rows for rows, _ in loaded.values())

    def _load_tables(
        self, waiting: dict[TableId, list[tuple[int, Batch]]], loaded: Mapping[str, tuple[int, int]]
    ) -> dict[str, tuple[int, int]]:
        """Load what is waiting, add it to what was counted, and forget it."""
        going_on = {table: batches for table, batches in waiting.items() if table not in self._stalled}
        schemas = self._schemas({batch.schema_id for batches in going_on.values() for _, batch in batches})
        work = {table: [batch for _, batch in batches] for table, batches in going_on.items()}
        counted = dict(loaded)
        for table, outcome in self._side_by_side.load(work, schemas):
            batches = going_on[table]
            if isinstance(outcome, TableStoppedError):
                self._stall(table, batches[0][0], outcome, batches[0][1].last_timestamp_ms)
                continue
            self._tell(table, outcome)
            newest = max((batch.last_timestamp_ms for _, batch in batches if batch.rows), default=0)
            counted = count_rows(counted, table, outcome.rows, newest)
        waiting.clear()
        return counted

    def _tell(self, table: TableId, loaded: Loaded) -> None:
        if loaded.misfits:
            _log.warning("values did not fit", link=self._link, table=str(table), values=loaded.misfits)
        if loaded.note is not None and loaded.note != self._notes.get(table):
            self._notes[table] = loaded.note
            self._state.note_table(self._link, str(table), loaded.note)

    def _rename(self, offset: int, batch: Batch) -> None:
        """Move rows from name to name, of tables that are both carried here; those that cannot wait together."""
        names = {name: TableId.parse(name) for move in batch.moves for name in (move.origin, move.table)}
        carried = {name for name, table in names.items() if self._wanted(batch.source, table)}
        moves = [move for move in batch.moves if {move.origin, move.table} <= carried]
        involved = {names[name] for move in moves for name in (move.origin, move.table)}
        try:
            self._move_rows(moves, involved, batch)
        except TableStoppedError as error:
            for table in involved.difference(self._stalled):
                self._stall(table, offset, error, batch.last_timestamp_ms)

    def _move_rows(self, moves: Sequence[Move], involved: Collection[TableId], batch: Batch) -> None:
        for table in sorted(involved):
            if table in self._stalled:
                reason, hint = "it waits, and a table that was renamed with it", "see what it waits for"
                raise TableStoppedError(str(table), "", "the target's table", reason, hint)
        if moves:
            self._sink.rename(moves, batch.first_order, self._schemas({move.schema_id for move in moves}))

    def _schemas(self, ids: Collection[int]) -> dict[int, TableSchema]:
        return {schema_id: table_schema(self._registry.value_schema(schema_id)) for schema_id in ids}

    def _stall(self, table: TableId, offset: int, error: TableStoppedError, since_ms: int) -> None:
        self._stalled[table] = offset
        if error.retryable and self._try_again_at is None:
            self._try_again_at = time.monotonic() + _TRY_AGAIN_SECONDS
        since_ms = since_ms or time.time_ns() // 1_000_000
        told = f"{error.message} (it waits at offset {offset} of the batch topic)"
        _log.warning("table stopped", link=self._link, table=str(table), error=told, hint=error.hint)
        self._state.stop_table(self._link, str(table), told, error.hint, since_ms)
