"""A table under live writes, its log, and a capture of it with snapshots: everything in memory."""

from __future__ import annotations

import copy
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from penstock.core.arrow_types import arrow_schema
from penstock.core.avro.envelope_decode import decode_changes
from penstock.core.avro.envelope_encode import encode_changes
from penstock.core.avro.schemas import value_schema
from penstock.core.changes import Messages, Op, RowBatch
from penstock.core.errors import UnavailableError, UsageError
from penstock.core.positions import BinlogPosition
from penstock.core.publication import CaptureRecord, Publication, StoppedTable, join_rereads
from penstock.core.schema_changes import SchemaChange, SchemaChangeKind
from penstock.core.snapshots import Reread, SnapshotOptions, Status, Wanted
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.links.capture.open_capture import CaptureParts, OpenCapture
from penstock.links.capture.refresher import Refresher
from penstock.links.capture.table_catalog import TableCatalog
from penstock.ports.registry import RegisteredTable
from penstock.ports.snapshots import Chunk, ChunkOrder, Definition, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.core.positions import Position
    from penstock.ports.registry import Registry
    from penstock.ports.replay import Replay
    from penstock.ports.tracker import SchemaCatalog

TABLE = TableId("shop", "orders")
_INTEGER = IntegerType(32, unsigned=False)
_COLUMNS = (Column("id", _INTEGER, nullable=False), Column("n", _INTEGER, nullable=True))
SCHEMA = TableSchema(TABLE, _COLUMNS, ("id",), partial_rows=True)
_BYTES_EACH = 100
_TOPIC, _KEY_ID, _VALUE_ID = "db.shop.orders", 1, 2
_VALUE_SCHEMA = value_schema(SCHEMA)


class KilledError(Exception):
    """The process ended here."""


@dataclass(frozen=True, slots=True)
class Change:
    op: Op
    key: int
    value: int | None
    """None for an update that the log has without it."""


class Source:
    """A table, how it was at every place of the log, and the log: transactions of some changes each."""

    def __init__(self, rows: Mapping[int, int]) -> None:
        self.rows = dict(rows)
        self.log: list[list[Change]] = []
        self.states = [dict(rows)]
        self.rereads: dict[int, Reread] = {}
        """What is to be read again because of transactions of these indices."""

    def write(self, writes: Mapping[int, int | None]) -> None:
        """Commit values for keys, None for those that go."""
        changes = []
        for key, value in writes.items():
            if value is None and key in self.rows:
                changes.append(Change(Op.DELETE, key, self.rows.pop(key)))
            elif value is not None:
                changes.append(Change(Op.UPDATE if key in self.rows else Op.CREATE, key, value))
                self.rows[key] = value
        self.log.append(changes)
        self.states.append(dict(self.rows))

    def touch(self, keys: Iterable[int]) -> None:
        """Commit updates that leave values as they are, and that are logged without them."""
        self.log.append([Change(Op.UPDATE, key, None) for key in keys if key in self.rows])
        self.states.append(dict(self.rows))

    def cascade(self, writes: Mapping[int, int | None]) -> None:
        """Commit values for keys that there are, None for those that go, without a word of it in the log."""
        reread = Reread()
        for key, value in writes.items():
            if key in self.rows and value is None:
                del self.rows[key]
                reread |= Reread(gone=True)
            elif key in self.rows and value is not None:
                self.rows[key] = value
                reread |= Reread((f"n = {value}",))
        if reread != Reread():
            self.rereads[len(self.log)] = reread
        self.log.append([])
        self.states.append(dict(self.rows))

    def at(self, index: int) -> BinlogPosition:
        """The place before the transaction of this index."""
        return BinlogPosition("binlog.000001", 4 + index * _BYTES_EACH)


def index_of(position: Position) -> int:
    return (position.order[1] - 4) // _BYTES_EACH


class Reader:
    """A `RowReader` of the source as it is when it reads; it may fail before it does."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.failures = 0

    def read(self, order: ChunkOrder) -> Chunk:
        if self.failures:
            self.failures -= 1
            message = "the source is away"
            raise UnavailableError(message, "try again")
        rows, count = self._source.rows, order.options.chunk_rows
        high = self._source.at(len(self._source.log))
        assert high.order >= order.low.order
        if order.options.keys:
            start = int(order.cursor or 0)
            asked = [int(key) for key in order.options.keys[start : start + count]]
            there = {key: rows[key] for key in asked if key in rows}
            gone = {key: 0 for key in asked if key not in rows}
            cursor = str(start + count) if start + count < len(order.options.keys) else None
            return Chunk(batch_of(Op.READ, there), batch_of(Op.DELETE, gone), high, cursor)
        values = [int(part.removeprefix("n = ")) for part in order.options.where.split(" OR ") if part]
        found = [key for key, value in rows.items() if not values or value in values]
        behind = sorted(key for key in found if not order.cursor or key > int(order.cursor))
        chunk = {key: rows[key] for key in behind[:count]}
        cursor = str(behind[count - 1]) if len(behind) > count else None
        return Chunk(batch_of(Op.READ, chunk), None, high, cursor, len(rows))

    def check(self, table: TableId, options: SnapshotOptions) -> None:
        """Nobody asks wrongly."""

    def define(self, table: TableId, low: Position) -> Definition:
        del low
        if table != TABLE:
            message = f"there is no table {table}"
            raise UsageError(message, "look at its name")
        return Definition(SCHEMA, "", self._source.at(len(self._source.log)))

    def tables(self) -> Sequence[TableId]:
        return [TABLE]

    def close(self) -> None:
        """Nothing is open."""


def batch_of(op: Op, rows: Mapping[int, int | None]) -> RowBatch | None:
    count = len(rows)
    values = pa.RecordBatch.from_arrays(
        [pa.array(list(rows), pa.int32()), pa.array(list(rows.values()), pa.int32())], schema=arrow_schema(SCHEMA)
    )
    before, after = (values, None) if op is Op.DELETE else (None, values)
    offsets, numbers = np.zeros(count, np.int64), np.arange(count, dtype=np.int32)
    times, gtids = np.zeros(count, np.int64), pa.array([""] * count, pa.string())
    return RowBatch(SCHEMA, op, before, after, "binlog.000001", offsets, numbers, times, gtids, 1)


class Tracker:
    """What the tracker knows of the one table there is."""

    connector = "mysql"

    def table_schema(self, table: TableId) -> TableSchema | None:
        return SCHEMA if table == TABLE else None

    def close(self) -> None:
        """Nothing is open."""


class TableRegistry:
    """A registry that knows the one table there is."""

    def register(self, source: str, schema: TableSchema) -> RegisteredTable:
        del source
        return RegisteredTable(schema, _TOPIC, _KEY_ID, _VALUE_ID, "")

    def value_schema(self, schema_id: int) -> str:
        assert schema_id == _VALUE_ID
        return _VALUE_SCHEMA

    def close(self) -> None:
        """Nothing is open."""


class Topic:
    """A publisher that keeps what was committed, and what comes of it when it is folded by key."""

    def __init__(self, rows: Mapping[int, int]) -> None:
        self.folded: dict[int, int | None] = dict(rows)
        self.record: Mapping[str, Any] | None = None
        self.places: list[tuple[int, int]] = []
        self.schema_changes: list[SchemaChange] = []

    def position(self) -> Mapping[str, object] | None:
        return self.record

    def left_over(self, topic: str) -> int:
        del topic
        return 0

    def create_topics(self, topics: Iterable[str]) -> None:
        """Topics need no making."""

    def publish(self, messages: Iterable[Messages], record: Callable[[], Mapping[str, object]]) -> None:
        for part in messages:
            if part.topic == "schemas":
                self.schema_changes += [SchemaChange.from_json(value) for value in part.values.to_pylist() if value]
                assert self.schema_changes[-1].kind is SchemaChangeKind.CREATE
                self._stand(*self.schema_changes[-1].order[1:])
                self.folded = {}
            else:
                self._fold(part)
        self.record = copy.deepcopy(dict(record()))

    def _fold(self, part: Messages) -> None:
        changes = decode_changes(SCHEMA, _VALUE_SCHEMA, part.values)
        for index, op in enumerate(changes.op.to_pylist()):
            self._stand(int(changes.pos[index]), int(changes.row[index]))
            row = changes.before if op == Op.DELETE else changes.after
            key, value = int(row.column("id")[index].as_py()), row.column("n")[index].as_py()
            if op == Op.DELETE:
                self.folded.pop(key, None)
            elif value is None:
                # Whoever folds keeps what is there.
                self.folded.setdefault(key, None)
            else:
                self.folded[key] = value

    def _stand(self, offset: int, row: int) -> None:
        """Places in a topic never go back: readers hold whoever does that for somebody else."""
        assert not self.places or self.places[-1] <= (offset, row)
        self.places.append((offset, row))

    def save(self) -> None:
        """A record is there when it is published."""

    def settle(self) -> None:
        """Readers see at once what is published."""

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Snapshots:
    """A `SnapshotList` whose process may be killed before it writes."""

    known: dict[str, Snapshot] = field(default_factory=dict)
    kills: bool = False

    def add(self, snapshot: Snapshot) -> None:
        assert not any(each.table == snapshot.table for each in self.all(is_open=True))
        self.known[snapshot.id] = snapshot
        if self.kills:
            raise KilledError

    def want(self, id_: str, wanted: Wanted) -> None:
        self.known[id_] = replace(self.known[id_], wanted=wanted)

    def tell(self, snapshot: Snapshot) -> None:
        if self.kills:
            raise KilledError
        self.known[snapshot.id] = replace(snapshot, wanted=self.known[snapshot.id].wanted)

    def all(self, source: str | None = None, *, is_open: bool = False) -> Sequence[Snapshot]:
        del source
        return [s for s in self.known.values() if not (is_open and s.status.has_ended)]

    def close(self) -> None:
        """Nothing is open."""


class Capture:
    """One process after the other that captures the table, and reads chunks when it is told to."""

    def __init__(self, source: Source, snapshots: Snapshots) -> None:
        self.source = source
        self.snapshots = snapshots
        self.topic = Topic(source.rows)
        self.topic.record = CaptureRecord(source.at(0), 1, 0).to_mapping()
        self.reader = Reader(source)
        self.told = [SchemaChange("db", TABLE, _TOPIC, "", _KEY_ID, _VALUE_ID, 1, (1, 0, 0))]
        self.start()

    def start(self) -> None:
        """Begin as a new process at the committed record."""
        record = CaptureRecord.from_mapping(self.topic.record or {})
        table_catalog = TableCatalog(
            "db",
            cast("SchemaCatalog", Tracker()),
            cast("Registry", TableRegistry()),
            [*self.told, *self.topic.schema_changes],
            lambda table: table.schema == "shop",
        )
        parts = CaptureParts(self.topic, table_catalog, cast("Replay", None), "schemas", 1)
        self.capture = OpenCapture(parts, 1, record.position, 0, dict(record.stopped))
        self.capture.snapshots, self.capture.refreshes = dict(record.snapshots), record.refreshes
        self.capture.rereads = dict(record.rereads)
        self.touching: list[Messages] = []
        self.pending: list[tuple[Callable[[], Chunk | Definition], Future[Chunk | Definition]]] = []
        self.refresher = Refresher(self.capture, self.reader, self.snapshots, self._submit)
        self.read_to = index_of(record.position)

    def _submit(self, question: Callable[[], Chunk | Definition]) -> Future[Chunk | Definition]:
        future: Future[Chunk | Definition] = Future()
        self.pending.append((question, future))
        return future

    def read(self) -> None:
        """Let the thread that reads rows come to its end."""
        for question, future in self.pending:
            try:
                future.set_result(question())
            except (UnavailableError, UsageError) as error:
                future.set_exception(error)
        self.pending = []

    def carry(self, count: int) -> None:
        """Publish the next transactions together, as far as there are so many; of a stopped table none."""
        end = min(self.read_to + count, len(self.source.log))
        if end > self.read_to:
            stopped = str(TABLE) in self.capture.stopped
            messages = [] if stopped else [part for i in range(self.read_to, end) for part in self._messages(i)]
            begin = self.capture.position
            touched = [part.keys.to_pylist()[0] for part in messages if part in self.touching]
            rereads: dict[str, Reread] = {}
            for index in range(self.read_to, end):
                if index in self.source.rereads and not stopped:
                    rereads = join_rereads(rereads, {str(TABLE): self.source.rereads[index]})
            publication = Publication(messages, begin, self.source.at(end), 0, {}, {_TOPIC: touched}, rereads)
            self.capture.publish(publication)
            self.refresher.saw(publication)
            self.read_to = end

    def step(self) -> None:
        self.refresher._look_at = 0.0
        self.refresher._not_before.clear()
        self.refresher.step(self.source.at(self.read_to))

    def stop_table(self) -> None:
        self.capture.stopped[str(TABLE)] = StoppedTable("here", "it cannot be carried", "mend it")
        self.capture.advance(self.capture.position)

    def _messages(self, index: int) -> Iterable[Messages]:
        encodable, topic = self.capture.parts.table_catalog.encodable(TABLE)
        for number, change in enumerate(self.source.log[index]):
            rows = {change.key: change.value}
            plain = batch_of(Op.DELETE if change.op is Op.DELETE else Op.READ, rows)
            assert plain is not None
            op = Op.DELETE if change.op is Op.DELETE else Op.CREATE
            offset = np.array([self.source.at(index).offset + 10], np.int64)
            batch = replace(plain, op=op, offsets=offset, rows=np.array([number], np.int32))
            if change.value is None:
                batch = replace(batch, after_lacks=("n",))
            messages = Messages(topic, *encode_changes(encodable, batch, 0), [number])
            if change.value is None:
                self.touching.append(messages)
            yield messages


def request(number: int, options: SnapshotOptions, table: str = str(TABLE)) -> Snapshot:
    return Snapshot(f"s{number}", "db", table, options, Wanted.RUN, Status.REQUESTED)
