"""Loading batches into one sink, table by table."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from penstock.core.avro.schemas import table_schema
from penstock.core.batches import Batch
from penstock.core.errors import TableStoppedError
from penstock.core.publication import count_rows
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from penstock.core.announcements import Move
    from penstock.core.tables import TableSchema
    from penstock.ports.registry import Registry
    from penstock.ports.sink import Sink
    from penstock.ports.state import State


class WarehouseLoader:
    """Loads the batch topic into a sink. A table that cannot go on waits; the others do not."""

    def __init__(
        self, link: str, sink: Sink, registry: Registry, state: State, wanted: Callable[[str, TableId], bool]
    ) -> None:
        """Load into `sink` the tables that are `wanted`, asked by source and table."""
        self._link = link
        self._sink = sink
        self._registry = registry
        self._state = state
        self._wanted = wanted
        self._stalled: dict[TableId, int] = {}
        self._notes: dict[TableId, str] = {}

    def start(self) -> int:
        """Return the offset of the batch topic to read from; tables that were stalled are tried again."""
        for table in self._state.stopped_tables(self._link):
            self._state.resume_table(self._link, table)
        return self._sink.batch_offset()

    def close(self) -> None:
        """Let go of the sink and the registry."""
        self._sink.close()
        self._registry.close()

    def load(self, messages: Sequence[tuple[int, bytes]]) -> int:
        """Load (offset, batch message) pairs, in order; return how many rows were new."""
        waiting: dict[TableId, list[tuple[int, Batch]]] = defaultdict(list)
        loaded: dict[str, tuple[int, int]] = {}
        renamed: tuple[int, int, int] | None = None
        for offset, message in messages:
            batch = Batch.from_json(message)
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
            self._state.add_rows(self._link, loaded)
        return sum(rows for rows, _ in loaded.values())

    def _load_tables(
        self, waiting: dict[TableId, list[tuple[int, Batch]]], loaded: Mapping[str, tuple[int, int]]
    ) -> dict[str, tuple[int, int]]:
        """Load what is waiting, add it to what was counted, and forget it."""
        counted = dict(loaded)
        for table, batches in waiting.items():
            rows = self._load_table(table, batches)
            newest = max((batch.last_timestamp_ms for _, batch in batches if batch.rows), default=0)
            counted = count_rows(counted, table, rows, newest)
        waiting.clear()
        return counted

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
                self._stall(table, offset, error)

    def _move_rows(self, moves: Sequence[Move], involved: Collection[TableId], batch: Batch) -> None:
        for table in sorted(involved):
            if table in self._stalled:
                reason, hint = "it waits, and a table that was renamed with it", "see what it waits for"
                raise TableStoppedError(str(table), "", "the target's table", reason, hint)
        if moves:
            self._sink.rename(moves, batch.first_order, self._schemas({move.schema_id for move in moves}))

    def _schemas(self, ids: Collection[int]) -> dict[int, TableSchema]:
        return {schema_id: table_schema(self._registry.value_schema(schema_id)) for schema_id in ids}

    def _stall(self, table: TableId, offset: int, error: TableStoppedError) -> None:
        self._stalled[table] = offset
        self._state.stop_table(self._link, str(table), error.message, error.hint)

    def _load_table(self, table: TableId, batches: Sequence[tuple[int, Batch]]) -> int:
        if table in self._stalled:
            return 0
        schemas = self._schemas({batch.schema_id for _, batch in batches})
        try:
            loaded = self._sink.load(table, [batch for _, batch in batches], schemas)
        except TableStoppedError as error:
            self._stall(table, batches[0][0], error)
            return 0
        if loaded.note is not None and loaded.note != self._notes.get(table):
            self._notes[table] = loaded.note
            self._state.note_table(self._link, str(table), loaded.note)
        return loaded.rows
