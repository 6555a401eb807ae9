"""What a binlog's items say, in the words that every capture understands."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, assert_never, cast

from penstock.core.changes import Op
from penstock.core.log_items import LogPassed, RowsRead, StatementRead, TransactionsRead
from penstock.core.mysql.log.log_items import (
    FewTransactions,
    LogAdvanced,
    StatementLogged,
    TransactionBegan,
    TransactionEnded,
    TransactionsLogged,
)
from penstock.core.mysql.rows.decode import batch_key, decode_rows
from penstock.core.mysql.rows.few_rows import FewRows
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.positions import binlog_position, file_number
from penstock.core.snapshot_copies import CopiedRows, is_copy

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from penstock.core.avro.envelope_encode import EncodableTable
    from penstock.core.changes import Messages, RowBatch
    from penstock.core.log_items import LoggedRows, LoggedStatement, LogStep
    from penstock.core.mysql.log.heartbeats import HeartbeatWatch
    from penstock.core.mysql.log.log_items import LogItem
    from penstock.core.mysql.rows.rows_block import RowsBlock
    from penstock.core.mysql.types.logged_rows import TableMap
    from penstock.core.positions import BinlogPosition, Position
    from penstock.core.tables import TableId, TableSchema

_INFLATING_BYTES_MAX = 512 << 10
_PADDED_BYTES_MAX = 8 << 20
"""An array has up to 2 GiB of values. A row has two bytes at least; an event has 8 KiB, or is a single row."""


class BinlogReading:
    """Reads items of a stream that begins at a position: see ports/log.LogReading.

    The positions that it hands out are of the timeline of that position, and tell of
    heartbeats if it was given something that looks for them.
    """

    def __init__(
        self, begin: Position, heartbeats: HeartbeatWatch | None = None, copied: CopiedRows | None = None
    ) -> None:
        """Begin at `begin`, outside of any transaction; `copied` knows which rows are copies of others."""
        self._timeline = begin.timeline
        self._heartbeats = heartbeats
        self._copied = CopiedRows() if copied is None else copied
        self._copied_map: tuple[TableMap, TableMap] | None = None
        self._inside: TransactionBegan | None = None
        self._last: RowsLogged | None = None
        self._few_rows = FewRows()

    def steps(self, items: Sequence[object]) -> Iterator[LogStep]:
        """See LogReading."""
        for item in cast("Sequence[LogItem]", items):
            match item:
                case TransactionBegan():
                    self._inside = item
                case RowsLogged():
                    self._watch(item)
                    self._last = item
                    yield from map(RowsRead, self._originals([item]))
                case TransactionEnded(end):
                    self._watch(item)
                    self._inside = None
                    yield TransactionsRead(self._stamped(end))
                case TransactionsLogged(end=end, blocks=rows) | FewTransactions(end=end, rows=rows):
                    self._watch(item)
                    self._inside = None
                    yield TransactionsRead(self._stamped(end), self._originals(rows))
                case StatementLogged():
                    begin = self._stamped(item.begin)
                    self._watch(item)
                    if not item.end.rows_from:
                        self._inside = None
                    yield StatementRead(begin, replace(item, end=self._stamped(item.end)))
                case LogAdvanced(end):
                    yield LogPassed(self._stamped(end))
                case _:
                    assert_never(item)

    def until(self, items: Sequence[object], stop: Position | None) -> Sequence[object]:
        """See LogReading."""
        return items_until(cast("Sequence[LogItem]", items), None if stop is None else binlog_position(stop))

    def behind_rows(self, boundary: Position) -> BinlogPosition | None:
        """See LogReading."""
        if self._inside is None or self._last is None:
            return None
        place = replace(binlog_position(boundary), offset=self._inside.offset, rows_from=self._last.rows_from + 1)
        return self._stamped(place)

    def decode(self, schema: TableSchema, rows: Sequence[LoggedRows]) -> Iterator[RowBatch]:
        """See LogReading."""
        for group in chain.from_iterable(map(_bounded, _alike(binlog_rows(rows)))):
            yield decode_rows(schema, group)

    def encode_few(
        self, table: EncodableTable, topic: str, rows: Sequence[LoggedRows], processed_at_ms: int
    ) -> Messages | None:
        """See LogReading."""
        return self._few_rows.encode(table, topic, binlog_rows(rows), processed_at_ms)

    def _originals(self, rows: Sequence[RowsLogged | RowsBlock]) -> Sequence[LoggedRows]:
        """Return `rows` with those of copies as rows that were read of their originals, or without them."""
        if not any(is_copy(each.table) for each in rows):
            return rows
        found: list[LoggedRows] = []
        for each in rows:
            original = self._copied.original(each.table) if is_copy(each.table) else None
            if original is not None:
                offset = each.offset if isinstance(each, RowsLogged) else int(each.offsets[-1])
                self._copied.saw(each.table, file_number(each.file), offset)
                found.append(replace(each, table_map=self._map_of(original, each.table_map), op=Op.READ))
            elif not is_copy(each.table):
                found.append(each)
        return found

    def _map_of(self, original: TableId, copied: TableMap) -> TableMap:
        """The copy's layout as one of the original, of whose key it tells nothing; the same object for the same one."""
        if self._copied_map is None or self._copied_map[0] is not copied:
            self._copied_map = copied, replace(copied, table=original, key=None)
        return self._copied_map[1]

    def _watch(self, item: LogItem) -> None:
        if self._heartbeats is not None:
            self._heartbeats.take(item)

    def _stamped(self, position: BinlogPosition) -> BinlogPosition:
        """Add what the log itself does not tell: the timeline, and the newest heartbeat with what came behind it."""
        if self._heartbeats is not None:
            mark = self._heartbeats.mark_inside if position.rows_from else self._heartbeats.mark
            return replace(position, timeline=self._timeline, heartbeat=mark)
        return replace(position, timeline=self._timeline) if self._timeline else position


def binlog_rows(rows: Sequence[LoggedRows]) -> Sequence[RowsLogged | RowsBlock]:
    """Rows that a binlog's stream handed out, which is where a capture of a binlog has all of its rows from."""
    return cast("Sequence[RowsLogged | RowsBlock]", rows)


def binlog_statement(statement: LoggedStatement) -> StatementLogged:
    """Return a statement that a binlog's stream handed out."""
    return cast("StatementLogged", statement)


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


def items_until(items: Sequence[LogItem], stop: BinlogPosition | None) -> Sequence[LogItem]:
    """Return what of `items` is up to the first end at `stop` or behind it; `items` itself if that is all.

    A read returns megabytes at once: a tail slice that is to end with a file would
    otherwise end in the middle of the next one.
    """
    if stop is not None:
        for index, item in enumerate(items):
            if not isinstance(item, TransactionBegan | RowsLogged) and item.end.order >= stop.order:
                wanted = _up_to(item, stop)
                is_all = len(wanted) == 1 and wanted[0] is items[-1]
                return items if is_all else [*items[:index], *wanted]
    return items


def _up_to(item: LogItem, stop: BinlogPosition) -> Sequence[LogItem]:
    """What of an item that reaches the stop is up to the first end there; the item itself if that is all."""
    match item:
        case TransactionsLogged():
            return [item.until(stop)]
        case FewTransactions():
            singles = list(item.singly())
            wanted = items_until(singles, stop)
            return [item] if wanted is singles else wanted
        case _:
            return [item]
