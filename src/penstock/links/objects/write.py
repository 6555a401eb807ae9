"""Writing one range of a topic to files."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.core.avro.envelope_decode import DecodedChanges, decode_changes
from penstock.core.avro.schemas import table_schema
from penstock.core.avro.wire import schema_ids
from penstock.core.batches import Batch
from penstock.core.files import file_rows, object_key, render_file
from penstock.core.positions import file_number
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from penstock.core.tables import TableSchema
    from penstock.links.objects.plan import Order, TopicRange
    from penstock.ports.objects import ObjectStore
    from penstock.ports.registry import Registry
    from penstock.ports.topics import TopicLog

_FILE_ROWS_MAX = 100_000
_RANGE_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class RangeWritten:
    """A range is in files: its batches, in order, and how far it was read, which may be short of its end."""

    range: TopicRange
    read_to: int
    batches: tuple[Batch, ...]

    @property
    def is_complete(self) -> bool:
        """Whether the partition was read to the end that it had when this was planned."""
        return self.range.is_whole and self.read_to == self.range.end


@dataclass(frozen=True, slots=True)
class _Run:
    """Consecutive messages with one schema, none of them across a cut from the others."""

    schema_id: int
    schema: TableSchema
    offsets: npt.NDArray[np.int64]
    changes: DecodedChanges


class FileWriter:
    """Turns topic ranges into files of one pipeline."""

    def __init__(self, pipeline: str, log: TopicLog, registry: Registry, objects: ObjectStore) -> None:
        """Read from `log`, decode by `registry`, write to `objects`."""
        self._pipeline = pipeline
        self._log = log
        self._registry = registry
        self._objects = objects

    def write(self, ranges: Sequence[TopicRange]) -> Iterator[RangeWritten]:
        """Write the committed messages of each range, a file per schema, cut where the range says.

        A range with too many bytes for one go is left early, and its result says where.
        """
        asked = {(r.topic, r.partition): (r.start, r.end) for r in ranges}
        read = self._log.read_together(asked, _RANGE_BYTES_MAX)
        for topic_range in ranges:
            yield self._write_range(topic_range, read[topic_range.topic, topic_range.partition])

    def _write_range(self, topic_range: TopicRange, messages: Sequence[tuple[int, bytes]]) -> RangeWritten:
        size = sum(len(value) for _, value in messages)
        end = messages[-1][0] + 1 if size >= _RANGE_BYTES_MAX else topic_range.end
        offsets = np.array([offset for offset, _ in messages], np.int64)
        values = pa.array([value for _, value in messages], pa.binary())
        runs = list(self._runs(topic_range, offsets, values))
        starts = [topic_range.batch_start, *(int(run.offsets[0]) for run in runs[1:]), end]
        batches = tuple(
            self._write_file(topic_range, run, limits) for run, limits in zip(runs, pairwise(starts), strict=False)
        )
        return RangeWritten(topic_range, end, batches)

    def _runs(self, topic_range: TopicRange, offsets: npt.NDArray[np.int64], values: pa.BinaryArray) -> Iterator[_Run]:
        if not len(offsets):
            return
        ids = schema_ids(values)
        edges = [0, *(np.flatnonzero(np.diff(ids)) + 1).tolist(), len(ids)]
        for start, end in pairwise(edges):
            schema_id = int(ids[start])
            text = self._registry.value_schema(schema_id)
            schema = table_schema(text)
            changes = decode_changes(schema, text, values.slice(start, end - start))
            for low, high in pairwise(_cut_points(changes, topic_range.cuts)):
                part = changes
                if high - low < end - start:
                    part = decode_changes(schema, text, values.slice(start + low, high - low))
                yield _Run(schema_id, schema, offsets[start + low : start + high], part)

    def _write_file(self, topic_range: TopicRange, run: _Run, limits: tuple[int, int]) -> Batch:
        start, end = limits
        place = (topic_range.topic, topic_range.partition, limits)
        path = object_key(self._pipeline, topic_range.source, *place, run.schema_id)
        rows = file_rows(run.schema, run.changes, run.offsets)
        content = render_file(run.schema, rows)
        self._objects.put(path, content)
        orders = _orders(run.changes)
        return Batch(
            source=topic_range.source,
            table=TableId.parse(topic_range.table),
            topic=topic_range.topic,
            partition=topic_range.partition,
            start_offset=start,
            end_offset=end,
            rows=rows.num_rows,
            path=path,
            size_bytes=len(content),
            format="parquet",
            schema_id=run.schema_id,
            first_order=_order_at(orders, 0),
            last_order=_order_at(orders, -1),
            last_timestamp_ms=int(np.max(run.changes.ts_ms)),
        )


def _orders(changes: DecodedChanges) -> npt.NDArray[np.int64]:
    """(file number, offset, row) of each change, int64[n, 3]."""
    files = changes.file.dictionary_encode()
    numbers = np.array([file_number(str(name)) for name in files.dictionary.to_pylist()], np.int64)
    return np.column_stack(
        [
            numbers[files.indices.to_numpy()],
            np.asarray(changes.pos, np.int64),
            np.asarray(changes.row, np.int64),
        ]
    )


def _order_at(orders: npt.NDArray[np.int64], index: int) -> Order:
    file, offset, row = orders[index].tolist()
    return file, offset, row


def _cut_points(changes: DecodedChanges, cuts: Sequence[Order]) -> list[int]:
    """Return where to split the changes, first and last index included, so that no part spans a cut."""
    orders = _orders(changes)
    points = {0, len(orders), *range(0, len(orders), _FILE_ROWS_MAX)}
    first, last = _order_at(orders, 0), _order_at(orders, -1)
    for cut in cuts:
        if first < cut <= last:
            file, offset, row = orders.T
            behind = (file > cut[0]) | ((file == cut[0]) & ((offset > cut[1]) | ((offset == cut[1]) & (row >= cut[2]))))
            points.add(int(np.argmax(behind)))
    return sorted(points)
