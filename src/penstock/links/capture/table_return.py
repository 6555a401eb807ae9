"""A table that had stopped, or was not carried so far, goes on, and one that is gone ends: what is told of them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.core.errors import FULL_REFRESH, TRACKER_LIKE_SOURCE, TableStoppedError, UsageError
from penstock.core.positions import in_timeline
from penstock.core.schema_changes import SchemaChange, SchemaChangeKind
from penstock.core.snapshots import Method, require_key
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from penstock.core.positions import Order, Position
    from penstock.core.snapshots import SnapshotOptions, SnapshotProgress
    from penstock.links.capture.open_capture import OpenCapture
    from penstock.ports.snapshots import Definition, Snapshot

_FOR_ALL: Final = f"{FULL_REFRESH}, without --link"


def announce_anew(
    capture: OpenCapture, found: Definition, position: Position, options: SnapshotOptions
) -> SchemaChange:
    """Bring tracker and registry to the table as it was `found`, and return what is to be told of it at `position`.

    While it is stopped or not told of, nobody asks the tracker about it: a crash in between harms nothing.
    With the `link` of `options` the table begins for that link alone.
    Raises UsageError where the table cannot be carried.
    """
    if options.link:
        return _announce_for(options.link, capture, found, position)
    table, table_catalog = found.schema.table, capture.parts.table_catalog
    if options.method is not Method.FULL_LOCK:
        require_key(found.schema)
    if table_catalog.tracker.table_schema(table) != found.schema:
        # Only whoever still has the link can commit, and may change the tracker.
        capture.advance(position)
        if not capture.has_tracker:
            capture.parts.statements.take_over()
            capture.has_tracker = True
        refused = capture.parts.statements.start_with(found.dump)
        table_catalog.unlogged.forget()
        if table in refused:
            message = f"the schema tracker refused the definition of {table}: {refused[table]}"
            raise UsageError(message, f"the tracker may be older than the source: {TRACKER_LIKE_SOURCE}")
    try:
        registered = table_catalog.register(found.schema, str(position))
    except TableStoppedError as error:
        raise UsageError(error.message, error.hint) from error
    for last in table_catalog.other_names(found.schema, position.timeline):
        # Should the table get its old name back, its rows of before are not those that it has by then.
        capture.end(position, announce_end(capture, last, position))
    begun = table_catalog.event_of(found.schema, registered, _order(capture, position))
    return replace(begun, kind=SchemaChangeKind.CREATE, file=position.refresh_place.file)


def _announce_for(link: str, capture: OpenCapture, found: Definition, position: Position) -> SchemaChange:
    """Return what is to be told where a table begins for `link`, and nothing becomes of it for others.

    What the log has told of the table last holds for the link, too. `found` may differ: it does not know what rows got
    with a column that was added, and it may be newer. Whoever reads the rows compares, and waits for the log.
    Raises UsageError where others have to know: they would keep rows of before.
    """
    table = found.schema.table
    require_key(found.schema)
    last = capture.parts.table_catalog.schema_change(table)
    if last is None or last.key_schema_id is None or str(table) in capture.stopped:
        message = f"{table} has stopped, or the log has not told of it and its key, so it has to begin for all targets"
        raise UsageError(message, _FOR_ALL)
    return _at(last, capture, position, begins_for=link)


def announce_part(capture: OpenCapture, progress: SnapshotProgress, position: Position) -> SchemaChange | None:
    """Return what is to be told at `position` of a table that lacks rows at one link, as its snapshot ended early.

    None if it begins at no link alone, or has ended, as all links know.
    """
    last = capture.parts.table_catalog.schema_change(TableId.parse(progress.table))
    return _at(last, capture, position, ends_for=progress.link) if progress.link and last is not None else None


def announce_end(capture: OpenCapture, last: SchemaChange, position: Position) -> SchemaChange:
    """Return what is to be told at `position` of a table that is gone since it was told of `last`."""
    kind, now_ms = SchemaChangeKind.DROP, time.time_ns() // 1_000_000
    return replace(_at(last, capture, position), kind=kind, timestamp_ms=now_ms)


def _at(
    last: SchemaChange, capture: OpenCapture, position: Position, begins_for: str = "", ends_for: str = ""
) -> SchemaChange:
    """Say once more what was told last, at `position`, and more to one link."""
    return replace(
        last,
        order=_order(capture, position),
        kind=SchemaChangeKind.SCHEMA,
        file=position.refresh_place.file,
        timestamp_ms=0,
        moves=(),
        column_renames=(),
        begins=(),
        begins_for=begins_for,
        ends_for=ends_for,
    )


def _order(capture: OpenCapture, position: Position) -> Order:
    number, offset, _ = position.refresh_place.order
    return in_timeline((number, offset, capture.refresh_row(position)), position.timeline)


def require_may_begin(capture: OpenCapture, snapshot: Snapshot, progress: SnapshotProgress | None) -> None:
    """Raise UsageError where a table that is not carried cannot begin with `snapshot`, which has come so far."""
    table = TableId.parse(snapshot.table)
    if not capture.parts.table_catalog.wanted(table):
        message = f"{table} is none of the tables of {snapshot.source}"
        raise UsageError(message, "add it to `tables` of the source, and start the pipeline again")
    if progress is not None:
        why = capture.stopped.get(snapshot.table)
        said = why.error if why else f"table {table} was dropped or renamed while its snapshot was made"
        raise UsageError(said, why.hint if why else "take a snapshot of what is there now")
    if snapshot.options.where or snapshot.options.keys:
        message = f"{table} is not carried now: it has stopped, was dropped, or is new"
        raise UsageError(message, "take a snapshot of all its rows first, without --where and --keys")
