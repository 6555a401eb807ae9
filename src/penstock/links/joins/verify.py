"""Verifying a join: its output folded by key, beside one batch join of its topics as far as the output has come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.avro.schemas import table_schema
from penstock.core.changes import Op
from penstock.core.errors import UsageError
from penstock.core.joins import batch_join
from penstock.core.joins.batch_completing import (
    cells_rows,
    cells_table,
    complete_statements,
    create_cells,
    events_of_whole,
    whole_table,
)
from penstock.core.joins.events import TRUNCATE
from penstock.core.message_format import decode_rows, schema_ids
from penstock.core.positions import file_number
from penstock.links.joins.decode import JoinDecoder, sort_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from penstock.core.avro.arrays import Integers
    from penstock.core.joins.plan import JoinPlan
    from penstock.links.joins.record import JoinRecord
    from penstock.links.joins.spec import JoinJob
    from penstock.ports.scratch import Scratch

Place: TypeAlias = tuple[str, int]
"""A topic and one of its partitions."""
Ranges: TypeAlias = "Mapping[Place, tuple[int, int]]"
Message: TypeAlias = tuple[Place, int, bytes | None, bytes | None]
"""Where a message is, its offset there, its key and its value."""

_MESSAGES_AT_ONCE = 8192
_ROWS_AT_ONCE = 16_384
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Difference:
    """A key of the output whose rows are not the same: None for a row that is not there."""

    key: Mapping[str, object]
    expected: Mapping[str, object] | None
    found: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class Verified:
    """What came of a comparison: how many rows there are on both sides, and the first of what differs."""

    expected: int
    found: int
    differing: int
    shown: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class JoinTopics:
    """How a join's topics are read: `scan` gives ((topic, partition), offset, key, value) of ranges.

    `begins` says where its inputs begin, `output` which ranges its own topics have, and
    `renames` how fields of messages with some schema are called now. Where the output's table began
    anew, what its topic had before the offsets `anew` does not count, and may be no message at all.
    """

    scan: Callable[[Ranges], Iterator[Message]]
    begins: Mapping[Place, int]
    output: Ranges
    value_schema: Callable[[int], str]
    renames: Mapping[int, Mapping[str, str]]
    anew: Mapping[Place, int] = field(default_factory=dict)


def verify_join(
    job: JoinJob, record: JoinRecord, topics: JoinTopics, scratch: Scratch, keys: int | None, salt: int
) -> Verified:
    """Compare what the output is at `record` with the join of the inputs up to the places that it names.

    Of all keys of the output, or of about so many `keys`, chosen by `salt`. Raises
    UsageError where a topic does not have all messages any more, PenstockError for
    messages that do not decode, SinkError for a full disk.
    """
    plan = job.plan
    for statement in batch_join.create_statements(plan):
        scratch.run(statement)
    emptied = _load_inputs(job, record, topics, scratch)
    _load_output(job, record, topics, scratch)
    sample = batch_join.EVERYTHING
    if keys is not None:
        sample = batch_join.Sample(keys / max(keys, scratch.value(batch_join.count_query(plan))), salt)
    for statement in batch_join.fold_statements(plan, emptied, sample):
        scratch.run(statement)
    _join(plan, scratch, sample)
    scratch.run(batch_join.compare_statement(plan))
    expected, found = scratch.value(batch_join.EXPECTED_QUERY), scratch.value(batch_join.FOLDED_QUERY)
    differing = scratch.value(batch_join.DIFFERENCES_QUERY)
    rows = scratch.rows(f"SELECT expected, found FROM differences ORDER BY key LIMIT {_SHOWN}")  # noqa: S608 - a number
    return Verified(expected, found, differing, tuple(_difference(plan, *row) for row in rows))


def _load_inputs(
    job: JoinJob, record: JoinRecord, topics: JoinTopics, scratch: Scratch
) -> Mapping[int, tuple[int, int]]:
    """Load the events of all inputs; return up to where in its log each was emptied, if it was."""
    decoder, emptied = JoinDecoder(job, topics.value_schema), dict[int, tuple[int, int]]()
    cells = _Cells(job.plan, scratch)
    for (topic, partition), begin in topics.begins.items():
        if begin and (topic, partition) in record.places:
            message = f"the messages of {topic} before {partition}/{begin} are gone, so its join cannot be made again"
            raise UsageError(message, f"to keep those to come: set retention.ms=-1 and retention.bytes=-1 on {topic}")
    ranges = {place: (0, end) for place, end in record.places.items()}
    for (topic, partition), offsets, values, keys in _stretches(topics.scan(ranges)):
        # What the join could not read either is in its dead letters.
        for events in sort_out(decoder.decode(topic, partition, offsets, values, keys))[0]:
            index = int(events.column("input")[0].as_py())
            if int(events.column("op")[0].as_py()) == TRUNCATE:
                place = (int(events.column("place")[0].as_py()), int(events.column("place_row")[0].as_py()))
                emptied[index] = max(place, emptied.get(index, place))
            elif not cells.take(index, events):
                scratch.add(batch_join.event_table(index), batch_join.event_rows(job.plan, index, events))
    cells.complete(emptied)
    return emptied


class _Cells:
    """The changes of partial inputs, which are made whole before they are joined."""

    def __init__(self, plan: JoinPlan, scratch: Scratch) -> None:
        self._plan = plan
        self._scratch = scratch
        self._lacking: dict[int, set[int]] = {i: set() for i, each in enumerate(plan.inputs) if each.is_partial}
        for index in self._lacking:
            scratch.run(create_cells(plan, index))

    def take(self, index: int, events: pa.RecordBatch) -> bool:
        """Take changes of a partial input, and say whether it is one."""
        if index not in self._lacking:
            return False
        rows, lacks = cells_rows(self._plan, index, events)
        self._lacking[index].update(lacks)
        self._scratch.add(cells_table(index), rows)
        return True

    def complete(self, emptied: Mapping[int, tuple[int, int]]) -> None:
        """Load the newest of each row as the event that put it there."""
        for index, lacking in self._lacking.items():
            for statement in complete_statements(self._plan, index, emptied.get(index), lacking):
                self._scratch.run(statement)
            for rows in _rows_of(self._scratch, whole_table(index)):
                events = events_of_whole(self._plan, index, rows)
                self._scratch.add(batch_join.event_table(index), batch_join.event_rows(self._plan, index, events))


def _load_output(job: JoinJob, record: JoinRecord, topics: JoinTopics, scratch: Scratch) -> None:
    """Load what the output's state of this generation, and of those that it follows, has published up to the record."""
    oldest, first = record.generation - record.follows, dict[Place, int]()
    ranges = {place: (max(begin, topics.anew.get(place, 0)), end) for place, (begin, end) in topics.output.items()}
    for place, offsets, values, _ in _stretches(each for each in topics.scan(ranges) if each[3] is not None):
        ids = schema_ids(values)
        for schema_id in np.unique(ids).tolist():
            chosen, text = ids == schema_id, topics.value_schema(schema_id)
            decoded = decode_rows(table_schema(text), text, values.filter(pa.array(chosen)))
            generations = np.array([file_number(str(file)) for file in decoded.file.to_pylist()], np.int64)
            first[place] = min(int(generations.min()), first.get(place, record.generation))
            is_before = (generations >= oldest) & (generations < record.generation)
            is_now = (generations == record.generation) & (decoded.pos <= record.batch + 1)
            if not (is_before | is_now).any():
                # Its table may have had another key.
                continue
            counts = pa.array(is_before | is_now)
            is_deleted: Any = pc.equal(decoded.op, pa.scalar(Op.DELETE.value))
            new_names = topics.renames.get(schema_id, {})
            renamed = decoded.rows.rename_columns([new_names.get(each, each) for each in decoded.rows.schema.names])
            positions: Any = pa.array(_in_order(list(topics.output), place, offsets[chosen]))
            rows = batch_join.output_rows(
                job.plan, positions.filter(counts), is_deleted.filter(counts), renamed.filter(counts)
            )
            scratch.add(batch_join.OUTPUT_TABLE, rows)
    for place, (begin, _) in topics.output.items():
        if begin > topics.anew.get(place, 0) and first.get(place, oldest) >= oldest:
            raise _incomplete(place, begin)


def _in_order(places: Sequence[Place], place: Place, offsets: Integers) -> Integers:
    """Positions of messages, each its own, that rise for each key: with a topic's number, and behind it the offset."""
    topics = list(dict.fromkeys(topic for topic, _ in places))
    return (np.int64(topics.index(place[0])) << 52) | (np.int64(place[1]) << 40) | offsets


def _incomplete(place: Place, begin: int) -> UsageError:
    """The first message that is there may not be the first one that the state of this generation published."""
    message = f"the messages of {place[0]} before {place[1]}/{begin} are gone, so it cannot be folded by key"
    hint = f"audit what it was loaded into; to keep the messages to come: set retention.ms=-1 on {place[0]}"
    return UsageError(message, hint)


def _stretches(messages: Iterable[Message]) -> Iterator[tuple[Place, Integers, pa.BinaryArray, pa.BinaryArray]]:
    """Yield messages of one partition at a time, in their order, a few thousand at most, with keys of tombstones."""
    waiting: dict[Place, list[tuple[int, bytes | None, bytes | None]]] = {}
    for place, offset, key, value in messages:
        found = waiting.setdefault(place, [])
        found.append((offset, value, key if value is None else None))
        if len(found) == _MESSAGES_AT_ONCE:
            yield place, *_columns(waiting.pop(place))
    for place, found in waiting.items():
        yield place, *_columns(found)


def _columns(
    found: Sequence[tuple[int, bytes | None, bytes | None]],
) -> tuple[Integers, pa.BinaryArray, pa.BinaryArray]:
    offsets, values, keys = zip(*found, strict=True)
    return np.array(offsets, np.int64), pa.array(values, pa.binary()), pa.array(keys, pa.binary())


def _join(plan: JoinPlan, scratch: Scratch, sample: batch_join.Sample) -> None:
    """Make the rows that are expected, a table of bytes first: a query may not be read while another one runs."""
    scratch.run(f"CREATE TABLE joined AS {batch_join.join_query(plan, sample)}")
    for images in _rows_of(scratch, "joined"):
        scratch.add(batch_join.EXPECTED_TABLE, batch_join.expected_rows(plan, images))


def _rows_of(scratch: Scratch, table: str) -> Iterator[pa.RecordBatch]:
    """Yield all rows of a table, a few thousand at a time."""
    last = scratch.value(f"SELECT count(*) FROM {table}")  # noqa: S608 - names and numbers of ours
    for start in range(0, last, _ROWS_AT_ONCE):
        query = f"SELECT * FROM {table} WHERE rowid >= {start} AND rowid < {start + _ROWS_AT_ONCE}"  # noqa: S608 - as above
        yield from scratch.batches(query)


def _difference(plan: JoinPlan, expected: object, found: object) -> Difference:
    rows = [None if each is None else _row(plan, each) for each in (expected, found)]
    key = {name: (rows[0] or rows[1] or {})[name] for name in plan.output.key}
    return Difference(key, *rows)


def _row(plan: JoinPlan, content: object) -> Mapping[str, object]:
    return batch_join.shown_rows(plan, pa.array([content], pa.binary()))[0]
