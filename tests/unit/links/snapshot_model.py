"""A capture of a table with snapshots: everything in memory."""

from __future__ import annotations

import copy
import time
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from tests.unit.links.snapshot_source import SCHEMA, TABLE, Change, Reader, Source, batch_of, index_of

from penstock.core.avro.envelope_decode import decode_changes
from penstock.core.avro.envelope_encode import encode_changes
from penstock.core.avro.schemas import value_schema
from penstock.core.changes import Messages, Op
from penstock.core.errors import PositionError, UnavailableError, UsageError
from penstock.core.publication import CaptureRecord, Publication, StoppedTable, join_rereads
from penstock.core.schema_changes import SchemaChange, SchemaChangeKind
from penstock.core.snapshot_copies import CopiedRows, copy_table
from penstock.core.snapshots import Reread, SnapshotOptions, Status, Wanted
from penstock.links.capture.open_capture import CaptureParts, OpenCapture
from penstock.links.capture.refresher_state import Known
from penstock.links.capture.refreshers import Refreshers
from penstock.links.capture.table_catalog import TableCatalog
from penstock.ports.registry import RegisteredTable
from penstock.ports.snapshots import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from penstock.core.tables import TableId, TableSchema
    from penstock.ports.registry import Registry
    from penstock.ports.replay import Replay
    from penstock.ports.tracker import SchemaCatalog

_TOPIC, _KEY_ID, _VALUE_ID = "db.shop.orders", 1, 2
_OWNER = "0000abcd"
LINK = "new"
"""A link whose target comes later, and lacks the table until a snapshot fills it there."""
_Answer = TypeVar("_Answer")
_VALUE_SCHEMA = value_schema(SCHEMA)


class KilledError(Exception):
    """The process ended here."""


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
        self.of_link: dict[int, int | None] | None = None
        self.record: Mapping[str, Any] | None = None
        self.places: list[tuple[int, int]] = []
        self.schema_changes: list[SchemaChange] = []

    def position(self) -> Mapping[str, object] | None:
        return self.record

    def left_over(self, topic: str) -> int:
        del topic
        return 0

    def take_foreign(self) -> Mapping[str, PositionError]:
        return {}

    def partitions(self, topic: str) -> int:
        return len(self.ends(topic))

    def ends(self, topic: str) -> Sequence[int]:
        del topic
        return (0,)

    def create_topics(self, topics: Iterable[str]) -> None:
        """Topics need no making."""

    def publish(self, messages: Iterable[Messages], record: Callable[[], Mapping[str, object]]) -> None:
        for part in messages:
            if part.topic == "schemas":
                self.schema_changes += [SchemaChange.from_json(value) for value in part.values.to_pylist() if value]
                self._stand(*self.schema_changes[-1].order[1:])
                self._tell(self.schema_changes[-1])
            else:
                self._fold(part)
        self.record = copy.deepcopy(dict(record()))

    def _tell(self, told: SchemaChange) -> None:
        """Empty the table for whom it begins; the link forgets it where it is a part."""
        if told.kind is SchemaChangeKind.CREATE:
            self.folded, self.of_link = {}, {}
        else:
            assert LINK in {told.begins_for, told.ends_for}
            self.of_link = {} if told.begins_for else None

    def _fold(self, part: Messages) -> None:
        changes = decode_changes(SCHEMA, _VALUE_SCHEMA, part.values)
        for index, op in enumerate(changes.op.to_pylist()):
            self._stand(int(changes.pos[index]), int(changes.row[index]))
            row = changes.before if op == Op.DELETE else changes.after
            key, value = int(row.column("id")[index].as_py()), row.column("n")[index].as_py()
            for folded in (self.folded, self.of_link):
                if folded is None:
                    continue
                if op == Op.DELETE:
                    folded.pop(key, None)
                elif value is None:
                    # Whoever folds keeps what is there.
                    folded.setdefault(key, None)
                else:
                    folded[key] = value

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

    def add(self, snapshot: Snapshot, in_place_of: Collection[str] = ()) -> None:
        others = [each for each in self.all(is_open=True) if each.table == snapshot.table]
        assert {each.id for each in others} <= {*in_place_of}
        for each in others:
            self.want(each.id, Wanted.CANCEL)
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

    def __init__(self, source: Source, snapshots: Snapshots, at_once: int = 2) -> None:
        self.at_once = at_once
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
        parts = CaptureParts(self.topic, table_catalog, cast("Replay", None), "schemas")
        self.capture = OpenCapture(parts, 1, record.position, 0, dict(record.stopped))
        self.capture.snapshots, self.capture.refreshes = dict(record.snapshots), record.refreshes
        self.capture.rereads = dict(record.rereads)
        self.touching: list[Messages] = []
        self.pending: list[Callable[[], None]] = []
        self.capture.parts.table_catalog.copied = CopiedRows(_OWNER, self.capture.snapshots)
        # A lock goes with the process.
        self.reader.release()
        known = Known(self.at_once, self.at_once)
        self.refreshers = Refreshers(self.capture, self.snapshots, [(self.reader, self._submit)] * self.at_once, known)
        self.read_to = index_of(record.position)

    def _submit(self, question: Callable[[], _Answer], /) -> Future[_Answer]:
        future: Future[_Answer] = Future()

        def answer() -> None:
            try:
                future.set_result(question())
            except (UnavailableError, UsageError) as error:
                future.set_exception(error)

        self.pending.append(answer)
        return future

    def read(self) -> None:
        """Let the threads that read rows come to their end."""
        pending, self.pending = self.pending, []
        for answer in pending:
            answer()

    def read_one(self, number: int) -> None:
        """Let one of the threads that read rows come to its end, whichever has begun first."""
        if self.pending:
            self.pending.pop(number % len(self.pending))()

    def carry(self, count: int) -> None:
        """Publish the next transactions together, as far as there are so many; of a stopped table none."""
        end = min(self.read_to + count, len(self.source.log))
        if end > self.read_to:
            stopped = str(TABLE) in self.capture.stopped
            messages = [part for i in range(self.read_to, end) for part in self._messages(i)]
            messages = [] if stopped else messages
            begin = self.capture.position
            touched = [part.keys.to_pylist()[0] for part in messages if part in self.touching]
            rereads: dict[str, Reread] = {}
            for index in range(self.read_to, end):
                if index in self.source.rereads and not stopped:
                    rereads = join_rereads(rereads, {str(TABLE): self.source.rereads[index]})
            publication = Publication(messages, begin, self.source.at(end), 0, {}, {_TOPIC: touched}, rereads)
            self.capture.publish(publication)
            self.refreshers.saw(publication)
            self.read_to = end

    def step(self, *, looks: bool = True) -> None:
        """Let refreshers go on; what is asked for they see at once, or only when they must."""
        for each in self.refreshers._refreshers:
            each._look_at = 0.0 if looks or not each._look_at else time.monotonic() + 60
            each._known.not_before.clear()
        self.refreshers.step(self.source.at(self.read_to))

    def stop_table(self) -> None:
        self.capture.stopped[str(TABLE)] = StoppedTable("here", "it cannot be carried", "mend it")
        self.capture.advance(self.capture.position)

    def _messages(self, index: int) -> Iterable[Messages]:
        encodable, topic = self.capture.parts.table_catalog.encodable(TABLE)
        for number, change in enumerate(self.source.log[index]):
            if change.copied_by and not self._is_awaited(change, index):
                continue
            rows = {change.key: change.value}
            plain = batch_of(Op.DELETE if change.op is Op.DELETE else Op.READ, rows)
            assert plain is not None
            op = Op.CREATE if change.op is Op.UPDATE else change.op
            offset = np.array([self.source.at(index).offset + 10], np.int64)
            batch = replace(plain, op=op, offsets=offset, rows=np.array([number], np.int32))
            if change.value is None:
                batch = replace(batch, after_lacks=("n",))
            messages = Messages(topic, *encode_changes(encodable, batch, 0), [number])
            if change.value is None:
                self.touching.append(messages)
            yield messages

    def _is_awaited(self, change: Change, index: int) -> bool:
        """Whether a copied row is one of a snapshot that goes on; it is noted that it came."""
        copied, table, place = (
            self.capture.parts.table_catalog.copied,
            copy_table(_OWNER, change.copied_by),
            self.source.at(index),
        )
        if copied.original(table) is None:
            return False
        copied.saw(table, 1, place.offset)
        return True


def request(number: int, options: SnapshotOptions, table: str = str(TABLE)) -> Snapshot:
    return Snapshot(f"{number:012x}", "db", table, options, Wanted.RUN, Status.REQUESTED)
