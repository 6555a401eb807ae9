"""Decodes what a join reads, messages of its inputs and schema-change events, as events."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.avro.schemas import table_schema
from penstock.core.changes import Op
from penstock.core.commands import shell_word
from penstock.core.errors import CorruptLogError, PenstockError
from penstock.core.joins.completing import Orphan, partial_events
from penstock.core.joins.events import Changed, row_events, tombstone_events, truncate_event
from penstock.core.joins.lacking import find_lacking, with_defaults
from penstock.core.joins.unreadable import Unreadable
from penstock.core.large_messages import is_large
from penstock.core.message_format import decode_rows, schema_ids
from penstock.core.schema_changes import SchemaChangeKind, read_schema_change
from penstock.core.timelines import timelines_at
from penstock.core.topic_fingerprints import foreign_message, require_partitions
from penstock.links.joins.columns import InputColumns, require_described
from penstock.links.objects.in_order import read_orders

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from penstock.core.avro.arrays import Integers
    from penstock.core.schema_changes import SchemaChange
    from penstock.core.tables import TableSchema
    from penstock.links.joins.spec import JoinJob, JoinStream

_EMPTYING = {SchemaChangeKind.TRUNCATE, SchemaChangeKind.CREATE, SchemaChangeKind.DROP}
"""After these, a table has none of the rows that it had."""


UNREADABLE_MAX: Final = 1_000
"""Of one micro-batch, but for rows that are in an object store: where there are more, something else is wrong."""


class JoinDecoder:
    """Makes events of messages."""

    def __init__(self, job: JoinJob, value_schema: Callable[[int], str]) -> None:
        """Know schemas by `value_schema` (ports/registry.Registry)."""
        self.job = job
        self._value_schema = value_schema
        self._columns = [
            InputColumns(given, stream, value_schema)
            for given, stream in zip(job.plan.inputs, job.streams, strict=True)
        ]

    def decode(
        self, topic: str, partition: int, offsets: Integers, values: pa.BinaryArray, keys: pa.BinaryArray
    ) -> Iterator[pa.RecordBatch | Unreadable]:
        """Yield the events of messages of one partition, and those messages that are no changes of the input.

        Of `keys` only those of tombstones are asked for, messages without a value. Each
        deletes its row: compaction may have taken away the delete before it. Events of
        partial inputs are to be completed (see core/joins/completing.py). Raises
        PenstockError for rows that the join's plan does not fit any more, PositionError for
        a partition that was added while the join runs, and UnavailableError for columns
        that were announced since the join was opened: then it is to be opened again.
        """
        if topic == self.job.schemas_topic:
            for offset, value in zip(offsets.tolist(), values.to_pylist(), strict=True):
                yield from self._announced(offset, read_schema_change(topic, offset, value or b""))
            return
        for stream in self.job.streams:
            if stream.topic == topic:
                require_partitions(topic, len(stream.timelines), max(len(stream.timelines), partition + 1))
        if len(values):
            yield from self._decode(topic, partition, offsets, values, keys)

    def _decode(
        self, topic: str, partition: int, offsets: Integers, values: pa.BinaryArray, keys: pa.BinaryArray
    ) -> Iterator[pa.RecordBatch | Unreadable]:
        """Read messages together, and those that cannot be read so by halves, down to the ones that are to blame."""
        try:
            yield from list(self._events(topic, partition, offsets, values, keys))
        except CorruptLogError as error:
            if len(values) == 1:
                value, key = values[0].as_py(), keys[0].as_py()
                yield Unreadable(topic, partition, int(offsets[0]), value, error.message, key=key)
                return
            half = len(values) // 2
            yield from self._decode(topic, partition, offsets[:half], values.slice(0, half), keys.slice(0, half))
            yield from self._decode(topic, partition, offsets[half:], values.slice(half), keys.slice(half))

    def _events(
        self, topic: str, partition: int, offsets: Integers, values: pa.BinaryArray, keys: pa.BinaryArray
    ) -> Iterator[pa.RecordBatch]:
        if values.null_count:
            is_gone = np.asarray(values.is_null())
            yield from self._tombstones(topic, partition, offsets[is_gone], keys.filter(pa.array(is_gone)))
            offsets, values = offsets[~is_gone], values.drop_null()
        if len(values):
            yield from self._rows(topic, partition, offsets, values)

    def _tombstones(
        self, topic: str, partition: int, offsets: Integers, keys: pa.BinaryArray
    ) -> Iterator[pa.RecordBatch]:
        for index, stream in enumerate(self.job.streams):
            if stream.topic == topic:
                yield tombstone_events(self.job.plan, index, self._columns[index].keys(keys), partition, offsets)

    def _rows(self, topic: str, partition: int, offsets: Integers, values: pa.BinaryArray) -> Iterator[pa.RecordBatch]:
        ids = schema_ids(values)
        edges = [0, *(np.flatnonzero(np.diff(ids)) + 1).tolist(), len(ids)]
        for start, end in pairwise(edges):
            for index, stream in enumerate(self.job.streams):
                if stream.topic == topic:
                    piece = values.slice(start, end - start)
                    yield from self._changes(index, partition, int(ids[start]), offsets[start:end], piece)

    def _changes(
        self, index: int, partition: int, schema_id: int, offsets: Integers, values: pa.BinaryArray
    ) -> Iterator[pa.RecordBatch]:
        stream = self.job.streams[index]
        text = self._value_schema(schema_id)
        schema = _own_schema(text)
        decoded = decode_rows(schema, text, values)
        is_own = np.asarray(pc.equal(decoded.source, pa.scalar(stream.source))) & (schema.table == stream.table)
        if not is_own.all():
            reason = f"it is not of {stream.source}.{stream.table}"
            raise _no_change(reason)
        given, columns = self.job.plan.inputs[index], self._columns[index]
        lacking = columns.read_of(schema_id, find_lacking(decoded))
        if lacking and not given.is_partial:
            raise _lacks(self.job, stream, lacking)
        all_rows, lacking = with_defaults(schema, decoded, lacking)
        timelines = timelines_at(stream.timelines[partition], offsets)
        orders = read_orders(decoded, timelines)
        is_deleted = np.asarray(pc.equal(decoded.op, pa.scalar(Op.DELETE.value)), np.bool_)
        for part, rows, origins in columns.pieces(schema_id, all_rows, orders):
            changed = Changed(rows, is_deleted[part], partition, offsets[part], orders[part])
            if not given.is_partial:
                yield row_events(self.job.plan, index, changed)
                continue
            own = {name: lacking[now][part] for name, now in origins.items() if isinstance(now, str) and now in lacking}
            yield partial_events(self.job.plan, index, changed, own, values[part])

    def _announced(self, offset: int, told: SchemaChange) -> Iterator[pa.RecordBatch]:
        for index, stream in enumerate(self.job.streams):
            if told.source != stream.source:
                continue
            moved = {str(told.table), *(move.origin for move in told.moves), *(move.table for move in told.moves)}
            if told.kind is SchemaChangeKind.RENAME and str(stream.table) in moved:
                raise _ends(self.job, stream, f"{', '.join(sorted(moved))} were renamed, and rows moved with the names")
            if told.table != stream.table:
                continue
            if told.topic != stream.topic:
                raise _ends(self.job, stream, f"it goes on in {told.topic}, with a type that readers cannot read on")
            require_described(stream, told)
            if told.kind in _EMPTYING:
                yield truncate_event(index, offset, told.order)


def sort_out(decoded: Iterable[pa.RecordBatch | Unreadable]) -> tuple[list[pa.RecordBatch], list[Unreadable]]:
    """Events, and messages that are none. Raises as `require_few`."""
    unreadable: list[Unreadable] = []
    return list(set_apart(decoded, unreadable)), unreadable


def set_apart(decoded: Iterable[pa.RecordBatch | Unreadable], unreadable: list[Unreadable]) -> Iterator[pa.RecordBatch]:
    """Yield events, and add to `unreadable` the messages between them that are none. Raises as `require_few`."""
    foreign: list[Unreadable] = []
    for each in decoded:
        if not isinstance(each, Unreadable):
            yield each
            continue
        unreadable.append(each)
        if _is_foreign(each):
            foreign.append(each)
            _require_few(foreign)


def require_few(unreadable: Sequence[Unreadable]) -> None:
    """Raise PositionError for more than UNREADABLE_MAX messages that cannot be read, and that captures do not write."""
    _require_few([each for each in unreadable if _is_foreign(each)])


def _is_foreign(each: Unreadable) -> bool:
    """Whether no capture wrote a message."""
    return not each.lacks and not is_large(each.value)


def _require_few(foreign: Sequence[Unreadable]) -> None:
    if len(foreign) > UNREADABLE_MAX:
        last = foreign[-1]
        fault = f"it and {len(foreign) - 1} before it cannot be read: {last.reason}"
        hint = f"let only this pipeline write to {last.topic}; a join of its table then takes a new pipeline"
        raise foreign_message(last.topic, last.partition, last.offset, fault, hint=hint)


def to_join(job: JoinJob, completed: Iterable[pa.RecordBatch | Orphan]) -> Iterator[pa.RecordBatch | Unreadable]:
    """Yield what was completed, with what nobody can complete as what cannot be read."""
    for each in completed:
        if not isinstance(each, Orphan):
            yield each
            continue
        stream, columns = job.streams[each.input], ", ".join(each.columns)
        reason = (
            f"it lacks {columns}, which it left as it was, and no message before it has that row whole: a snapshot "
            f"that is under way brings it; else have it read again: penstock snapshot FILE {shell_word(stream.table)}"
        )
        yield Unreadable(stream.topic, each.part, each.position, each.message, reason, lacks=True)


def _own_schema(text: str) -> TableSchema:
    """The table of a schema. Raises CorruptLogError for one that captures do not write with."""
    try:
        return table_schema(text)
    except PenstockError as error:
        reason = f"its schema is none of a table: {error.message}"
        raise _no_change(reason) from error


def _no_change(reason: str) -> CorruptLogError:
    return CorruptLogError(reason, "let only Penstock write to this topic")


def _lacks(job: JoinJob, stream: JoinStream, lacking: Collection[str]) -> PenstockError:
    message = (
        f"the join {job.name} was begun with whole rows of {stream.source}.{stream.table}, and some lack columns now"
    )
    hint = f"they lack {', '.join(sorted(lacking))}; have the join made again: penstock joinery rebuild FILE JOIN"
    return PenstockError(message, hint)


def _ends(job: JoinJob, stream: JoinStream, reason: str) -> PenstockError:
    message = f"the join {job.name} cannot go on with {stream.source}.{stream.table}: {reason}"
    return PenstockError(message, "leave the join out; a join of the table as it is now takes a new pipeline")
