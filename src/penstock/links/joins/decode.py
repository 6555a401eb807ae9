"""Decodes what a join reads, messages of its inputs and schema-change events, as events."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.avro.schemas import table_schema
from penstock.core.changes import Op
from penstock.core.errors import PenstockError
from penstock.core.joins.events import Changed, row_events, truncate_event
from penstock.core.message_format import decode_rows, schema_ids
from penstock.core.schema_changes import SchemaChangeKind, read_schema_change
from penstock.core.timelines import timelines_at
from penstock.core.topic_fingerprints import foreign_message
from penstock.links.objects.in_order import read_orders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.core.avro.arrays import Integers
    from penstock.core.schema_changes import SchemaChange
    from penstock.links.joins.spec import JoinJob, JoinStream

_EMPTYING = {SchemaChangeKind.TRUNCATE, SchemaChangeKind.CREATE, SchemaChangeKind.DROP}
"""After these, a table has none of the rows that it had."""


class JoinDecoder:
    """Makes events of messages."""

    def __init__(self, job: JoinJob, value_schema: Callable[[int], str]) -> None:
        """Know schemas by `value_schema` (ports/registry.Registry)."""
        self._job = job
        self._value_schema = value_schema

    def decode(self, topic: str, partition: int, offsets: Integers, values: pa.BinaryArray) -> Iterator[pa.RecordBatch]:
        """Yield the events of messages of one partition, in their order.

        A tombstone is passed over: a delete came before it. Raises PenstockError for
        messages that do not decode or that the join's plan does not fit any more.
        """
        if topic == self._job.schemas_topic:
            for offset, value in zip(offsets.tolist(), values.to_pylist(), strict=True):
                yield from self._announced(offset, read_schema_change(topic, offset, value or b""))
            return
        if values.null_count:
            offsets, values = offsets[np.asarray(values.is_valid())], values.drop_null()
        if not len(values):
            return
        ids = schema_ids(values)
        edges = [0, *(np.flatnonzero(np.diff(ids)) + 1).tolist(), len(ids)]
        for start, end in pairwise(edges):
            for index, stream in enumerate(self._job.streams):
                if stream.topic == topic:
                    piece = values.slice(start, end - start)
                    yield self._changes(index, partition, int(ids[start]), offsets[start:end], piece)

    def _changes(
        self, index: int, partition: int, schema_id: int, offsets: Integers, values: pa.BinaryArray
    ) -> pa.RecordBatch:
        stream = self._job.streams[index]
        text = self._value_schema(schema_id)
        schema = table_schema(text)
        decoded = decode_rows(schema, text, values)
        is_own = np.asarray(pc.equal(decoded.source, pa.scalar(stream.source))) & (schema.table == stream.table)
        if not is_own.all():
            offset = int(offsets[int(np.argmin(is_own))])
            raise foreign_message(stream.topic, partition, offset, f"it is not of {stream.source}.{stream.table}")
        timelines = timelines_at(stream.timelines[partition], offsets)
        orders = read_orders(decoded, timelines)
        is_deleted = np.asarray(pc.equal(decoded.op, pa.scalar(Op.DELETE.value)), np.bool_)
        return row_events(self._job.plan, index, Changed(decoded.rows, is_deleted, partition, offsets, orders))

    def _announced(self, offset: int, told: SchemaChange) -> Iterator[pa.RecordBatch]:
        for index, stream in enumerate(self._job.streams):
            if told.source != stream.source:
                continue
            moved = {str(told.table), *(move.origin for move in told.moves), *(move.table for move in told.moves)}
            if told.kind is SchemaChangeKind.RENAME and str(stream.table) in moved:
                raise _ends(
                    self._job, stream, f"{', '.join(sorted(moved))} were renamed, and rows moved with the names"
                )
            if told.table != stream.table:
                continue
            if told.topic != stream.topic:
                raise _ends(self._job, stream, f"it goes on in {told.topic}, with a type that readers cannot read on")
            if told.kind in _EMPTYING:
                yield truncate_event(index, offset, told.order)


def _ends(job: JoinJob, stream: JoinStream, reason: str) -> PenstockError:
    message = f"the join {job.name} cannot go on with {stream.source}.{stream.table}: {reason}"
    return PenstockError(message, "leave the join out; a join of the table as it is now takes a new pipeline")
