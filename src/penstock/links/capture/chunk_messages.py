"""The messages of a chunk that was read: what of it still holds where the log is published up to now."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError, TableStoppedError, UsageError
from penstock.core.message_format import changes_as_messages, encode_changes
from penstock.core.snapshot_copies import COPIES_SCHEMA
from penstock.links.capture.sendable import as_sendable

if TYPE_CHECKING:
    from penstock.core.changes import Messages, RowBatch
    from penstock.core.positions import Position
    from penstock.core.snapshots import Window
    from penstock.core.tables import TableId
    from penstock.links.capture.open_capture import OpenCapture
    from penstock.ports.snapshots import Chunk, Snapshot


class SnapshotError(Exception):
    """What ends a snapshot and leaves the capture as it is."""

    def __init__(self, cause: PenstockError) -> None:
        """Keep why."""
        super().__init__(cause)
        self.cause = cause


class GivesWayInPartError(Exception):
    """A row of a chunk would give way to a change that lacks some of its values: neither of the two has them all."""


def chunk_messages(
    capture: OpenCapture, table: TableId, chunk: Chunk, window: Window, boundary: Position
) -> list[Messages]:
    """Encode what of a chunk holds at `boundary`. Raises SnapshotError and GivesWayInPartError."""
    catalog = capture.parts.table_catalog
    try:
        encodable, topic = catalog.encodable(table)
    except TableStoppedError as error:
        # It ended since the chunk was asked for.
        raise SnapshotError(error) from error
    row, now_ms, messages = capture.refresh_row(boundary), time.time_ns() // 1_000_000, []
    for batch in (chunk.rows, chunk.gone):
        if batch is None or not len(batch):
            continue
        try:
            keys, values = encode_changes(encodable, _placed(batch, boundary, row), now_ms)
        except PenstockError as error:
            raise SnapshotError(error) from error
        listed = keys.to_pylist()
        if window.has_parts_of(listed):
            raise GivesWayInPartError
        kept = window.unchanged(listed)
        if kept:
            indices = pa.array(kept, pa.int64())
            encoded = (keys.take(indices), values.take(indices))
            messages.append(changes_as_messages(encodable, topic, batch.op, encoded, [row] * len(kept)))
    try:
        return as_sendable(catalog, table, messages, str(boundary))
    except PenstockError as error:
        raise SnapshotError(error) from error


def require_came(capture: OpenCapture, snapshot: Snapshot, chunk: Chunk) -> None:
    """Raise SnapshotError if rows that the source has copied did not come in its log."""
    if chunk.copied_from is None or not chunk.copied:
        return
    number, offset, _ = chunk.copied_from.order
    if not capture.parts.table_catalog.copied.came_since(snapshot.id, number, offset):
        message = f"the source copied {chunk.copied:,} rows of {snapshot.table}, and its log has none of them"
        hint = (
            f"let the server log the database {COPIES_SCHEMA}, which binlog_do_db or binlog_ignore_db leaves out; "
            "or take the snapshot without --blackhole"
        )
        raise SnapshotError(UsageError(message, hint))


def _placed(batch: RowBatch, position: Position, row: int) -> RowBatch:
    """Give a batch the place in the log at which it holds."""
    count, place = len(batch), position.refresh_place
    offsets, rows = np.full(count, place.offset, np.int64), np.full(count, row, np.int32)
    return replace(batch, file=place.file, offsets=offsets, rows=rows)
