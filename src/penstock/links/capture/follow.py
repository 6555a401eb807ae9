"""Following a log: which items become which publications, and when."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from penstock.core.log_items import LogPassed, RowsRead, StatementRead, TransactionsRead
from penstock.links.capture.collector import ChangeCollector
from penstock.links.capture.spec import PIECE_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.log_items import LoggedRows, LoggedStatement
    from penstock.core.positions import Position
    from penstock.core.publication import Publication, StoppedTable
    from penstock.links.capture.table_catalog import TableCatalog
    from penstock.ports.log import LogReading

_QUICK_SECONDS = 10.0
"""A piece of twice the size than one that took so long is far from the minute that brokers wait for it."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How much to gather before publishing.

    A publication is due when the one before began `interval_seconds` ago, so that a
    lone change goes out at once and many go out together; or at once with
    `bytes_wanted` of row data. A transaction larger than `piece_bytes` is published in
    pieces, so that memory stays bounded, and none takes longer than brokers keep a
    transaction open. Pieces that pass quickly are followed by larger ones, up to `bytes_max`.
    """

    interval_seconds: float
    bytes_wanted: int = 4 << 20
    bytes_max: int = PIECE_BYTES_MAX
    piece_bytes: int = PIECE_BYTES_MAX


class LogFollower:
    """Turns a stream of log items into publications and statements, in log order.

    It stands at `position`: everything before it was handed out.
    """

    def __init__(
        self,
        table_catalog: TableCatalog,
        stopped: dict[str, StoppedTable],
        position: Position,
        pace: Pace,
        reading: LogReading,
    ) -> None:
        """Begin at `position`, as `reading` does; `stopped` is shared with whoever commits."""
        self._collector = ChangeCollector(table_catalog, stopped, reading)
        self._reading = reading
        self._pace = pace
        self._piece_bytes = min(pace.piece_bytes, pace.bytes_max)
        self.position = position
        self._boundary = position
        self._due_at = 0.0
        self._transaction: list[LoggedRows] = []
        self._transaction_bytes = 0
        self._is_inside = False

    def feed(self, items: Sequence[object]) -> Iterator[Publication | LoggedStatement]:
        """Take items; yield what they complete. A statement comes after everything before it.

        Whoever asks for more, here and of what else yields, has committed what was yielded before.
        """
        for step in self._reading.steps(items):
            match step:
                case RowsRead(rows):
                    self._is_inside = True
                    yield from self._take_rows(rows)
                case TransactionsRead(end, rows):
                    self._transaction += [each for each in rows if self._collector.wants(each.table)]
                    yield from self._fingerprint(end)
                case StatementRead(begin, statement):
                    # Rows of its own transaction stand before it, too: whoever reads on from its end passes them by.
                    self._collect_transaction()
                    yield from self._finish(begin)
                    self.position = self._boundary = statement.end
                    self._is_inside = False
                    yield statement
                case LogPassed(end):
                    yield from self._advance(end)
                case _:
                    assert_never(step)

    def until(self, items: Sequence[object], stop: Position | None) -> Sequence[object]:
        """See LogReading."""
        return self._reading.until(items, stop)

    @property
    def is_waiting(self) -> bool:
        """Whether changes wait for a publication."""
        return self._collector.bytes > 0

    @property
    def boundary(self) -> Position | None:
        """Where the next transaction begins, if everything before it was handed out; else None."""
        is_between = not (self.is_waiting or self._is_inside or self._boundary.order[2])
        return self._boundary if is_between else None

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

    def has_read(self, position: Position) -> bool:
        """Whether every transaction before `position` is here; some may wait for a publication."""
        return self._boundary.order >= position.order

    def skip_ahead(self) -> Position | None:
        """Move over what held nothing for us; None if there is nothing to move over or changes still wait."""
        if self.is_waiting or self._boundary.order <= self.position.order:
            return None
        self.position = self._boundary
        return self.position

    def _take_rows(self, rows: LoggedRows) -> Iterator[Publication]:
        if not self._collector.wants(rows.table):
            return
        self._transaction.append(rows)
        self._transaction_bytes += rows.weight_bytes
        if self._transaction_bytes >= self._piece_bytes:
            position = self._reading.behind_rows(self._boundary)
            if position is not None:
                yield from self._piece(position)

    def _piece(self, end: Position) -> Iterator[Publication]:
        """Publish a part of a transaction that is too large to wait for its end."""
        yield from self._finish(self._boundary)
        self._collect_transaction()
        began = time.monotonic()
        yield from self._finish(end)
        if time.monotonic() - began < _QUICK_SECONDS:
            self._piece_bytes = min(2 * self._piece_bytes, self._pace.bytes_max)

    def _fingerprint(self, end: Position) -> Iterator[Publication]:
        self._collect_transaction()
        self._boundary, self._is_inside = end, False
        if self._collector.bytes >= min(self._pace.bytes_wanted, self._piece_bytes):
            yield from self._finish(end)

    def _advance(self, end: Position) -> Iterator[Publication]:
        """Move on with nothing for us; publications never span two files."""
        if end.file != self._boundary.file:
            yield from self._finish(self._boundary)
        self._boundary, self._is_inside = end, False

    def _collect_transaction(self) -> None:
        for event in self._transaction:
            self._collector.add(event)
        self._transaction, self._transaction_bytes = [], 0

    def _finish(self, end: Position) -> Iterator[Publication]:
        if self._collector.bytes == 0:
            return
        begin, self.position = self.position, end
        # Where so much comes, nothing has to wait for more.
        is_large = self._collector.bytes >= self._pace.bytes_wanted
        self._due_at = time.monotonic() + (0.0 if is_large else self._pace.interval_seconds)
        yield self._collector.take(begin, end)
