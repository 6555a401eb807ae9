"""Writing one range of a topic to files."""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from penstock.config.crash_points import CrashPoint
from penstock.core.batches import Batch
from penstock.core.file_formats import IN_MESSAGE, PARQUET, FileFormat, RenderedFile, render_as
from penstock.core.files import file_rows, object_key
from penstock.core.garbage import no_collection
from penstock.core.tables import TableId
from penstock.links.objects.decoding import RangeDecoder
from penstock.links.objects.in_order import order_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from penstock.core.errors import UnreadableMessageError
    from penstock.core.positions import Order
    from penstock.core.tables import TableSchema
    from penstock.links.objects.decoding import Stretch
    from penstock.links.objects.plan import TopicRange
    from penstock.ports.objects import ObjectStore
    from penstock.ports.registry import Registry
    from penstock.ports.topics import TopicLog

_Place: TypeAlias = tuple[str, int]
PARTS_BYTES_FACTOR = 4
"""A task holds so many files of the largest size in memory."""
_RENDERED_FACTOR = 16
"""Rows are tried as a file for their message where they have so many times its largest size at most in memory."""
_PUT = CrashPoint("objects.file_written", "a file is in the object store or made for its message, no message names it")


@dataclass(frozen=True, slots=True)
class FileRules:
    """How files are written, and what closes one: `rows_max` changes, or `bytes_max` of messages.

    A file of up to `inline_bytes_max` goes into its batch message, and not into the store.
    """

    format: FileFormat = PARQUET
    rows_max: int = 100_000
    bytes_max: int = 64 << 20
    inline_bytes_max: int = 0

    @property
    def held_bytes_max(self) -> int:
        """So many bytes of messages a task holds in memory, of all of its ranges, and one message more."""
        return PARTS_BYTES_FACTOR * self.bytes_max


_DEFAULTS = FileRules()


@dataclass(frozen=True, slots=True)
class RangeWritten:
    """A range is in files: its batches, in order, and how far it was read, which may be short of its end.

    `message_bytes` is how large its messages are, on the average. At `read_to` is a
    message that ended the reading where `stopped` says so.
    """

    range: TopicRange
    read_to: int
    batches: tuple[Batch, ...]
    message_bytes: int = 0
    stopped: UnreadableMessageError | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the partition was read to the end that it had when this was planned."""
        return self.range.is_whole and self.read_to == self.range.end


class FileWriter:
    """Turns topic ranges into files of one pipeline."""

    def __init__(
        self, pipeline: str, log: TopicLog, registry: Registry, objects: ObjectStore, rules: FileRules = _DEFAULTS
    ) -> None:
        """Read from `log`, decode by `registry`, write to `objects`."""
        self._pipeline = pipeline
        self._rules = rules
        self._log = log
        self._registry = registry
        self._objects = objects

    def write(self, ranges: Sequence[TopicRange]) -> Iterator[RangeWritten]:
        """Write the committed messages of each range, a file per schema, cut where the range says.

        A range with too many bytes for one go is left early, and its result says where;
        so is the largest of those that are being read, where all together have too
        many: they were planned by what messages had before, and a large one may be
        among them. And so is one with a message that no capture of the range's source
        can have written there.
        """
        reading = {(r.topic, r.partition): (r, RangeDecoder(r, self._registry)) for r in ranges}
        asked = {place: (r.start, r.end) for place, (r, _) in reading.items()}
        held_bytes = 0
        with no_collection():
            for place, fetched in self._log.read_together(asked, self._rules.bytes_max):
                if place not in reading:
                    continue
                reading[place][1].add(fetched)
                held_bytes += fetched.size_bytes
                left = self._to_leave(reading, place, held_bytes)
                if left is not None:
                    held_bytes -= reading[left][1].size_bytes
                    yield self._write_range(*reading.pop(left), is_left=True)
            for place in list(reading):
                yield self._write_range(*reading.pop(place), is_left=False)

    def _to_leave(
        self, reading: Mapping[_Place, tuple[TopicRange, RangeDecoder]], place: _Place, held_bytes: int
    ) -> _Place | None:
        """Return which range is written now, behind messages of `place`; all hold `held_bytes`. None for no range."""
        decoder = reading[place][1]
        if decoder.size_bytes >= self._rules.bytes_max or decoder.stopped is not None:
            return place
        if held_bytes < self._rules.held_bytes_max:
            return None
        return max(reading, key=lambda each: reading[each][1].size_bytes)

    def _write_range(self, topic_range: TopicRange, decoder: RangeDecoder, *, is_left: bool) -> RangeWritten:
        runs = [run for stretch in decoder.finish() for run in self._runs(stretch, topic_range.cuts)]
        end = decoder.last_offset + 1 if is_left else topic_range.end
        if decoder.stopped is not None:
            end = decoder.stopped.offset
        starts = [topic_range.batch_start, *(int(run.offsets[0]) for run in runs[1:]), end]
        batches = tuple(
            self._write_file(topic_range, run, limits) for run, limits in zip(runs, pairwise(starts), strict=False)
        )
        size = decoder.size_bytes // max(decoder.count, 1)
        return RangeWritten(topic_range, end, batches, size, decoder.stopped)

    def _runs(self, stretch: Stretch, cuts: Sequence[Order]) -> Iterator[Stretch]:
        """Cut a stretch into what goes into a file each."""
        for low, high in pairwise(_cut_points(stretch.orders, cuts, self._rules.rows_max)):
            yield stretch.part(low, high)

    def _write_file(self, topic_range: TopicRange, run: Stretch, limits: tuple[int, int]) -> Batch:
        start, end = limits
        place = (topic_range.topic, topic_range.partition, limits)
        rows = file_rows(run.schema, run.changes, run.offsets)
        format_, file = self._render(run.schema, rows)
        path = f"{object_key(self._pipeline, topic_range.source, *place, run.schema_id)}.{format_.ending}"
        is_inline = len(file.content) <= self._rules.inline_bytes_max
        if not is_inline:
            self._objects.put(path, file.content)
        _PUT.maybe_crash()
        return Batch(
            source=topic_range.source,
            table=TableId.parse(topic_range.table),
            topic=topic_range.topic,
            partition=topic_range.partition,
            start_offset=start,
            end_offset=end,
            rows=rows.num_rows,
            path=path,
            size_bytes=len(file.content),
            format=format_.name,
            schema_id=run.schema_id,
            first_order=order_at(run.orders, 0),
            last_order=order_at(run.orders, -1),
            last_timestamp_ms=int(np.max(run.changes.ts_ms)),
            compression=format_.compression,
            dialect=file.dialect,
            crc32=zlib.crc32(file.content),
            written_at_ms=time.time_ns() // 1_000_000,
            content=file.content if is_inline else None,
        )

    def _render(self, schema: TableSchema, rows: pa.Table) -> tuple[FileFormat, RenderedFile]:
        """Return the file of `rows`, and how it is written: for its message where it is small enough."""
        inline_bytes_max = self._rules.inline_bytes_max
        if rows.nbytes <= _RENDERED_FACTOR * inline_bytes_max:
            small = render_as(IN_MESSAGE, schema, rows)
            if len(small.content) <= inline_bytes_max:
                return IN_MESSAGE, small
        return self._rules.format, render_as(self._rules.format, schema, rows)


def _cut_points(orders: npt.NDArray[np.int64], cuts: Sequence[Order], rows_max: int) -> list[int]:
    """Return where to split changes with these orders, first and last index included, so that no part spans a cut."""
    points = {0, len(orders), *range(0, len(orders), rows_max)}
    first, last = order_at(orders, 0), order_at(orders, -1)
    for cut in cuts:
        if first < cut <= last:
            file, offset, row = orders.T
            behind = (file > cut[0]) | ((file == cut[0]) & ((offset > cut[1]) | ((offset == cut[1]) & (row >= cut[2]))))
            points.add(int(np.argmax(behind)))
    return sorted(points)
