"""Decoding the messages of one topic range while they are read, and checking that the range's source wrote them."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.core.avro.envelope_decode import DecodedChanges, DecodedRows, joined
from penstock.core.avro.schemas import table_schema
from penstock.core.errors import PenstockError, UnreadableMessageError
from penstock.core.message_format import decode_changes, decode_rows, schema_ids
from penstock.core.timelines import timelines_at
from penstock.core.topic_fingerprints import bring_back, foreign_message
from penstock.links.objects.in_order import read_orders, require_forward, require_own
from penstock.links.own_messages import read_change

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from penstock.core.tables import TableSchema
    from penstock.links.objects.plan import TopicRange
    from penstock.ports.registry import Registry
    from penstock.ports.topics import Fetched

_MESSAGES_MIN = 8192
"""How many are decoded at once, unless there are fewer: soon after they came, while the processor's cache has them."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive messages with one schema, each with its Kafka offset and its order: int64[n] and int64[n, 3].

    Of a table with a key there is one row per change, of others both.
    """

    schema_id: int
    schema: TableSchema
    offsets: npt.NDArray[np.int64]
    changes: DecodedChanges | DecodedRows
    orders: npt.NDArray[np.int64]

    def part(self, low: int, high: int) -> Stretch:
        """Those from `low` on, up to and without `high`; nothing is copied."""
        rows = slice(low, high)
        changes = self.changes.part(low, high)
        return Stretch(self.schema_id, self.schema, self.offsets[rows], changes, self.orders[rows])


class RangeDecoder:
    """Takes the messages of a range as they come, and has them as columns in the end."""

    def __init__(self, topic_range: TopicRange, registry: Registry) -> None:
        """Nothing has come."""
        self._range = topic_range
        self._registry = registry
        self._offsets: list[int] = []
        self._values: list[bytes] = []
        self._parts: list[Stretch] = []
        self._after = topic_range.after
        self._seen_to = topic_range.start
        self.stopped: UnreadableMessageError | None = None
        """The message before which reading has ended."""
        self.count = 0
        self.size_bytes = 0
        self.last_offset = topic_range.start - 1

    def add(self, fetched: Fetched) -> None:
        """Take the next messages, up to one that the range's source cannot have written there."""
        if self.stopped is not None:
            return
        self._offsets += fetched.offsets
        self._values += fetched.values
        self.count += len(fetched.offsets)
        self.size_bytes += fetched.size_bytes
        self.last_offset = fetched.offsets[-1] if fetched.offsets else self.last_offset
        if len(self._values) >= _MESSAGES_MIN or fetched.unreadable is not None:
            self._decode()
        if fetched.unreadable is not None and self.stopped is None:
            error = fetched.unreadable
            hint = bring_back(self._range.table, error.hint)
            self.stopped = UnreadableMessageError(error.place, error.offset, error.message, hint)

    def finish(self) -> list[Stretch]:
        """Return all that came and can be read."""
        self._decode()
        return [_joined(list(parts)) for _, parts in groupby(self._parts, lambda part: part.schema_id)]

    def _decode(self) -> None:
        offsets, values, self._offsets, self._values = self._offsets, self._values, [], []
        while offsets:
            seen_to, after = self._seen_to, self._after
            try:
                self._parts += list(self._decoded(offsets, values))
            except UnreadableMessageError as error:
                # Those before it are as good as ever.
                self.stopped, self._seen_to, self._after = error, seen_to, after
                count = bisect_left(offsets, error.offset)
                offsets, values = offsets[:count], values[:count]
            else:
                return

    def _decoded(self, offsets: Sequence[int], values: Sequence[bytes]) -> Iterator[Stretch]:
        """Yield the changes of messages; raises UnreadableMessageError for the first that is none."""
        if self._range.format == "json":
            offsets, values = self._without_tombstones(offsets, values)
        if not offsets:
            return
        try:
            yield from self._stretches(np.array(offsets, np.int64), pa.array(values, pa.binary()))
        except UnreadableMessageError:
            raise
        except (PenstockError, ValueError) as error:
            if not (isinstance(error, PenstockError) and error.retryable):
                self._find_foreign(zip(offsets, values, strict=True), error)
            raise

    def _without_tombstones(self, offsets: Sequence[int], values: Sequence[bytes]) -> tuple[list[int], list[bytes]]:
        """Leave out messages without a value: the change right before such a one said that the row is gone.

        Raises UnreadableMessageError where that change is not there: compaction has taken it away before it was read.
        """
        kept: tuple[list[int], list[bytes]] = ([], [])
        for offset, value in zip(offsets, values, strict=True):
            if value:
                kept[0].append(offset)
                kept[1].append(value)
            elif offset != self._seen_to:
                raise _compacted(self._range, offset)
            self._seen_to = offset + 1
        return kept

    def _stretches(self, offsets: npt.NDArray[np.int64], values: pa.BinaryArray) -> Iterator[Stretch]:
        ids = schema_ids(values)
        edges = [0, *(np.flatnonzero(np.diff(ids)) + 1).tolist(), len(ids)]
        for start, end in pairwise(edges):
            schema_id, those = int(ids[start]), offsets[start:end]
            text = self._registry.value_schema(schema_id)
            schema = table_schema(text)
            decode = decode_rows if schema.key else decode_changes
            changes = decode(schema, text, values.slice(start, end - start))
            orders = read_orders(changes, timelines_at(self._range.timelines, those))
            require_own(self._range, schema.table, changes, those)
            self._after = require_forward(self._range, orders, self._after, those)
            yield Stretch(schema_id, schema, those, changes, orders)

    def _find_foreign(self, messages: Iterable[tuple[int, bytes]], cause: Exception) -> None:
        """Raise UnreadableMessageError for the first message that no capture of the range's source can have written."""
        for offset, value in messages:
            fault, _ = read_change(value, self._range.source, self._registry.value_schema)
            if fault:
                place = self._range.topic, self._range.partition
                raise foreign_message(*place, offset, fault, self._range.table) from cause


def _compacted(topic_range: TopicRange, offset: int) -> UnreadableMessageError:
    place = topic, partition = topic_range.topic, topic_range.partition
    message = (
        f"{topic}/{partition} offset {offset} is a tombstone, and the delete before it was compacted away before it "
        "was read: rows that were deleted may be left in the targets"
    )
    lag = f"raise min.compaction.lag.ms of {topic} (penstock police)"
    return UnreadableMessageError(place, offset, message, bring_back(topic_range.table, lag))


def _joined(parts: list[Stretch]) -> Stretch:
    """Make one of the stretches of one schema."""
    first = parts[0]
    if len(parts) == 1:
        return first
    changes = joined([part.changes for part in parts])
    offsets, orders = (np.concatenate(arrays) for arrays in zip(*((p.offsets, p.orders) for p in parts), strict=True))
    return Stretch(first.schema_id, first.schema, offsets, changes, orders)
