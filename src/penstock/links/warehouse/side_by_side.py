"""Tables loaded side by side, over several connections to one target, and many small ones together."""

from __future__ import annotations

import queue
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

from penstock.core.errors import TableStoppedError
from penstock.core.schema_changes import SchemaChangeKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.core.batches import Batch
    from penstock.core.tables import TableId, TableSchema
    from penstock.ports.sink import Loaded, Sink

Work: TypeAlias = "Mapping[TableId, Sequence[Batch]]"

_SMALL_ROWS = 1_000
_SMALL_BYTES = 1 << 18


class SideBySide:
    """Loads different tables at the same time, as many as there are sinks; what is of one table stays in order."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        """Use `sinks`, one thread each, and close them with this."""
        self._sinks = tuple(sinks)
        self._free: queue.SimpleQueue[Sink] = queue.SimpleQueue()
        for sink in sinks:
            self._free.put(sink)

    def load(
        self, work: Work, schemas: Mapping[int, TableSchema]
    ) -> Iterator[tuple[TableId, Loaded | TableStoppedError]]:
        """Load every table; yield what came of each.

        Raises, when no thread works any more, what is not about a table alone.
        """
        groups = group_tables(work, self._sinks[0].tables_together)
        if len(self._sinks) == 1 or len(groups) == 1:
            for group in groups:
                yield from self._load(group, schemas, 1).items()
            return
        at_once = min(len(self._sinks), len(groups))
        with ThreadPoolExecutor(len(self._sinks), thread_name_prefix="load") as threads:
            begun = [threads.submit(self._load, group, schemas, at_once) for group in groups]
            outcomes = [future.result() for future in begun]
        for outcome in outcomes:
            yield from outcome.items()

    def close(self) -> None:
        """Close the sinks."""
        for sink in self._sinks:
            sink.close()

    def _load(
        self, group: Work, schemas: Mapping[int, TableSchema], at_once: int
    ) -> Mapping[TableId, Loaded | TableStoppedError]:
        """Load tables together; if one of them cannot go on, each by itself."""
        sink = self._free.get()
        try:
            if len(group) > 1:
                try:
                    return sink.load_together(group, schemas)
                except TableStoppedError:
                    pass
            return {table: _load_one(sink, table, batches, schemas, at_once) for table, batches in group.items()}
        finally:
            self._free.put(sink)


def group_tables(work: Work, tables_max: int) -> list[Work]:
    """Return `work` in groups of at most `tables_max` tables with a few rows each; others are alone."""
    groups: list[dict[TableId, Sequence[Batch]]] = []
    small: dict[TableId, Sequence[Batch]] = {}
    for table, batches in work.items():
        if tables_max == 1 or not _is_small(batches):
            groups.append({table: batches})
            continue
        if len(small) % tables_max == 0:
            small = {}
            groups.append(small)
        small[table] = batches
    return list(groups)


def _is_small(batches: Sequence[Batch]) -> bool:
    """Whether there are only a few rows, and nothing that makes or changes a table, for which others would wait."""
    if not all(batch.rows and batch.kind is SchemaChangeKind.SCHEMA for batch in batches):
        return False
    rows, size = sum(batch.rows for batch in batches), sum(batch.size_bytes for batch in batches)
    return rows <= _SMALL_ROWS and size <= _SMALL_BYTES


def _load_one(
    sink: Sink, table: TableId, batches: Sequence[Batch], schemas: Mapping[int, TableSchema], at_once: int
) -> Loaded | TableStoppedError:
    try:
        return sink.load(table, batches, schemas, at_once)
    except TableStoppedError as error:
        return error
