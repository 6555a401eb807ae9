"""A table as its topic has it: every message folded by key, so that the newest of each key is left."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.audit.stage_columns import PLACE
from penstock.core.errors import PenstockError
from penstock.core.files import LACKS, OFFSET, OP
from penstock.core.large_messages import any_large
from penstock.core.message_format import decode_rows, schema_ids
from penstock.core.timelines import timelines_at
from penstock.core.topic_fingerprints import foreign_message
from penstock.links.audit.table_changes import repeated
from penstock.links.objects.in_order import order_at, read_orders
from penstock.links.own_messages import read_change

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from penstock.core.audit.dialects import AuditDialect
    from penstock.core.audit.stage_columns import ArrowColumn
    from penstock.core.positions import Order
    from penstock.links.audit.table_changes import TableChanges
    from penstock.links.audit.told_table import TopicsOfTables
    from penstock.ports.topics import Fetched, TopicLog

    Begins = Callable[[Sequence[tuple[str, int]]], Mapping[tuple[str, int], int]]

_BYTES_AT_ONCE: Final = 8 << 20
_ELSEWHERE: Final = "some of its messages are in an object store, which is not read here"


class TopicStage:
    """The topic of one table, as a database that an audit reads (ports/audited.AuditedDatabase)."""

    def __init__(self, log: TopicLog, begins: Begins, told: TopicsOfTables, changes: TableChanges) -> None:
        """Read nothing yet. `begins` asks for the first offset that is still kept of each (topic, partition)."""
        self._log = log
        self._first_kept = begins
        self._told = told
        self._changes = changes
        self._next: dict[tuple[str, int], int] = {}
        self._last: dict[tuple[str, int], Order] = {}
        self._begins: Order | None = None
        self._first_offsets: Mapping[tuple[str, int], int] = {}

    @property
    def dialect(self) -> AuditDialect:
        """See AuditedDatabase."""
        return self._changes.folded.dialect

    def fetch(self, query: str) -> Sequence[Sequence[Any]]:
        """See AuditedDatabase."""
        return self._changes.folded.fetch(query)

    def fetch_texts(self, query: str) -> pa.Table:
        """See AuditedDatabase."""
        return self._changes.folded.fetch_texts(query)

    def close(self) -> None:
        """See AuditedDatabase: whoever opened what it reads closes that."""

    def renew(self) -> None:
        """See AuditedDatabase: read on to what is committed now. Raises UnavailableError."""
        self._told.read()
        told = self._told.of(self._changes.source, self._changes.schema.table)
        self._changes.refusal = self._changes.refusal or told.refusal
        if told.begins != self._begins:
            # The rows from before a statement that emptied the table count no more.
            self._changes.folded.clear()
            self._next.clear()
            self._last.clear()
            self._begins, self._first_offsets = told.begins, told.first_offsets
        for topic, partitions in told.topics:
            if not self._changes.refusal:
                self._read([(topic, partition) for partition in range(partitions)])

    def _read(self, places: Sequence[tuple[str, int]]) -> None:
        """Fold what is new in the partitions of one topic."""
        unread = [place for place in places if place not in self._next]
        for place, begin in self._first_kept(unread).items() if unread else ():
            first = self._first_offsets.get(place, 0)
            self._next[place] = max(begin, first)
            self._changes.is_partial = self._changes.is_partial or begin > first
        ends = self._log.ends(places)
        todo = {place: (self._next.get(place, 0), end) for place, end in ends.items()}
        while todo := {place: limits for place, limits in todo.items() if limits[0] < limits[1]}:
            sizes = dict.fromkeys(todo, 0)
            for place, fetched in self._log.read_together(todo, _BYTES_AT_ONCE):
                if fetched.unreadable is not None:
                    raise fetched.unreadable
                if fetched.offsets:
                    self._fold(place, fetched)
                    sizes[place] += fetched.size_bytes
                    todo[place] = (fetched.offsets[-1] + 1, todo[place][1])
            # What was not left for its size was read to its end, where only markers of transactions may stand.
            todo = {place: limits for place, limits in todo.items() if sizes[place] >= _BYTES_AT_ONCE}
        self._next |= {place: max(end, self._next.get(place, 0)) for place, end in ends.items()}

    def _fold(self, place: tuple[str, int], fetched: Fetched) -> None:
        """Fold messages that were fetched together.

        A tombstone, which is read as an empty value, is passed over: it changes no row.
        """
        if any_large(fetched.values):
            self._changes.refusal = self._changes.refusal or _ELSEWHERE
            return
        values, offsets = pa.array(fetched.values, pa.binary()), np.array(fetched.offsets, np.int64)
        is_row = np.asarray(pc.binary_length(values)) > 0
        offsets, values = offsets[is_row], values.filter(pa.array(is_row))
        if not len(values):
            return
        for stretch in self._decode_ours(place, offsets, values):
            self._require_forward(place, stretch)
            rows = stretch.rows if self._begins is None else stretch.behind(self._begins)
            ours: list[ArrowColumn] = [
                rows.column(OP),
                rows.column(OFFSET),
                repeated(place[0], pa.string(), rows),
                repeated(place[1], pa.int32(), rows),
                rows.column(PLACE),
            ]
            self._changes.fold(stretch.schema_id, rows, ours, stretch.lacks_of(rows))

    def _decode(
        self, place: tuple[str, int], offsets: npt.NDArray[np.int64], values: pa.BinaryArray
    ) -> Iterator[_Stretch]:
        """Yield the changes of messages, those of each schema by themselves."""
        ids = schema_ids(values)
        table = self._changes.schema.table
        edges = [0, *(np.flatnonzero(np.diff(ids)) + 1).tolist(), len(ids)]
        timelines = self._told.timelines(self._changes.source, *place)
        for start, end in pairwise(edges):
            schema_id = int(ids[start])
            schema = self._changes.schema_of(schema_id)
            if schema.table != table:
                message = f"its schema is that of table {schema.table}, not of {table}"
                raise ValueError(message)
            changes = decode_rows(schema, self._changes.registry.value_schema(schema_id), values[start:end])
            if pc.any(pc.not_equal(changes.source, pa.scalar(self._changes.source))).as_py():
                message = f"it is not of source {self._changes.source}"
                raise ValueError(message)
            those = offsets[start:end]
            rows = pa.Table.from_batches([changes.rows])
            places = [f"{file}:{pos}" for file, pos in zip(changes.file.to_pylist(), changes.pos, strict=True)]
            for name, array in (
                (OP, changes.op),
                (OFFSET, pa.array(those)),
                (PLACE, pa.array(places)),
                (LACKS, changes.lacks),
            ):
                rows = rows.append_column(name, array)
            yield _Stretch(schema_id, rows, those, read_orders(changes, timelines_at(timelines, those)))

    def _decode_ours(
        self, place: tuple[str, int], offsets: npt.NDArray[np.int64], values: pa.BinaryArray
    ) -> Sequence[_Stretch]:
        """Decode messages; those that no capture of the source can have written are remembered, and passed by."""
        try:
            return list(self._decode(place, offsets, values))
        except (PenstockError, ValueError) as error:
            if isinstance(error, PenstockError) and error.retryable:
                raise
            half = len(values) // 2
            if half:
                first = self._decode_ours(place, offsets[:half], values[:half])
                return [*first, *self._decode_ours(place, offsets[half:], values[half:])]
            fault, _ = read_change(values[0].as_py(), self._changes.source, self._changes.registry.value_schema)
            why = error.message if isinstance(error, PenstockError) else str(error)
            self._changes.tell(foreign_message(*place, int(offsets[0]), fault or why).message)
            return []

    def _require_forward(self, place: tuple[str, int], stretch: _Stretch) -> None:
        """Remember messages that stand behind ones from later in the log: no capture puts them there."""
        if not len(stretch.offsets):
            return
        steps = np.diff(np.vstack([np.array(self._last.get(place, (0, 0, 0)), np.int64), stretch.orders]), axis=0)
        file, offset, row = steps.T
        back = (file < 0) | ((file == 0) & ((offset < 0) | ((offset == 0) & (row < 0))))
        for at in stretch.offsets[back].tolist():
            fault = "its position in the log is before that of the message ahead of it"
            self._changes.tell(foreign_message(*place, at, fault).message)
        self._last[place] = order_at(stretch.orders, -1)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Decoded changes of one schema, with their offsets and orders: int64[n], int64[n, 3]."""

    schema_id: int
    rows: pa.Table
    offsets: npt.NDArray[np.int64]
    orders: npt.NDArray[np.int64]

    def lacks_of(self, rows: pa.Table) -> pa.StringArray:
        """The columns that each of `rows` has no values of, as JSON lists."""
        chunks = rows.column(LACKS).chunks
        return cast("pa.StringArray", pa.concat_arrays([pa.array([], pa.string()), *chunks]))

    def behind(self, place: Order) -> pa.Table:
        """The changes that are not before a place of the log."""
        file, offset, row = self.orders.T
        in_file = (offset > place[1]) | ((offset == place[1]) & (row >= place[2]))
        return self.rows.filter(pa.array((file > place[0]) | ((file == place[0]) & in_file)))
