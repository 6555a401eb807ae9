"""Opens what a task that carries ranges of a backlog works with."""

from __future__ import annotations

from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.adapters.kafka.topics import position_topic
from penstock.core.errors import PenstockError
from penstock.core.kafka.shares import EncodedMessages
from penstock.core.publication import CaptureRecord
from penstock.core.turns import is_held
from penstock.links.capture.backlog import ReadAhead, read_range
from penstock.links.capture.follow import Pace
from penstock.links.capture.open_capture import committed_record
from penstock.ports.log import Stop
from penstock.wiring.capture import open_book, open_capture, open_follower, open_stream
from penstock.wiring.capture_kinds import capture_kind
from penstock.wiring.open import committed_position, open_publisher, open_topic_log

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from penstock.core.changes import Messages
    from penstock.core.positions import Position
    from penstock.core.publication import StoppedTable
    from penstock.core.turns import Turn
    from penstock.links.capture.backlog import RangePart
    from penstock.links.capture.open_capture import OpenCapture
    from penstock.links.capture.spec import CaptureSpec
    from penstock.links.capture.table_book import TableBook

BACKLOG_PACE = Pace(interval_seconds=3600.0)
_AHEAD_BYTES_MAX = 256 << 20


class Lane:
    """What one task of several works with: the tables as they are at the start of the backlog, and the capture."""

    def __init__(self, spec: CaptureSpec, number: int) -> None:
        """Read on the `number`-th connection of the pipeline; nothing is connected yet."""
        self._spec = spec
        self._number = number
        self._topics = open_topic_log(spec.pipeline)
        self._book: TableBook | None = None
        self._partitions: dict[str, int] = {}
        self._newest: CaptureRecord | None = None
        self._newest_end = -1

    @contextmanager
    def read(self, begin: Position, stopped: Mapping[str, StoppedTable]) -> Iterator[ReadAhead]:
        """Read one binlog file from `begin` to its end."""
        encode = self._encode if self._spec.pipeline.kafka.transactions else None
        with closing(self._parts(begin, dict(stopped))) as parts:
            yield ReadAhead(parts, _AHEAD_BYTES_MAX, encode)

    def _parts(self, begin: Position, stopped: dict[str, StoppedTable]) -> Generator[RangePart]:
        book = self._open_book()
        with closing(open_stream(self._spec, begin, Stop.END_OF_FILE, self._number, book)) as stream:
            follower = open_follower(self._spec, book, stopped, begin, BACKLOG_PACE)
            yield from read_range(stream, follower, stopped)

    def _open_book(self) -> TableBook:
        """The tables, of which all ranges of a micro-batch find the same: behind a statement none has a turn."""
        if self._book is None:
            self._book = open_book(self._spec, self._topics)
        return self._book

    def _encode(self, messages: Messages) -> Messages:
        """Make now what else would be made in a turn, when nobody but we could publish."""
        topic = messages.topic
        if topic not in self._partitions:
            _, self._partitions[topic] = self._topics.shapes([topic]).get(topic, ("", 0))
        partitions = self._partitions[topic]
        return EncodedMessages(messages, partitions) if partitions else messages

    def newest(self) -> CaptureRecord | None:
        """See links/capture/ranges.RangeTurns."""
        spec = self._spec
        end = -1
        if spec.pipeline.kafka.transactions:
            place = (position_topic(spec.pipeline.pipeline, spec.source_name), 0)
            end = self._topics.ends([place]).get(place, -1)
        if end < 0 or end != self._newest_end:
            record = committed_position(spec.pipeline, self._topics, spec.source_name)
            self._newest = None if record is None else CaptureRecord.from_mapping(record)
            self._newest_end = end
        return self._newest

    def open(self, turn: Turn) -> OpenCapture:
        """See links/capture/ranges.RangeTurns."""
        return open_capture(self._spec, turn, self._open_book(), self._topics)

    def on_top_of(self, base: Position, position: Position) -> Position:
        """See links/capture/ranges.RangeTurns."""
        return capture_kind(self._spec.source).on_top_of(base, position)

    def end(self, turn: Turn) -> None:
        """See links/capture/ranges.RangeTurns. What hinders it is of no use to whoever is told of the first error."""
        spec = self._spec
        with suppress(PenstockError):
            newest = self.newest()
            if newest is None or not is_held(newest.turn, turn):
                return
            publisher = open_publisher(spec.pipeline, spec.source_name, spec.epoch, log=self._topics)
            with closing(publisher):
                record = committed_record(publisher)
                if record is not None:
                    publisher.publish((), replace(record, rows={}, turn=turn).to_mapping)
                    publisher.settle()

    def close(self) -> None:
        """Let go of tables and topics."""
        if self._book is not None:
            self._book.close()
        self._topics.close()
