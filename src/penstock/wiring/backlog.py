"""Opens what a task that carries slices of a backlog works with."""

from __future__ import annotations

from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.adapters.kafka.topics import position_topic
from penstock.core.errors import PenstockError
from penstock.core.kafka.shares import EncodedMessages
from penstock.core.publication import CaptureRecord
from penstock.core.publish_tokens import is_held
from penstock.links.capture.backlog import ReadAhead, read_slice
from penstock.links.capture.follow import Pace
from penstock.links.capture.open_capture import committed_record
from penstock.ports.log import Stop
from penstock.wiring.capture import open_capture, open_follower, open_stream, open_table_catalog
from penstock.wiring.capture_kinds import capture_kind
from penstock.wiring.open import committed_position, open_publisher, open_topic_log

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from penstock.core.changes import Messages
    from penstock.core.positions import Position
    from penstock.core.publication import StoppedTable
    from penstock.core.publish_tokens import PublishToken
    from penstock.links.capture.backlog import SlicePart
    from penstock.links.capture.open_capture import OpenCapture
    from penstock.links.capture.spec import CaptureSpec
    from penstock.links.capture.table_catalog import TableCatalog

BACKLOG_PACE = Pace(interval_seconds=3600.0)
_AHEAD_BYTES_MAX = 256 << 20


class SliceReader:
    """What one task of several works with: the tables as they are at the start of the backlog, and the capture."""

    def __init__(self, spec: CaptureSpec, number: int) -> None:
        """Read on the `number`-th connection of the pipeline; nothing is connected yet."""
        self._spec = spec
        self._number = number
        self._topics = open_topic_log(spec.pipeline)
        self._table_catalog: TableCatalog | None = None
        self._partitions: dict[str, int] = {}
        self._newest: CaptureRecord | None = None
        self._newest_end = -1

    @contextmanager
    def read(self, begin: Position, stopped: Mapping[str, StoppedTable]) -> Iterator[ReadAhead]:
        """Read one binlog file from `begin` to its end."""
        encode = self._encode if self._spec.pipeline.kafka.transactions else None
        with closing(self._parts(begin, dict(stopped))) as parts:
            yield ReadAhead(parts, _AHEAD_BYTES_MAX, encode)

    def _parts(self, begin: Position, stopped: dict[str, StoppedTable]) -> Generator[SlicePart]:
        table_catalog = self._open_catalog()
        with closing(open_stream(self._spec, begin, Stop.END_OF_FILE, self._number, table_catalog)) as stream:
            follower = open_follower(self._spec, table_catalog, stopped, begin, BACKLOG_PACE)
            yield from read_slice(stream, follower, stopped)

    def _open_catalog(self) -> TableCatalog:
        """The tables: the same for all slices of a micro-batch, since behind a statement none gets the token."""
        if self._table_catalog is None:
            self._table_catalog = open_table_catalog(self._spec, self._topics)
        return self._table_catalog

    def _encode(self, messages: Messages) -> Messages:
        """Make now what else would be made with the token, when nobody but we could publish."""
        topic = messages.topic
        if topic not in self._partitions:
            _, self._partitions[topic] = self._topics.shapes([topic]).get(topic, ("", 0))
        partitions = self._partitions[topic]
        return EncodedMessages(messages, partitions) if partitions else messages

    def newest(self) -> CaptureRecord | None:
        """See links/capture/carry_slice.PublishTokens."""
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

    def open(self, publish_token: PublishToken) -> OpenCapture:
        """See links/capture/carry_slice.PublishTokens."""
        return open_capture(self._spec, publish_token, self._open_catalog(), self._topics)

    def on_top_of(self, base: Position, position: Position) -> Position:
        """See links/capture/carry_slice.PublishTokens."""
        return capture_kind(self._spec.source).on_top_of(base, position)

    def end(self, publish_token: PublishToken) -> None:
        """See links/capture/carry_slice.PublishTokens. The first error is told, not what hinders it."""
        spec = self._spec
        with suppress(PenstockError):
            newest = self.newest()
            if newest is None or not is_held(newest.publish_token, publish_token):
                return
            publisher = open_publisher(spec.pipeline, spec.source_name, spec.epoch, log=self._topics)
            with closing(publisher):
                record = committed_record(publisher)
                if record is not None:
                    publisher.publish((), replace(record, rows={}, publish_token=publish_token).to_mapping)
                    publisher.settle()

    def close(self) -> None:
        """Let go of tables and topics."""
        if self._table_catalog is not None:
            self._table_catalog.close()
        self._topics.close()
