"""Rows on their way to becoming one publication."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING

from penstock.core.errors import TableStoppedError
from penstock.core.key_changes import logged_order, split_key_changes
from penstock.core.message_format import changes_as_messages, encode_changes
from penstock.core.publication import Publication, StoppedTable, count_rows, merge_by_topic
from penstock.links.capture.sendable import as_sendable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.changes import Messages
    from penstock.core.log_items import LoggedRows
    from penstock.core.positions import Position
    from penstock.core.snapshots import Reread
    from penstock.core.tables import TableId
    from penstock.links.capture.table_catalog import TableCatalog
    from penstock.ports.log import LogReading


class ChangeCollector:
    """Rows of one file of a log, gathered until they are worth a publication.

    `stopped` grows by the tables whose rows turn out not to be carried; their
    later rows are left where they are, in the log.
    """

    def __init__(self, table_catalog: TableCatalog, stopped: dict[str, StoppedTable], reading: LogReading) -> None:
        """Start empty; `reading` knows the form of the rows."""
        self._table_catalog = table_catalog
        self._reading = reading
        self.stopped = stopped
        self._events: list[LoggedRows] = []
        self.bytes = 0

    def wants(self, table: TableId) -> bool:
        """Whether rows of `table` are to be read at all."""
        return self._is_carried(table) or self._table_catalog.unlogged.watches(table)

    def _is_carried(self, table: TableId) -> bool:
        return self._table_catalog.wanted(table) and str(table) not in self.stopped

    def add(self, event: LoggedRows) -> None:
        """Take rows of a table that is wanted."""
        self._events.append(event)
        self.bytes += event.weight_bytes

    def take(self, begin: Position, end: Position) -> Publication:
        """Encode what was gathered, which lies between `begin` and `end`, and start anew."""
        events, self._events, self.bytes = self._events, [], 0
        messages: list[Messages] = []
        rows: dict[str, tuple[int, int]] = {}
        parts: dict[str, list[bytes | None]] = {}
        by_table = _by_table(events)
        rereads = self._take_effects(by_table, str(begin))
        for table, table_events in by_table.items():
            if not self._is_carried(table) or self._table_catalog.is_sequence(table):
                continue
            try:
                encoded, count = self._encode(table, table_events, parts)
                encoded = as_sendable(self._table_catalog, table, encoded, str(begin))
            except TableStoppedError as error:
                self.stopped[str(table)] = StoppedTable(str(begin), error.message, error.hint)
                continue
            messages.extend(encoded)
            rows = count_rows(rows, table, count, max(rows.newest_ms for rows in table_events))
        newest = max((event.newest_ms for event in events), default=0)
        return Publication(merge_by_topic(messages), begin, end, newest, rows, parts, rereads)

    def _take_effects(self, by_table: Mapping[TableId, Sequence[LoggedRows]], begin: str) -> Mapping[str, Reread]:
        """Stop tables that changed behind the log with these rows; return what is to be read again of others."""
        rereads: dict[str, Reread] = {}
        for table, effect in self._table_catalog.unlogged.effects(by_table, begin).items():
            if isinstance(effect, StoppedTable):
                self.stopped.setdefault(str(table), effect)
            elif self._is_carried(table):
                rereads[str(table)] = effect
        return rereads

    def _encode(
        self, table: TableId, events: Sequence[LoggedRows], parts: dict[str, list[bytes | None]]
    ) -> tuple[list[Messages], int]:
        """Encode all events of one table, or raise TableStoppedError and publish none of them; say how many changes.

        The keys of rows that lack columns are added to `parts`, by topic.
        """
        encodable, topic = self._table_catalog.encodable(table)
        processed_at_ms = time.time_ns() // 1_000_000
        if encodable.format == "avro":
            few = self._reading.encode_few(encodable, topic, events, processed_at_ms)
            if few is not None:
                return [few], len(few)
        messages, count = [], 0
        for decoded in self._reading.decode(encodable.schema, events):
            for batch in split_key_changes(decoded):
                encoded = encode_changes(encodable, batch, processed_at_ms)
                if batch.after_lacks:
                    parts.setdefault(topic, []).extend(encoded[0].to_pylist())
                messages.append(changes_as_messages(encodable, topic, batch.op, encoded, logged_order(batch)))
                count += len(batch)
        return messages, count


def _by_table(events: Sequence[LoggedRows]) -> dict[TableId, list[LoggedRows]]:
    tables: dict[TableId, list[LoggedRows]] = defaultdict(list)
    for event in events:
        tables[event.table].append(event)
    return tables
