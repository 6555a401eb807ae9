"""The first start of a capture: from the beginning of the log, or with a copy of the tables."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from penstock.config.crash_points import CrashPoint
from penstock.core.announcements import Announcement, Kind
from penstock.core.avro.envelope_encode import EncodableTable, encode_changes
from penstock.core.changes import Messages
from penstock.core.errors import START_ANEW, TableStoppedError
from penstock.core.key_changes import message_order
from penstock.core.positions import file_number
from penstock.core.publication import CaptureRecord, StoppedTable, count_rows
from penstock.links.capture.open_capture import CaptureParts, announcement_messages

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from penstock.core.positions import BinlogPosition
    from penstock.core.tables import TableId, TableSchema
    from penstock.ports.copy import TableCopy

_BATCH_ROWS = 10_000
_ANOTHER_TRACKER = (
    "the tracker may be older than the source, or lack a plugin that it has: give it a server like the source, and "
    f"{START_ANEW}"
)
_EMPTY_TRACKER = '{"schemas": []}'
_FILLED_TRACKER = CrashPoint("start.tracker_filled", "the tracker has the source's tables, nothing is published")


def start_from_log(parts: CaptureParts, position: BinlogPosition, epoch: int, server: str = "") -> None:
    """Begin at `position` of `server`, before the first table was created. The tracker starts empty."""
    parts.book.tracker.take_over()
    parts.book.tracker.restore(_EMPTY_TRACKER)
    record = CaptureRecord(position, epoch, timestamp_ms=0, server=server)
    parts.publisher.publish((), record.to_mapping)
    parts.publisher.settle()


def start_with_copy(parts: CaptureParts, copy: TableCopy, epoch: int, server: str = "") -> None:
    """Publish a whole copy of `server` and the position behind it in one Kafka transaction.

    A crash before the commit leaves nothing behind but an aborted transaction:
    the next start copies again. The copy must fit into Kafka's transaction time
    limit, which is 15 minutes.

    Without transactions a crash leaves a part of a copy. The next one is another
    copy, so it begins each table anew, behind what is left over of it.
    """
    parts.book.tracker.take_over()
    refused = parts.book.tracker.fill(copy.creates)
    _FILLED_TRACKER.pass_by()
    publishing = _CopyPublication(parts, copy, epoch, server, refused)
    # Where it fails, the source is told at once, and not when the last of the copy is forgotten.
    with closing(publishing.messages()) as messages:
        parts.publisher.publish(messages, publishing.record)
    parts.publisher.settle()


class _CopyPublication:
    """The copy's messages, and the record that can be written once they are all sent."""

    def __init__(
        self, parts: CaptureParts, copy: TableCopy, epoch: int, server: str, refused: Mapping[TableId, str]
    ) -> None:
        self._server = server
        self._refused = refused
        self._parts = parts
        self._copy = copy
        self._epoch = epoch
        self._rows: dict[str, tuple[int, int]] = {}
        self._stopped: dict[str, StoppedTable] = {}

    def record(self) -> dict[str, object]:
        newest = max((timestamp_ms for _, timestamp_ms in self._rows.values()), default=0)
        position, server = self._copy.position, self._server
        return CaptureRecord(position, self._epoch, newest, self._rows, self._stopped, server).to_mapping()

    def messages(self) -> Generator[Messages]:
        for last in self._parts.book.announced():
            if last.table not in self._copy.schemas:
                yield from self._announce(replace(last, kind=Kind.DROP), self._parts.publisher.left_over(last.topic))
        for table, schema in sorted(self._copy.schemas.items()):
            try:
                yield from self._table_messages(schema)
            except TableStoppedError as error:
                self._stopped[str(table)] = StoppedTable(str(self._copy.position), error.message, error.hint)

    def _table_messages(self, schema: TableSchema) -> Generator[Messages]:
        if schema.table in self._refused:
            reason = f"the schema tracker refused its definition: {self._refused[schema.table]}"
            raise TableStoppedError(str(schema.table), "", str(self._copy.position), reason, _ANOTHER_TRACKER)
        source, registered = self._parts.book.source, self._parts.book.register(schema, str(self._copy.position))
        self._parts.publisher.create_topics([registered.topic])
        left_over = self._parts.publisher.left_over(registered.topic)
        announcement = Announcement(
            source=source,
            table=schema.table,
            topic=registered.topic,
            follows=registered.follows,
            key_schema_id=registered.key_schema_id,
            value_schema_id=registered.value_schema_id,
            partitions=self._parts.partitions,
            order=(0, 0, 0),
            kind=Kind.SCHEMA if self._parts.book.announcement(schema.table) is None else Kind.CREATE,
        )
        yield from self._announce(announcement, left_over)
        encodable = EncodableTable(source, "mysql", schema, registered.key_schema_id, registered.value_schema_id)
        with closing(self._copy.rows(schema.table, _BATCH_ROWS)) as batches:
            for batch in batches:
                behind = replace(batch, rows=batch.rows + np.int32(left_over))
                keys, values = encode_changes(encodable, behind, time.time_ns() // 1_000_000)
                yield Messages(registered.topic, keys, values, message_order(batch))
                self._rows = count_rows(self._rows, schema.table, len(batch), int(batch.timestamps_ms[-1]))

    def _announce(self, announcement: Announcement, left_over: int) -> list[Messages]:
        """Announce at the place of the copy, behind the rows that are left over of another one, which count from 0."""
        position = self._copy.position
        order = (file_number(position.file), position.offset, left_over or -1)
        placed = replace(announcement, order=order, file=position.file)
        return announcement_messages(self._parts.schemas_topic, [placed])
