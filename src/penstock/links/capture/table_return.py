"""A table that had stopped, or was not carried so far, goes on: its definition, and what is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.errors import TRACKER_LIKE_SOURCE, TableStoppedError, UsageError
from penstock.core.positions import in_timeline
from penstock.core.schema_changes import SchemaChange, SchemaChangeKind
from penstock.core.snapshots import Method, require_key
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from penstock.core.positions import Position
    from penstock.core.snapshots import SnapshotProgress
    from penstock.links.capture.open_capture import OpenCapture
    from penstock.ports.snapshots import Definition, Snapshot


def announce_anew(capture: OpenCapture, found: Definition, position: Position, method: Method) -> SchemaChange:
    """Bring tracker and registry to the table as it was `found`, and return what is to be told of it at `position`.

    While it is stopped or not told of, nobody asks the tracker about it: a crash in between harms nothing.
    Raises UsageError where the table cannot be carried.
    """
    table, table_catalog = found.schema.table, capture.parts.table_catalog
    if method is not Method.FULL_LOCK:
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
    number, offset, _ = position.refresh_place.order
    order = (number, offset, capture.refresh_row(position))
    return SchemaChange(
        source=table_catalog.source,
        table=table,
        topic=registered.topic,
        follows=registered.follows,
        key_schema_id=registered.key_schema_id,
        value_schema_id=registered.value_schema_id,
        partitions=capture.parts.partitions,
        format=table_catalog.format,
        order=in_timeline(order, position.timeline),
        kind=SchemaChangeKind.CREATE,
        file=position.refresh_place.file,
    )


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
