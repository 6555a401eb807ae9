"""Rows that a source changed behind its log: a snapshot is asked for by itself, and its table stops where none is made.

What is to be read again is in the position record from the transaction on that
published what it came with, until the snapshot is asked for and in the record itself.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from penstock.core.commands import shell_word
from penstock.core.errors import UsageError
from penstock.core.publication import StoppedTable
from penstock.core.snapshots import SnapshotProgress, Status, Wanted
from penstock.core.tables import TableId
from penstock.links.capture.table_return import announce_part
from penstock.ports.snapshots import Snapshot

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.core.positions import Position
    from penstock.links.capture.open_capture import OpenCapture
    from penstock.ports.snapshots import SnapshotList


def ask_for_rereads(
    capture: OpenCapture, snapshots: SnapshotList, is_open: Collection[Snapshot], boundary: Position
) -> list[Snapshot]:
    """Ask for a snapshot of each table of which rows are to be read again, but not beside one of it that is open.

    A chunk of that one may be from before the change, so another one comes behind it.
    """
    catalog, asked = capture.parts.table_catalog, []
    busy = {each.table for each in is_open}
    for name, reread in list(capture.rereads.items()):
        if catalog.schema_change(TableId.parse(name)) is None or name in capture.stopped:
            # Whatever begins it anew reads all of its rows.
            del capture.rereads[name]
        elif name not in busy:
            id_ = uuid.uuid4().hex[:12]
            snapshot = Snapshot(id_, catalog.source, name, reread.options, Wanted.RUN, Status.REQUESTED)
            try:
                snapshots.add(snapshot)
            except UsageError:
                # Somebody has just asked for one of it.
                continue
            capture.snapshots[id_] = SnapshotProgress(name, mends=True)
            del capture.rereads[name]
            asked.append(snapshot)
    if asked:
        capture.advance(boundary)
    return asked


def paused_tables(is_open: Collection[Snapshot]) -> frozenset[str]:
    """The tables of which nothing is read until people let their snapshots go on, whatever is to be read again."""
    return frozenset(each.table for each in is_open if each.wanted is Wanted.PAUSE)


def end_unread(capture: OpenCapture, id_: str, progress: SnapshotProgress, reason: str, position: Position) -> None:
    """Commit that a snapshot has ended early; its table stops, or is told to be a part, where it lacks rows now."""
    _stop_unread(capture, progress, reason)
    part = announce_part(capture, progress, position)
    del capture.snapshots[id_]
    if part is None:
        capture.advance(position)
    else:
        capture.tell(position, part)


def _stop_unread(capture: OpenCapture, progress: SnapshotProgress, reason: str) -> None:
    """Stop the table of a snapshot that ended before its rows were those of the source."""
    schema = capture.parts.table_catalog.announced_schema(TableId.parse(progress.table))
    if schema is not None and (progress.fills or progress.mends):
        lacks = "lacks rows" if progress.fills else "has rows that foreign keys changed since, unread"
        message = f"table {progress.table} {lacks}: {reason}"
        hint = f"penstock snapshot FILE {shell_word(progress.table)}{'' if schema.key else ' --full-lock'}"
        capture.stopped.setdefault(progress.table, StoppedTable(str(capture.position), message, hint))
