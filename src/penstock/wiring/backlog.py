"""Opens what a task that carries ranges of a backlog works with."""

from __future__ import annotations

from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.adapters.mysql.binlog_stream import Stop
from penstock.core.errors import PenstockError
from penstock.core.publication import CaptureRecord
from penstock.core.turns import is_held
from penstock.links.capture.backlog import ReadAhead, read_range
from penstock.links.capture.follow import Pace
from penstock.links.capture.open_capture import committed_record
from penstock.wiring.capture import open_book, open_capture, open_follower, open_stream
from penstock.wiring.open import committed_position, open_publisher, open_topic_log

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from penstock.core.positions import BinlogPosition
    from penstock.core.publication import StoppedTable
    from penstock.core.turns import Turn
    from penstock.links.capture.backlog import RangePart
    from penstock.links.capture.open_capture import OpenCapture
    from penstock.links.capture.spec import CaptureSpec
    from penstock.links.capture.table_book import TableBook

BACKLOG_PACE = Pace(interval_seconds=3600.0, bytes_wanted=8 << 20)
_AHEAD_BYTES_MAX = 256 << 20


class Lane:
    """What one task of several works with: the tables as they are at the start of the backlog, and the capture."""

    def __init__(self, spec: CaptureSpec, number: int) -> None:
        """Read on the `number`-th connection of the pipeline; nothing is connected yet."""
        self._spec = spec
        self._number = number
        self._topics = open_topic_log(spec.pipeline)
        self._book: TableBook | None = None
        self._next_book: TableBook | None = None

    @contextmanager
    def read(self, begin: BinlogPosition, stopped: Mapping[str, StoppedTable]) -> Iterator[ReadAhead]:
        """Read one binlog file from `begin` to its end."""
        with closing(self._parts(begin, dict(stopped))) as parts:
            yield ReadAhead(parts, _AHEAD_BYTES_MAX)

    def _parts(self, begin: BinlogPosition, stopped: dict[str, StoppedTable]) -> Generator[RangePart]:
        if self._book is None:
            self._book = open_book(self._spec)
        with closing(open_stream(self._spec, begin, Stop.END_OF_FILE, self._number)) as stream:
            follower = open_follower(self._spec, self._book, stopped, begin, BACKLOG_PACE)
            yield from read_range(stream, follower, stopped)

    def newest(self) -> CaptureRecord | None:
        """See links/capture/ranges.RangeTurns."""
        record = committed_position(self._spec.pipeline, self._topics, self._spec.source_name)
        return None if record is None else CaptureRecord.from_mapping(record)

    def prepare(self) -> None:
        """See links/capture/ranges.RangeTurns."""
        # Whoever takes the tracker over, as `open` does, soon loses it to the next range: its book serves one turn.
        with suppress(PenstockError):
            self._next_book = self._next_book or open_book(self._spec)
            self._next_book.tracker.sequences()

    def open(self, turn: Turn) -> OpenCapture:
        """See links/capture/ranges.RangeTurns."""
        book, self._next_book = self._next_book, None
        try:
            return open_capture(self._spec, turn, book)
        except BaseException:
            if book is not None:
                book.close()
            raise

    def end(self, turn: Turn) -> None:
        """See links/capture/ranges.RangeTurns. What hinders it is of no use to whoever is told of the first error."""
        with suppress(PenstockError):
            newest = self.newest()
            if newest is None or not is_held(newest.turn, turn):
                return
            with closing(open_publisher(self._spec.pipeline, self._spec.source_name, self._spec.epoch)) as publisher:
                record = committed_record(publisher)
                if record is not None:
                    publisher.publish((), replace(record, rows={}, turn=turn).to_mapping)
                    publisher.settle()

    def close(self) -> None:
        """Let go of tables and topics."""
        for book in filter(None, (self._book, self._next_book)):
            book.close()
        self._topics.close()
