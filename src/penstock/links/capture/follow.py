"""Following a log: which items become which publications, and when."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from penstock.core.mysql.log_items import (
    FewTransactions,
    LogAdvanced,
    LogItem,
    RowsLogged,
    StatementLogged,
    TransactionBegan,
    TransactionEnded,
    TransactionsLogged,
)
from penstock.core.positions import file_number
from penstock.links.capture.collector import ChangeCollector, weight

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.mysql.heartbeats import HeartbeatWatch
    from penstock.core.mysql.rows_block import RowsBlock
    from penstock.core.positions import BinlogPosition
    from penstock.core.publication import Publication, StoppedTable
    from penstock.links.capture.table_book import TableBook


@dataclass(frozen=True, slots=True)
class Pace:
    """How much to gather before publishing.

    A publication is due when the one before began `interval_seconds` ago, so that a
    lone change goes out at once and many go out together; or at once with
    `bytes_wanted` of row data. A transaction larger than `bytes_max` is published in
    pieces, so that memory stays bounded.
    """

    interval_seconds: float
    bytes_wanted: int = 4 << 20
    bytes_max: int = 32 << 20


class LogFollower:
    """Turns a stream of log items into publications and statements, in log order.

    It stands at `position`: everything before it was handed out. The positions
    that it hands out are of the era of the one it began at, and tell of heartbeats
    if it was given something that looks for them.
    """

    def __init__(
        self,
        book: TableBook,
        stopped: dict[str, StoppedTable],
        position: BinlogPosition,
        pace: Pace,
        heartbeats: HeartbeatWatch | None = None,
    ) -> None:
        """Begin at `position`; `stopped` is shared with whoever commits."""
        self._collector = ChangeCollector(book, stopped)
        self._pace = pace
        self.position = position
        self._boundary = position
        self._due_at = 0.0
        self._transaction: list[RowsLogged | RowsBlock] = []
        self._transaction_bytes = 0
        self._inside: TransactionBegan | None = None
        self._era = position.era
        self._heartbeats = heartbeats

    def feed(self, items: Sequence[LogItem]) -> Iterator[Publication | StatementLogged]:
        """Take items; yield what they complete. A statement comes after everything before it.

        Whoever asks for more, here and of what else yields, has committed what was yielded before.
        """
        for item in items:
            match item:
                case TransactionBegan():
                    self._inside = item
                case RowsLogged():
                    self._watch(item)
                    yield from self._take_rows(item)
                case TransactionEnded(end):
                    self._watch(item)
                    yield from self._seal(self._told(end))
                case TransactionsLogged(end=end, blocks=rows) | FewTransactions(end=end, rows=rows):
                    self._watch(item)
                    self._transaction += [each for each in rows if self._collector.wants(each.table_map.table)]
                    yield from self._seal(self._told(end))
                case StatementLogged():
                    # Rows of its own transaction stand before it, too: whoever reads on from its end passes them by.
                    self._collect_transaction()
                    yield from self._finish(self._told(item.begin))
                    self._watch(item)
                    self.position = self._boundary = self._told(item.end)
                    if not item.end.rows_from:
                        self._inside = None
                    yield replace(item, end=self.position)
                case LogAdvanced(end):
                    yield from self._advance(self._told(end))
                case _:
                    assert_never(item)

    @property
    def is_waiting(self) -> bool:
        """Whether changes wait for a publication."""
        return self._collector.bytes > 0

    @property
    def boundary(self) -> BinlogPosition | None:
        """Where the next transaction begins, if everything before it was handed out; else None."""
        here, inside = self._boundary, self._inside
        is_inside = inside is not None and (file_number(inside.file), inside.offset) >= here.order[:2]
        return None if self.is_waiting or is_inside or here.rows_from or self._transaction else here

    def wait_seconds(self) -> float:
        """How long it is until the next publication is due: whatever comes before waits, and may be read together."""
        return max(0.0, self._due_at - time.monotonic())

    def due(self) -> Iterator[Publication]:
        """Yield what has waited long enough."""
        if self.is_waiting and time.monotonic() >= self._due_at:
            yield from self._finish(self._boundary)

    def finish(self) -> Iterator[Publication]:
        """Yield every whole transaction that is still waiting."""
        yield from self._finish(self._boundary)

    def has_read(self, position: BinlogPosition) -> bool:
        """Whether every transaction before `position` is here; some may wait for a publication."""
        return self._boundary.order >= position.order

    def pass_by(self) -> BinlogPosition | None:
        """Move over what held nothing for us; None if there is nothing to move over or changes still wait."""
        if self.is_waiting or self._boundary.order <= self.position.order:
            return None
        self.position = self._boundary
        return self.position

    def _watch(self, item: LogItem) -> None:
        if self._heartbeats is not None:
            self._heartbeats.take(item)

    def _told(self, position: BinlogPosition) -> BinlogPosition:
        """What nobody can tell who only reads the log: the era, and the newest heartbeat with what came behind it."""
        if self._heartbeats is not None:
            mark = self._heartbeats.mark_inside if position.rows_from else self._heartbeats.mark
            return replace(position, era=self._era, heartbeat=mark)
        return replace(position, era=self._era) if self._era else position

    def _take_rows(self, event: RowsLogged) -> Iterator[Publication]:
        if not self._collector.wants(event.table_map.table):
            return
        self._transaction.append(event)
        self._transaction_bytes += weight(event)
        if self._transaction_bytes >= self._pace.bytes_max and self._inside is not None:
            yield from self._piece(event)

    def _piece(self, last: RowsLogged) -> Iterator[Publication]:
        """Publish a part of a transaction that is too large to wait for its end."""
        yield from self._finish(self._boundary)
        start = self._boundary.offset if self._inside is None else self._inside.offset
        self._collect_transaction()
        yield from self._finish(self._told(replace(self._boundary, offset=start, rows_from=last.rows_from + 1)))

    def _seal(self, end: BinlogPosition) -> Iterator[Publication]:
        self._collect_transaction()
        self._inside = None
        self._boundary = end
        if self._collector.bytes >= self._pace.bytes_wanted:
            yield from self._finish(end)

    def _advance(self, end: BinlogPosition) -> Iterator[Publication]:
        """Move on with nothing for us; publications never span two files."""
        if end.file != self._boundary.file:
            yield from self._finish(self._boundary)
        self._boundary = end

    def _collect_transaction(self) -> None:
        for event in self._transaction:
            self._collector.add(event)
        self._transaction, self._transaction_bytes = [], 0

    def _finish(self, end: BinlogPosition) -> Iterator[Publication]:
        if self._collector.bytes == 0:
            return
        begin, self.position = self.position, end
        # Where so much comes, nothing has to wait for more.
        is_large = self._collector.bytes >= self._pace.bytes_wanted
        self._due_at = time.monotonic() + (0.0 if is_large else self._pace.interval_seconds)
        yield self._collector.take(begin, end)
