"""A capture that is open: its publisher has fenced all others, and its position is the committed one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.core.announcements import Kind
from penstock.core.changes import Messages
from penstock.core.errors import FencedError, PositionError
from penstock.core.publication import CaptureRecord, StoppedTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.announcements import Announcement
    from penstock.core.mysql.log_items import StatementLogged
    from penstock.core.positions import BinlogPosition
    from penstock.core.publication import Publication
    from penstock.links.capture.statements import StatementHandler
    from penstock.links.capture.table_book import TableBook
    from penstock.ports.publisher import Publisher


@dataclass(frozen=True, slots=True)
class CaptureParts:
    """What a capture works with."""

    publisher: Publisher
    book: TableBook
    statements: StatementHandler
    schemas_topic: str
    partitions: int

    def close(self) -> None:
        """Abort what is being published and let go of everything."""
        self.publisher.close()
        self.statements.close()
        self.book.close()


@dataclass(slots=True)
class OpenCapture:
    """Publishes what a capture reads, and knows nothing that its committed record does not say."""

    parts: CaptureParts
    epoch: int
    position: BinlogPosition
    timestamp_ms: int
    stopped: dict[str, StoppedTable] = field(default_factory=dict)

    @classmethod
    def resume(cls, parts: CaptureParts, epoch: int) -> OpenCapture:
        """Take the link over at its committed record, and commit that we did.

        Raises FencedError if a newer instance was here first, PositionError if the
        link has no record yet.
        """
        record = committed_record(parts.publisher)
        if record is None:
            message = f"capture of {parts.book.source} has no position in Kafka"
            raise PositionError(
                message,
                "its position topic was deleted: start a new pipeline with a copy",
            )
        if record.epoch > epoch:
            message = f"a newer instance of this pipeline captures {parts.book.source}"
            raise FencedError(
                message,
                "stop one of the two instances; this one has published nothing since",
            )
        parts.statements.recover(record.position)
        capture = cls(parts, epoch, record.position, record.timestamp_ms, dict(record.stopped))
        if record.epoch < epoch:
            capture.advance(record.position)
        return capture

    def publish(self, publication: Publication) -> None:
        """Commit a publication that begins where we stand."""
        here, begin = self.position, publication.begin
        if begin.order != here.order:
            message = f"changes from {begin} were to be published at {here}"
            raise PositionError(
                message,
                "this is a mistake in Penstock; nothing was published: restart, and report it with both positions",
            )
        self.position = publication.end
        self.timestamp_ms = publication.timestamp_ms or self.timestamp_ms
        self._commit(publication.messages, publication.rows)

    def advance(self, position: BinlogPosition) -> None:
        """Commit that nothing of ours lies before `position`."""
        self.position = position
        self._commit((), {})

    def take_statement(self, statement: StatementLogged) -> None:
        """Bring everybody past a statement; everything before it is published.

        A stopped table that begins anew, or gets the rows of another, goes on: all of its rows are known.
        Raises FencedError, and touches nothing, if another instance has taken over.
        """
        if self.parts.statements.replays(statement):
            # The tracker and the state database fence nobody. Kafka does: only whoever still has the link can
            # commit. An instance that slept must not replay what its successor has replayed.
            self.advance(self.position)
        outcome = self.parts.statements.apply(statement, self.stopped)
        for announcement in outcome.announcements:
            if announcement.kind in {Kind.CREATE, Kind.RENAME}:
                self.stopped.pop(str(announcement.table), None)
        for table, why in outcome.stopped:
            self.stopped.setdefault(str(table), why)
        self.position = statement.end
        announced = [a for a in outcome.announcements if str(a.table) not in self.stopped]
        self.timestamp_ms = statement.timestamp_ms
        self.parts.publisher.create_topics(a.topic for a in announced)
        self._commit(announcement_messages(self.parts.schemas_topic, announced), {})
        for announcement in announced:
            self.parts.book.announce(announcement)
        self.parts.statements.settle()

    def _commit(self, messages: Sequence[Messages], rows: Mapping[str, tuple[int, int]]) -> None:
        record = CaptureRecord(self.position, self.epoch, self.timestamp_ms, rows, self.stopped)
        self.parts.publisher.publish(messages, record.to_mapping)


def committed_record(publisher: Publisher) -> CaptureRecord | None:
    """Return the link's newest record, None before its first."""
    record = publisher.position()
    return None if record is None else CaptureRecord.from_mapping(record)


def announcement_messages(topic: str, announcements: Sequence[Announcement]) -> list[Messages]:
    """Announcements as messages of the schemas topic; none for none."""
    if not announcements:
        return []
    return [
        Messages(
            topic=topic,
            keys=pa.array([str(a.table).encode() for a in announcements], pa.binary()),
            values=pa.array([a.to_json() for a in announcements], pa.binary()),
            order=np.arange(len(announcements), dtype=np.int64),
        )
    ]
