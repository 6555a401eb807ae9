"""Loading batches into one sink, table by table."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from penstock.core.avro.schemas import table_schema
from penstock.core.batches import Batch
from penstock.core.errors import TableStoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.core.tables import TableId
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
        by_table: dict[TableId, list[tuple[int, Batch]]] = defaultdict(list)
        for offset, message in messages:
            batch = Batch.from_json(message)
            if self._wanted(batch.source, batch.table):
                by_table[batch.table].append((offset, batch))
        loaded: dict[str, tuple[int, int]] = {}
        for table, batches in by_table.items():
            rows = self._load_table(table, batches)
            newest = max((batch.last_timestamp_ms for _, batch in batches if batch.rows), default=0)
            loaded[str(table)] = (rows, newest)
        if messages:
            self._sink.finish(min([messages[-1][0] + 1, *self._stalled.values()]))
            self._state.add_rows(self._link, loaded)
        return sum(rows for rows, _ in loaded.values())

    def _load_table(self, table: TableId, batches: Sequence[tuple[int, Batch]]) -> int:
        if table in self._stalled:
            return 0
        schemas = {
            schema_id: table_schema(self._registry.value_schema(schema_id))
            for schema_id in {batch.schema_id for _, batch in batches}
        }
        try:
            loaded = self._sink.load(table, [batch for _, batch in batches], schemas)
        except TableStoppedError as error:
            self._stalled[table] = batches[0][0]
            self._state.stop_table(self._link, str(table), error.message, error.hint)
            return 0
        if loaded.note is not None and loaded.note != self._notes.get(table):
            self._notes[table] = loaded.note
            self._state.note_table(self._link, str(table), loaded.note)
        return loaded.rows
