"""Tables whose topics cannot be read on: where they stop, and where they go on.

A message that the table's capture did not write, or that lacks what came before it,
ends the reading of its partition, and nothing more of the table is read: what is
behind it may be as wrong. Statements about the table are passed on, as rows
that are not there are in nobody's way; who gets its rows by one of them stops, too. When the
table begins anew (CREATE, or a join's TRUNCATE, with SchemaChange.begins), all that its topic had until then
counts no more.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from penstock.core.publication import nothing_left
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.topic_fingerprints import bring_back
from penstock.links.objects.record import StoppedReading

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.core.schema_changes import SchemaChange
    from penstock.links.objects.record import ObjectsRecord
    from penstock.links.objects.write import RangeWritten


def stop_and_resume(
    record: ObjectsRecord, written: Iterable[RangeWritten], schema_changes: Sequence[SchemaChange]
) -> ObjectsRecord:
    """Return `record`, behind those schema-change events and what is `written`, with the tables that stop and go on.

    What is passed on together with a message that ends the reading lies before it.
    """
    for _, statement in groupby(schema_changes, key=lambda told: (told.source, told.order)):
        before = record.stopped_tables()
        for schema_change in statement if before else ():
            match schema_change.kind:
                case SchemaChangeKind.CREATE:
                    record = _begin_anew(record, schema_change)
                case SchemaChangeKind.TRUNCATE if schema_change.begins:
                    record = _begin_anew(record, schema_change)
                case SchemaChangeKind.RENAME:
                    record = _move(record, schema_change, before)
                case SchemaChangeKind.DROP:
                    record = _end(record, before.get((schema_change.source, str(schema_change.table))))
    for part in written:
        if (error := part.stopped) is not None:
            why = StoppedReading(part.range.source, part.range.table, error.message, error.hint, error.offset)
            record = replace(record, stopped={**record.stopped, error.place: why})
    return record


def _begin_anew(record: ObjectsRecord, schema_change: SchemaChange) -> ObjectsRecord:
    """Go on behind all that the topic had; other topics that the table had before are read no more."""
    table, topic = (schema_change.source, str(schema_change.table)), schema_change.topic
    mine = {place: why for place, why in record.stopped.items() if (why.source, why.table) == table}
    ends = dict(enumerate(schema_change.begins))
    # An event that waited for others may be from before the message.
    if not mine or any(place[0] == topic and why.offset >= ends.get(place[1], 0) for place, why in mine.items()):
        return record
    places = dict(record.places)
    for partition, end in ends.items():
        batched, read = places.get((topic, partition), (0, 0))
        places[topic, partition] = (batched, max(read, end))
    stopped = {place: why for place, why in record.stopped.items() if place not in mine}
    left = {*record.left, *(place[0] for place in mine)} - {topic}
    return replace(record, places=places, stopped=stopped, left=tuple(sorted(left)))


def _move(
    record: ObjectsRecord, schema_change: SchemaChange, before: Mapping[tuple[str, str], StoppedReading]
) -> ObjectsRecord:
    """Stop the table if it got the rows of one that was stopped `before` the statement; tell what became of that.

    A table that gets the name of one that had stopped has its topic, too, and stays stopped.
    """
    table = str(schema_change.table)
    if (why := before.get((schema_change.source, table))) is not None:
        record = _told(record, why, replace(why, is_gone=False, hint=bring_back(table)))
    for move in schema_change.moves:
        why = before.get((schema_change.source, move.origin))
        if move.table == table and why is not None:
            error = f"it got the rows of {move.origin}, of which not all were read: {why.error}"
            reading = StoppedReading(schema_change.source, table, error, bring_back(table))
            record = replace(record, stopped={**record.stopped, (schema_change.topic, 0): reading})
            if move.origin not in {each.table for each in schema_change.moves}:
                record = _end(record, why)
    return record


def _end(record: ObjectsRecord, why: StoppedReading | None) -> ObjectsRecord:
    """Tell of a stopped table that it was dropped, or got another name: there is nothing to bring back."""
    return record if why is None else _told(record, why, replace(why, is_gone=True, hint=nothing_left(why.table)))


def _told(record: ObjectsRecord, before: StoppedReading, now: StoppedReading) -> ObjectsRecord:
    return replace(record, stopped={place: now if why == before else why for place, why in record.stopped.items()})
