"""Publishing what a join makes: its messages and its position, in one transaction."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.core.avro.envelope_encode import EncodableTable, encode_changes
from penstock.core.changes import Messages, RowBatch
from penstock.core.errors import FencedError, PositionError, UnavailableError, UsageError
from penstock.core.joins.changes import changes_in_parts
from penstock.core.schema_changes import SchemaChange, SchemaChangeKind
from penstock.core.spolts.raw import Letter, RawMessage
from penstock.core.topic_fingerprints import empty_join
from penstock.links.joins.decode import require_few
from penstock.links.joins.record import NO_BATCH, JoinRecord
from penstock.links.spolts.publish import letter_messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock.core.joins.changes import OutputRows
    from penstock.core.joins.plan import JoinPlan
    from penstock.core.joins.unreadable import Unreadable
    from penstock.core.positions import Order
    from penstock.ports.publisher import CapturePublisher, Publisher
    from penstock.ports.registry import RegisteredTable

PUBLISHING_SECONDS = 900.0
"""A micro-batch of many millions of differences is told in one transaction: the most that brokers grant by default."""
_MESSAGE_ROWS_MAX = 50_000
_PART_BYTES = 64 << 20
"""Of differences that are looked at together."""
_LESS = (
    "see which join keys have the most rows, penstock joinery inspect FILE JOIN, leave them out with `where`, or the "
    "field that changed with exclude_fields, and have the join made again: penstock joinery rebuild FILE JOIN"
)


@dataclass(frozen=True, slots=True)
class JoinTarget:
    """What a join writes: the table of `plan`, as `registered`, called the source `name`, in so many partitions.

    Messages of its inputs that cannot be read go to `letters_topic`.
    """

    name: str
    plan: JoinPlan
    registered: RegisteredTable
    partitions: int
    schemas_topic: str
    letters_topic: str


@dataclass(frozen=True, slots=True)
class Announcement:
    """What becomes of the output's table before anything else is published, and its columns that get other names."""

    kind: SchemaChangeKind
    order: Order
    renames: tuple[tuple[str, str], ...] = ()


def require_standing(publisher: Publisher, name: str, record: JoinRecord | None) -> None:
    """Raise UnavailableError unless the join called `name` stands at `record`, which was read before it was fenced.

    A transaction that was decided may have become visible meanwhile. Who went on from the record
    before it would publish its micro-batch twice.
    """
    position = publisher.position()
    if record != (None if position is None else JoinRecord.from_mapping(position)):
        message = f"{name} has published something since its position was read"
        raise UnavailableError(message, "it is read again when the link starts again, by itself")


def require_own_output(publisher: CapturePublisher, name: str, *, begins: bool) -> None:
    """Raise PositionError if somebody else has written to the output, unless it `begins` anew.

    Then the event that says so counts nothing that is there, whoever has written it.
    """
    foreign = publisher.take_foreign()
    if not begins:
        for error in foreign.values():
            raise PositionError(error.message, empty_join(name))


@contextmanager
def in_one_transaction(what: str, hint: str) -> Iterator[None]:
    """Publish something. Raises UsageError where that took as long as brokers leave a transaction open, and failed."""
    begun = time.monotonic()
    try:
        yield
    except (UnavailableError, FencedError) as error:
        if time.monotonic() - begun < PUBLISHING_SECONDS:
            raise
        message = f"{what} took longer than brokers leave a transaction open"
        minutes = f"{PUBLISHING_SECONDS / 60:.0f}"
        raise UsageError(
            message, f"if the brokers ran all of those {minutes} minutes, it is too much for one transaction: {hint}"
        ) from error


class JoinLetters:
    """The end of a join whose output stays as it is: it alone publishes for it, and only what cannot be read.

    A state that is made beside another one sets aside what it reads before the other
    does, which may publish meanwhile, in another thread: what either of them has set
    aside, the other does not.
    """

    def __init__(
        self,
        publisher: CapturePublisher,
        name: str,
        letters_topic: str,
        record: JoinRecord,
        begun: Mapping[tuple[str, int], int] | None = None,
    ) -> None:
        """Go on from `record` of the join called `name`; the state that is made beside it has come to `begun`."""
        self.publisher = publisher
        self._name = name
        self._letters_topic = letters_topic
        self._turn = Lock()
        self._begun = begun or {}
        self._ahead: set[tuple[str, int, int]] = set()
        """What was set aside behind that, and behind the record."""
        self._is_unsure = False
        self.record = record

    def claim(self) -> None:
        """Commit the record as it is: of two instances, the older one that wakes sees that it is."""
        self._commit([], [], self.record)

    def set_aside(self, unreadable: Sequence[Unreadable]) -> Sequence[Unreadable]:
        """Commit those messages that cannot be read, and that the record does not have, and nothing else; return them.

        Raises PositionError for more than decode.UNREADABLE_MAX.
        """
        with self._turn:
            fresh = self._fresh(unreadable)
            require_few(fresh)
            if fresh:
                record = replace(self.record, letters=self.record.letters + len(fresh))
                self._commit([], self._letters(fresh), record)
                self.record = record
                self._ahead |= {_place(each) for each in fresh}
            return fresh

    def _fresh(self, unreadable: Sequence[Unreadable]) -> list[Unreadable]:
        """Those that nobody has set aside, each once: of a table that is joined with itself, each input tells."""
        read = (self.record.places, self._begun)
        behind = [each for each in unreadable if all(each.offset >= of.get(_place(each)[:2], 0) for of in read)]
        found: dict[tuple[str, int, int], Unreadable] = {}
        for each in behind:
            if _place(each) not in self._ahead:
                found.setdefault(_place(each), each)
        return list(found.values())

    def go_over(self, target: JoinTarget) -> JoinPublisher:
        """Publish the output, too, from now on."""
        return JoinPublisher(self.publisher, target, self.record, None)

    def close(self) -> None:
        """Let go of Kafka."""
        self.publisher.close()

    def _commit(self, rows: Iterable[Messages], others: Sequence[Messages], record: JoinRecord) -> int:
        """Commit all of them with the record; return how many rows there were.

        Once that has failed, nobody here knows whether it is committed: UnavailableError from then on.
        """
        if self._is_unsure:
            message = f"whether the last publication of {self._name} is committed is not known"
            raise UnavailableError(message, "it is looked up when the link starts again, by itself")
        self._is_unsure, count = True, 0

        def counted() -> Iterator[Messages]:
            nonlocal count
            for messages in rows:
                count += len(messages)
                yield messages

        self.publisher.publish(chain(counted(), others), record.to_mapping)
        self.publisher.settle()
        self._is_unsure = False
        return count

    def _letters(self, unreadable: Sequence[Unreadable]) -> Sequence[Messages]:
        now_ms = _now_ms()
        raws = [RawMessage(each.topic, each.partition, each.offset, 0, each.key, each.value) for each in unreadable]
        letters = [Letter(raw, self._name, each.reason, now_ms) for raw, each in zip(raws, unreadable, strict=True)]
        return letter_messages(self._letters_topic, letters)


class JoinPublisher(JoinLetters):
    """A join's end: it alone publishes for it."""

    def __init__(
        self,
        publisher: CapturePublisher,
        target: JoinTarget,
        record: JoinRecord,
        announcement: Announcement | None,
        begun: Mapping[tuple[str, int], int] | None = None,
    ) -> None:
        """Go on from `record`: as it was committed before, or beginning with an announcement."""
        super().__init__(publisher, target.name, target.letters_topic, record, begun)
        self._target = target
        if announcement is not None:
            self._announce(announcement)

    def _announce(self, announcement: Announcement) -> None:
        self.publisher.publish([self._told(announcement)], self.record.to_mapping)
        self.publisher.settle()

    def _told(self, announcement: Announcement) -> Messages:
        registered = self._target.registered
        is_empty = announcement.kind is not SchemaChangeKind.SCHEMA
        schema_change = SchemaChange(
            source=self._target.name,
            table=self._target.plan.output.table,
            topic=registered.topic,
            follows=registered.follows,
            key_schema_id=registered.key_schema_id,
            value_schema_id=registered.value_schema_id,
            partitions=self._target.partitions,
            order=announcement.order,
            kind=announcement.kind,
            file=_file(self.record.generation),
            timestamp_ms=_now_ms(),
            column_renames=announcement.renames,
            begins=tuple(self.publisher.ends(registered.topic)) if is_empty else (),
        )
        return Messages(self._target.schemas_topic, [None], [schema_change.to_json()], [0])

    def has(self, batch: int) -> bool:
        """Whether a micro-batch is published already."""
        return batch <= self.record.batch

    def publish(
        self,
        batch: int,
        places: Mapping[tuple[str, int], int],
        differences: Sequence[pa.Table],
        unreadable: Sequence[Unreadable] = (),
    ) -> int:
        """Commit what a micro-batch makes of the output, which brings it to `places`; return how many changes.

        Raises PositionError for more messages that cannot be read than decode.UNREADABLE_MAX, and for a micro-batch
        that is not the one behind the record: those between them were published nowhere.
        """
        with self._turn:
            if batch != self.record.batch + 1:
                raise _not_next(self._target.name, batch, self.record.batch)
            fresh = self._fresh(unreadable)
            require_few(fresh)
            changes = changes_in_parts(self._target.plan, differences, _PART_BYTES)
            letters = self.record.letters + len(fresh)
            record = replace(self.record, batch=batch, places=dict(places), letters=letters)
            with in_one_transaction(f"what micro-batch {batch} changes of {self._target.name}", _LESS):
                count = self._commit(self._messages(changes, batch), self._letters(fresh), record)
            self.record = record
            self._ahead = {each for each in self._ahead if each[2] >= record.places.get(each[:2], 0)}
            return count

    def switch(self, record: JoinRecord, announcement: Announcement | None, changes: Iterable[OutputRows]) -> int:
        """Go over to another state, of which `record` is: commit what is announced and `changes`; return how many.

        A table that is made anew is announced before its rows: who reads topics may see the rows of
        one transaction before what else is in it.
        """
        record = replace(record, letters=self.record.letters)
        if announcement is not None and announcement.kind is not SchemaChangeKind.SCHEMA:
            self.record = replace(record, batch=NO_BATCH, places={})
            self._announce(announcement)
            announcement = None
        self.record = record
        told = [] if announcement is None else [self._told(announcement)]
        return self._commit(self._messages(changes, record.batch), told, record)

    def _messages(self, changes: Iterable[OutputRows], batch: int) -> Iterator[Messages]:
        registered, schema = self._target.registered, self._target.plan.output
        ids = (registered.key_schema_id, registered.value_schema_id)
        table = EncodableTable(self._target.name, "join", schema, *ids)
        now_ms, first = _now_ms(), 0
        for part in (piece for each in changes for piece in each.pieces(_MESSAGE_ROWS_MAX)):
            count = len(part)
            rows = RowBatch(
                schema=schema,
                op=part.op,
                before=part.before,
                after=part.after,
                file=_file(self.record.generation),
                offsets=np.full(count, batch + 1, np.int64),
                rows=np.arange(first, first + count, dtype=np.int32),
                timestamps_ms=np.full(count, now_ms, np.int64),
                gtids=pa.array([""] * count, pa.string()),
                server_id=0,
            )
            keys, values = encode_changes(table, rows, now_ms)
            yield Messages(registered.topic, keys, values, np.arange(first, first + count, dtype=np.int64))
            first += count


def _not_next(name: str, batch: int, published: int) -> PositionError:
    message = f"the state of the join {name} has come to micro-batch {batch}, and {published} is the last one published"
    hint = f"stop the pipeline and have it made again: penstock joinery rebuild FILE {name} --empty"
    return PositionError(message, hint)


def _place(message: Unreadable) -> tuple[str, int, int]:
    return message.topic, message.partition, message.offset


def _file(generation: int) -> str:
    """What stands in the messages for a log file: places in the output rise with generation, micro-batch and row.

    Who reads sees a place with the record that has its generation and micro-batch, or not at all: what was planned and
    never committed may come with other rows at the same place. A state that does not end where the record does, as it
    was lost, emptied or made again, has a generation that no record had.
    """
    return f"join.{generation:06}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
