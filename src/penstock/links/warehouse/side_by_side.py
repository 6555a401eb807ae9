"""Tables loaded side by side, over several connections to one target."""

from __future__ import annotations

import queue
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from penstock.core.errors import TableStoppedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.core.batches import Batch
    from penstock.core.tables import TableId, TableSchema
    from penstock.ports.sink import Loaded, Sink


class SideBySide:
    """Loads different tables at the same time, as many as there are sinks; what is of one table stays in order."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        """Use `sinks`, one thread each, and close them with this."""
        self._sinks = tuple(sinks)
        self._free: queue.SimpleQueue[Sink] = queue.SimpleQueue()
        for sink in sinks:
            self._free.put(sink)

    def load(
        self, work: Mapping[TableId, Sequence[Batch]], schemas: Mapping[int, TableSchema]
    ) -> Iterator[tuple[TableId, Loaded | TableStoppedError]]:
        """Load every table; yield what came of each, in the order of `work`.

        Raises, when no thread works any more, what is not about a table alone.
        """
        if len(self._sinks) == 1 or len(work) == 1:
            yield from ((table, self._load(table, work[table], schemas, 1)) for table in work)
            return
        at_once = min(len(self._sinks), len(work))
        with ThreadPoolExecutor(len(self._sinks), thread_name_prefix="load") as threads:
            begun = {table: threads.submit(self._load, table, work[table], schemas, at_once) for table in work}
            outcomes = {table: future.result() for table, future in begun.items()}
        yield from outcomes.items()

    def close(self) -> None:
        """Close the sinks."""
        for sink in self._sinks:
            sink.close()

    def _load(
        self, table: TableId, batches: Sequence[Batch], schemas: Mapping[int, TableSchema], at_once: int
    ) -> Loaded | TableStoppedError:
        sink = self._free.get()
        try:
            return sink.load(table, batches, schemas, at_once)
        except TableStoppedError as error:
            return error
        finally:
            self._free.put(sink)
