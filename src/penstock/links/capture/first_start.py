"""The first start of a capture: from the beginning of the log, or with an initial snapshot of the tables."""

from __future__ import annotations

import math
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from penstock.config.crash_points import CrashPoint
from penstock.core.avro.envelope_encode import EncodableTable
from penstock.core.errors import START_ANEW, TRACKER_LIKE_SOURCE, PositionError, TableStoppedError
from penstock.core.key_changes import message_order
from penstock.core.message_format import changes_as_messages, encode_changes
from penstock.core.publication import CaptureRecord, StoppedTable, count_rows
from penstock.core.schema_changes import SchemaChange, SchemaChangeKind
from penstock.links.capture.open_capture import CaptureParts, schema_change_messages
from penstock.links.capture.sendable import as_sendable

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    import numpy.typing as npt

    from penstock.core.changes import Messages
    from penstock.core.positions import Position
    from penstock.core.tables import TableId, TableSchema
    from penstock.ports.initial_snapshot import InitialSnapshot
    from penstock.ports.registry import RegisteredTable

_BATCH_ROWS = 10_000
_ROW_MAX = 2**31 - 1
_ANOTHER_TRACKER = (
    f"the tracker may be older than the source, or lack a plugin that it has: {TRACKER_LIKE_SOURCE}; and {START_ANEW}"
)
_FILLED_TRACKER = CrashPoint("start.tracker_filled", "the tracker has the source's tables, nothing is published")
_PUBLISHED = CrashPoint("start.published", "a piece of the copy is committed, perhaps the last")


def start_from_log(parts: CaptureParts, position: Position, epoch: int, server: str = "") -> None:
    """Begin at `position` of `server`, before the first table was created. The tracker starts empty."""
    parts.statements.take_over()
    parts.statements.start_empty()
    record = CaptureRecord(position, epoch, timestamp_ms=0, server=server)
    parts.publisher.publish((), record.to_mapping)
    parts.publisher.settle()


def begin_snapshot(parts: CaptureParts, position: Position, epoch: int, server: str) -> None:
    """Write down that a copy of `server` is begun, not before `position`: what it makes there is ours from now on."""
    record = CaptureRecord(position, epoch, timestamp_ms=0, server=server, is_snapshotting=True)
    parts.publisher.publish((), record.to_mapping)
    parts.publisher.settle()


@dataclass(frozen=True, slots=True)
class SnapshotPace:
    """How long a copy gathers before it commits, `seconds`; and the record of one that broke off `before`, if any.

    Without transactions there are no commits, and `seconds` is infinite: the copy is one piece.
    """

    seconds: float
    before: CaptureRecord | None


def start_with_snapshot(
    parts: CaptureParts, snapshot: InitialSnapshot, epoch: int, server: str, pace: SnapshotPace
) -> None:
    """Publish a whole copy of `server`, and the position behind it with the last of it.

    Kafka does not let a transaction be open for long, so a copy that takes longer
    than `pace.seconds` is committed in pieces, whose records say that it is not
    whole. A crash then leaves a part of a copy, as it does without transactions:
    `pace.before` is the record of it. The next one is another copy, so it begins
    each table anew, behind what is left over of the part.

    Raises PositionError where the new copy would count as older than that part.
    """
    _require_behind(pace.before, snapshot.position, server)
    parts.statements.take_over()
    refused = parts.statements.start_with(snapshot.creates)
    _FILLED_TRACKER.maybe_crash()
    publishing = _SnapshotPublication(parts, snapshot, epoch, server, refused)
    # Where it fails, the source is told at once, and not when the last of the copy is forgotten.
    with closing(publishing.messages()) as messages:
        while not publishing.is_whole:
            parts.publisher.publish(publishing.piece(messages, pace.seconds), publishing.record)
            # Takes a fingerprint of what was published: whoever comes behind a crash need not count it.
            parts.publisher.settle()
            _PUBLISHED.maybe_crash()


def _require_behind(before: CaptureRecord | None, position: Position, server: str) -> None:
    if before is None or (before.server == server and before.position.order <= position.order):
        return
    message = (
        f"an initial snapshot of the server {before.server}, at {before.position}, was interrupted, and another one at "
        f"{position} of {server} would count as older"
    )
    raise PositionError(message, f"the source was reset or replaced meanwhile: {START_ANEW}")


def number_on(rows: npt.NDArray[np.int32], left_over: int, table: TableId, position: Position) -> npt.NDArray[np.int32]:
    """Return the numbers of a batch's rows, int32[n], behind `left_over` rows that are in the table's topic.

    Raises TableStoppedError before they, or those of the next batch, are too large for the envelope.
    """
    if left_over + int(rows[-1]) + _BATCH_ROWS > _ROW_MAX:
        reason = f"it has more than {_ROW_MAX:,} rows, with those of interrupted initial snapshots"
        hint = f"give the table less, or {START_ANEW}"
        raise TableStoppedError(str(table), "", str(position), reason, hint)
    return rows + np.int32(left_over)


class _SnapshotPublication:
    """The copy's messages, and the record that can be written once they are all sent."""

    def __init__(
        self, parts: CaptureParts, snapshot: InitialSnapshot, epoch: int, server: str, refused: Mapping[TableId, str]
    ) -> None:
        self._server = server
        self._refused = refused
        self._parts = parts
        self._snapshot = snapshot
        self._epoch = epoch
        self._rows: dict[str, tuple[int, int]] = {}
        self._stopped: dict[str, StoppedTable] = {}
        self.is_whole = False

    def record(self) -> dict[str, object]:
        newest = max((timestamp_ms for _, timestamp_ms in self._rows.values()), default=0)
        position, server = self._snapshot.position, self._server
        rows, stopped, is_snapshotting = self._rows, self._stopped, not self.is_whole
        return CaptureRecord(
            position, self._epoch, newest, rows, stopped, server, is_snapshotting=is_snapshotting
        ).to_mapping()

    def piece(self, messages: Iterator[Messages], seconds: float) -> Iterator[Messages]:
        """Those of `messages` that come within `seconds`, and the next; the copy is whole when there are no more.

        What is announced is a piece of its own, unless there is but one. All sources share its topic, and while
        a transaction has a message there, nobody sees what the others announce, nor may read their rows.
        """
        ends_at = time.monotonic() + seconds
        for each in messages:
            yield each
            is_announced = each.topic == self._parts.schemas_topic and math.isfinite(seconds)
            if is_announced or time.monotonic() >= ends_at:
                return
        self.is_whole = True

    def messages(self) -> Generator[Messages]:
        """What is announced, of all tables, and then their rows."""
        catalog = self._parts.table_catalog
        gone = [last for last in catalog.announced() if last.table not in self._snapshot.schemas]
        told = [self._placed(replace(last, kind=SchemaChangeKind.DROP)) for last in gone]
        registered: dict[TableId, RegisteredTable] = {}
        for table, schema in sorted(self._snapshot.schemas.items()):
            with self._stopping(table):
                registered[table] = self._register(schema)
                told.append(self._beginning(schema, registered[table]))
        yield from schema_change_messages(self._parts.schemas_topic, told)
        for table, of_table in registered.items():
            with self._stopping(table):
                yield from self._rows_of(self._snapshot.schemas[table], of_table)

    @contextmanager
    def _stopping(self, table: TableId) -> Iterator[None]:
        """Go on with the next table where this one cannot be carried."""
        try:
            yield
        except TableStoppedError as error:
            self._stopped[str(table)] = StoppedTable(str(self._snapshot.position), error.message, error.hint)

    def _register(self, schema: TableSchema) -> RegisteredTable:
        if schema.table in self._refused:
            reason = f"the schema tracker refused its definition: {self._refused[schema.table]}"
            raise TableStoppedError(str(schema.table), "", str(self._snapshot.position), reason, _ANOTHER_TRACKER)
        registered = self._parts.table_catalog.register(schema, str(self._snapshot.position))
        self._parts.publisher.create_topics([registered.topic])
        return registered

    def _beginning(self, schema: TableSchema, registered: RegisteredTable) -> SchemaChange:
        catalog = self._parts.table_catalog
        partitions = self._parts.publisher.partitions(registered.topic)
        schema_change = replace(catalog.event_of(schema, registered, (0, 0, 0)), partitions=partitions)
        if catalog.schema_change(schema.table) is not None:
            schema_change = replace(schema_change, kind=SchemaChangeKind.CREATE)
        return self._placed(schema_change)

    def _placed(self, schema_change: SchemaChange) -> SchemaChange:
        """At the place of the copy, behind the rows that are left over of another one, which count from 0."""
        position, left_over = self._snapshot.position, self._parts.publisher.left_over(schema_change.topic)
        return replace(schema_change, order=(*position.order[:2], left_over or -1), file=position.file)

    def _rows_of(self, schema: TableSchema, registered: RegisteredTable) -> Generator[Messages]:
        catalog, left_over = self._parts.table_catalog, self._parts.publisher.left_over(registered.topic)
        ids = (registered.key_schema_id, registered.value_schema_id)
        encodable = EncodableTable(catalog.source, catalog.connector, schema, *ids, format=catalog.format)
        with closing(self._snapshot.rows(schema.table, _BATCH_ROWS)) as batches:
            for batch in batches:
                behind = replace(batch, rows=number_on(batch.rows, left_over, schema.table, self._snapshot.position))
                encoded = encode_changes(encodable, behind, time.time_ns() // 1_000_000)
                messages = changes_as_messages(encodable, registered.topic, batch.op, encoded, message_order(batch))
                sendable = as_sendable(catalog, schema.table, [messages], str(self._snapshot.position))
                self._rows = count_rows(self._rows, schema.table, len(batch), int(batch.timestamps_ms[-1]))
                yield from sendable
