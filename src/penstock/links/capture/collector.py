"""Rows events on their way to becoming one publication."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING

from penstock.core.avro.envelope_encode import encode_changes
from penstock.core.changes import Messages
from penstock.core.errors import TableStoppedError
from penstock.core.key_changes import message_order, split_key_changes
from penstock.core.mysql.decode import batch_key, decode_rows
from penstock.core.mysql.few_rows import FewRows
from penstock.core.mysql.log_items import RowsLogged
from penstock.core.publication import Publication, StoppedTable, count_rows, merge_by_topic

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from penstock.core.mysql.rows_block import RowsBlock
    from penstock.core.positions import BinlogPosition
    from penstock.core.tables import TableId
    from penstock.links.capture.table_book import TableBook

_INFLATES_USUALLY = 16
_INFLATING_BYTES_MAX = 512 << 10
_PADDED_BYTES_MAX = 8 << 20
"""An array has up to 2 GiB of values. A row has two bytes at least; an event has 8 KiB, or is a single row."""


class ChangeCollector:
    """Rows events of one binlog file, gathered until they are worth a publication.

    `stopped` grows by the tables whose rows turn out not to be carried; their
    later rows are left where they are, in the log.
    """

    def __init__(self, book: TableBook, stopped: dict[str, StoppedTable]) -> None:
        """Start empty."""
        self._book = book
        self.stopped = stopped
        self._events: list[RowsLogged | RowsBlock] = []
        self._few_rows = FewRows()
        self.bytes = 0

    def wants(self, table: TableId) -> bool:
        """Whether rows of `table` are to be read at all."""
        return self._is_carried(table) or self._book.cascades.watches(table)

    def _is_carried(self, table: TableId) -> bool:
        return self._book.wanted(table) and str(table) not in self.stopped

    def add(self, event: RowsLogged | RowsBlock) -> None:
        """Take one event, or a block of them, of a table that is wanted."""
        self._events.append(event)
        self.bytes += weight(event)

    def take(self, begin: BinlogPosition, end: BinlogPosition) -> Publication:
        """Encode what was gathered, which lies between `begin` and `end`, and start anew."""
        events, self._events, self.bytes = self._events, [], 0
        messages: list[Messages] = []
        rows: dict[str, tuple[int, int]] = {}
        by_table = _by_table(events)
        for table, why in self._book.cascades.stopped_by(by_table, str(begin)).items():
            self.stopped.setdefault(str(table), why)
        for table, table_events in by_table.items():
            if not self._is_carried(table) or self._book.is_sequence(table):
                continue
            try:
                encoded = self._encode(table, table_events)
            except TableStoppedError as error:
                self.stopped[str(table)] = StoppedTable(str(begin), error.message, error.hint)
                continue
            messages.extend(encoded)
            rows = count_rows(rows, table, sum(map(len, encoded)), max(map(_newest_ms, table_events)))
        newest = max(map(_newest_ms, events), default=0)
        return Publication(merge_by_topic(messages), begin, end, newest, rows)

    def _encode(self, table: TableId, events: Sequence[RowsLogged | RowsBlock]) -> list[Messages]:
        """Encode all events of one table, or raise TableStoppedError and publish none of them."""
        encodable, topic = self._book.encodable(table)
        processed_at_ms = time.time_ns() // 1_000_000
        few = self._few_rows.encode(encodable, topic, events, processed_at_ms)
        if few is not None:
            return [few]
        encoded = []
        for group in chain.from_iterable(map(_bounded, _alike(events))):
            for batch in split_key_changes(decode_rows(encodable.schema, group)):
                keys, values = encode_changes(encodable, batch, processed_at_ms)
                encoded.append(Messages(topic, keys, values, message_order(batch)))
        return encoded


def weight(event: RowsLogged | RowsBlock) -> int:
    """How many bytes of memory rows count for. Nobody knows of compressed values: they count as usual ones."""
    return event.size_bytes * (_INFLATES_USUALLY if event.table_map.inflates else 1)


def _newest_ms(event: RowsLogged | RowsBlock) -> int:
    return event.timestamp_ms if isinstance(event, RowsLogged) else int(event.timestamps_ms.max())


def _by_table(events: Sequence[RowsLogged | RowsBlock]) -> dict[TableId, list[RowsLogged | RowsBlock]]:
    tables: dict[TableId, list[RowsLogged | RowsBlock]] = defaultdict(list)
    for event in events:
        tables[event.table_map.table].append(event)
    return tables


def _alike(events: Sequence[RowsLogged | RowsBlock]) -> Iterator[list[RowsLogged | RowsBlock]]:
    """Split the events of one table into those that decode together."""
    groups: dict[Hashable, list[RowsLogged | RowsBlock]] = defaultdict(list)
    for event in events:
        groups[batch_key(event)].append(event)
    yield from groups.values()


def _bounded(events: list[RowsLogged | RowsBlock]) -> Iterator[list[RowsLogged | RowsBlock]]:
    """Split events so that a batch of them fits into an array, however much longer its values are than in the log."""
    table_map = events[0].table_map
    bytes_max = _INFLATING_BYTES_MAX if table_map.inflates else _PADDED_BYTES_MAX if table_map.pads else math.inf
    if sum(event.size_bytes for event in events) <= bytes_max:
        yield events
        return
    part: list[RowsLogged | RowsBlock] = []
    size_bytes = 0
    for event in chain.from_iterable([each] if isinstance(each, RowsLogged) else each for each in events):
        if part and size_bytes + event.size_bytes > bytes_max:
            yield part
            part, size_bytes = [], 0
        part.append(event)
        size_bytes += event.size_bytes
    yield part
