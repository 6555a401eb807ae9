"""Random streams of changes to join, and what SQL makes of their tables."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from penstock.core.arrow_types import arrow_schema
from penstock.core.joins.completing import RowCompleter, partial_events
from penstock.core.joins.events import Changed, row_events, tombstone_events, truncate_event
from penstock.core.joins.identity import identifying_places
from penstock.core.joins.inputs import JoinInput, JoinOutput
from penstock.core.joins.plan import plan_join
from penstock.core.tables import Column, DateType, DecimalType, IntegerType, TableId, TableSchema, TextType

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    import duckdb

    from penstock.core.joins.changes import OutputRows
    from penstock.core.joins.plan import JoinPlan
    from penstock.core.tables import ColumnType

PARTITIONS = 2
_BIG, _SMALL = IntegerType(64, unsigned=False), IntegerType(16, unsigned=True)
_TEXT = TextType(20, "utf8mb4")
_KINDS: list[list[ColumnType]] = [[_BIG, _SMALL, DecimalType(10, 0)], [_TEXT], [DecimalType(8, 2)], [DateType()]]
_WORDS = ["", "a", "A", "ab", "1:a"]
_CONDITIONS = ["", "", "", "hidden IS NULL OR hidden > 0", "word <> 'a'", "id IN (0, 1, 2) AND NOT word = 'ab'"]

Row = dict[str, Any]
Key = tuple[Any, ...]


def random_inputs(rng: Random) -> list[JoinInput]:
    """Two to five tables of some cardinality: their keys are numbers, or their join keys, or both."""
    optional = rng.choice([0, 0.5, 1])
    conditions = rng.choice([[""], [""], _CONDITIONS])
    partial = rng.choice([0, 0, 0.5, 1])
    kinds = [rng.choice(_KINDS) for _ in range(rng.choice([1, 1, 2]))]
    inputs = []
    for index in range(rng.choice([2, 2, 2, 3, 3, 4, 5])):
        names = tuple(f"k{number}" for number in range(len(kinds)))
        key = rng.choice([("id",), ("id",), names, ("id", *names), ("id", "id2")])
        columns = [Column(name, _SMALL, nullable=False) for name in ("id", "id2")]
        columns += [
            Column(name, rng.choice(kind), nullable=name not in key) for name, kind in zip(names, kinds, strict=True)
        ]
        columns += [Column("word", _TEXT, nullable=True), Column("hidden", _BIG, nullable=True)]
        aliased = [name for name in ("id", "id2", "word", "hidden") if index or rng.random() < 0.5]
        aliased += [name for name in names if rng.random() < 0.5]
        exclude = tuple(c.name for c in columns if rng.random() < 0.2)
        aliases = tuple((name, f"{name}_of_{index}") for name in aliased if name not in exclude)
        table = replace(table_of(index, tuple(columns), key), partial_rows=rng.random() < partial)
        given = JoinInput(f"db.shop.t{index}", table, names, exclude, aliases)
        is_optional = index > 0 and rng.random() < optional
        inputs.append(replace(given, is_optional=is_optional, where=rng.choice(conditions)))
    return inputs


def table_of(index: int, columns: tuple[Column, ...], key: tuple[str, ...]) -> TableSchema:
    return TableSchema(TableId("shop", f"t{index}"), columns, key)


def random_plan(rng: Random, inputs: list[JoinInput]) -> JoinPlan:
    """A plan with a declared key that identifies rows, or with one that does not, as far as any can be declared."""
    wanted = [(i, name) for i, name in identifying_places(inputs) if name not in inputs[i].exclude]
    names = tuple(dict.fromkeys(inputs[i].named(name) for i, name in wanted)) or tuple(
        each.named(column.name)
        for each in inputs
        for column in each.table.columns
        if column.name not in each.exclude and not column.nullable
    )
    return plan_join(inputs, JoinOutput(TableId("joined", "rows"), names[: rng.randint(1, max(1, len(names)))]))


def order_of(place: int) -> tuple[int, int, int]:
    """Where in a log the n-th thing stands: several rows at a time at one offset."""
    return 1 + place // 300, place % 300 // 3, place % 3


@dataclass(frozen=True, slots=True)
class Message:
    """A change of one row in a topic; `row` is the row as it last was where it is deleted.

    Of its values those that it `lacks` are not told. A tombstone tells its key alone, and no place.
    """

    input: int
    partition: int
    offset: int
    place: int
    row: Row
    is_deleted: bool
    lacks: tuple[str, ...] = ()
    is_tombstone: bool = False

    def key(self, given: JoinInput) -> Key:
        return tuple(self.row[name] for name in given.table.key)


@dataclass
class Streams:
    """Sources that change, the messages that tell of it, and how far those were read."""

    rng: Random
    inputs: list[JoinInput]
    plan: JoinPlan
    rows: list[dict[Key, Row]] = field(init=False)
    waiting: dict[tuple[int, int], list[Message]] = field(default_factory=dict)
    read: dict[tuple[int, int], list[Message]] = field(default_factory=dict)
    ends: dict[tuple[int, int], int] = field(default_factory=dict)
    announced: list[tuple[int, int, int]] = field(default_factory=list)
    emptied: dict[int, int] = field(default_factory=dict)
    heard: list[tuple[int, int, int]] = field(default_factory=list)
    place: int = 0
    values: int = 4
    truncates: float = 0.03
    deletes: float = 0.15

    def __post_init__(self) -> None:
        self.rows = [{} for _ in self.inputs]

    def change(self) -> None:
        """Let one thing happen in one of the sources."""
        index, self.place = self.rng.randrange(len(self.inputs)), self.place + 1
        rows, given = self.rows[index], self.inputs[index]
        chance = self.rng.random()
        if chance < self.truncates:
            rows.clear()
            self.announced.append((index, len(self.announced) + len(self.heard), self.place))
        elif chance < self.truncates + self.deletes and rows:
            self._tell(index, rows.pop(self.rng.choice(list(rows))), is_deleted=True)
        else:
            row = self._row(given.table)
            if rows and self.rng.random() < 0.5:
                old = self.rng.choice(list(rows.values()))
                row = {**old, **{name: row[name] for name in self.rng.sample(list(row), 2)}}
                if _key(given, row) == _key(given, old):
                    rows[_key(given, row)] = row
                    self._tell(index, row, is_deleted=False, lacks=self._untold(given, old, row))
                    return
                self._tell(index, rows.pop(_key(given, old)), is_deleted=True)
            rows[_key(given, row)] = row
            self._tell(index, row, is_deleted=False)

    def _untold(self, given: JoinInput, old: Row, row: Row) -> tuple[str, ...]:
        """Columns that an update left as they were, and whose values its message lacks."""
        if not given.table.partial_rows:
            return ()
        untouched = [name for name in row if row[name] == old[name] and name not in given.table.key]
        return tuple(name for name in untouched if self.rng.random() < 0.5)

    def _row(self, table: TableSchema) -> Row:
        values: Row = {}
        for column in table.columns:
            # Join keys have few values, so that much is joined.
            few = column.name.startswith("k")
            number = self.rng.randrange(self.values // 2 if few else self.values)
            match column.type:
                case DecimalType(_, 2):
                    values[column.name] = Decimal(number) / 4
                case DecimalType():
                    values[column.name] = Decimal(number)
                case TextType():
                    values[column.name] = self.rng.choice(_WORDS[3:] if few else _WORDS)
                case DateType():
                    values[column.name] = date(2024, 2, 28) + timedelta(number)
                case _:
                    values[column.name] = number
            if column.nullable and self.rng.random() < 0.1:
                values[column.name] = None
        return values

    def _tell(self, index: int, row: Row, *, is_deleted: bool, lacks: tuple[str, ...] = ()) -> None:
        """Write a message; of a delete that, or its tombstone, or both: compaction leaves the tombstone."""
        partition = crc32(repr(_key(self.inputs[index], row)).encode()) % PARTITIONS
        for is_tombstone in self.rng.choice([(False,), (True,), (False, True)]) if is_deleted else (False,):
            end = self.ends.get((index, partition), 0)
            self.ends[index, partition] = end + self.rng.randint(1, 2)
            message = Message(index, partition, end, self.place, row, is_deleted, lacks, is_tombstone)
            self.waiting.setdefault((index, partition), []).append(message)

    def read_some(self, share: float) -> list[pa.RecordBatch]:
        """Read on, here more and there less, and some of it again; return the events in any order.

        Those of inputs whose rows may lack columns are still to be completed.
        """
        events = []
        for stream, messages in self.waiting.items():
            count = sum(self.rng.random() < share for _ in messages)
            taken, self.waiting[stream] = messages[:count], messages[count:]
            read = self.read.setdefault(stream, [])
            again = self.rng.randrange(len(read)) if read and self.rng.random() < 0.3 else len(read)
            events += self._events(read[again:][: self.rng.randint(0, 5)])
            read += taken
            events += self._events(taken)
        count = sum(self.rng.random() < share for _ in self.announced)
        told, self.announced = self.announced[:count], self.announced[count:]
        self.heard += told
        for index, _, place in told:
            self.emptied[index] = max(place, self.emptied.get(index, -1))
        replayed = self.rng.sample(self.heard, min(len(self.heard), self.rng.randint(0, 1)))
        events += [truncate_event(index, offset, order_of(place)) for index, offset, place in [*told, *replayed]]
        self.rng.shuffle(events)
        return events

    def everything(self) -> list[pa.RecordBatch]:
        """The events of all that was read so far, by the plan of now."""
        events = [event for messages in self.read.values() for event in self._events(messages)]
        return events + [truncate_event(index, offset, order_of(place)) for index, offset, place in self.heard]

    def _events(self, messages: list[Message]) -> list[pa.RecordBatch]:
        return [self._event(each) for each in messages]

    def _event(self, message: Message) -> pa.RecordBatch:
        fields = arrow_schema(self.inputs[message.input].table)
        if self.rng.random() < 0.2:
            fields = fields.append(pa.field("added_later", pa.string()))
        table, offsets = self.inputs[message.input].table, np.array([message.offset], np.int64)
        if message.is_tombstone:
            names = pa.schema([field for field in fields if field.name in table.key])
            keys = pa.RecordBatch.from_pylist([message.row], schema=names)
            return tombstone_events(self.plan, message.input, keys, message.partition, offsets)
        lacks = set(message.lacks)
        if table.partial_rows and message.is_deleted:
            lacks = set(message.row) - set(table.key)
        row = {name: None if name in lacks else value for name, value in message.row.items()}
        fields = pa.schema([field.with_nullable(nullable=True) for field in fields])
        rows = pa.RecordBatch.from_pylist([row], schema=fields)
        changed = Changed(
            rows,
            np.array([message.is_deleted]),
            message.partition,
            offsets,
            np.array([order_of(message.place)], np.int64),
        )
        if not table.partial_rows:
            return row_events(self.plan, message.input, changed)
        lacking = {name: np.array([True]) for name in message.lacks}
        return partial_events(self.plan, message.input, changed, lacking, pa.array([b"a message"]))

    def tables(self) -> Iterator[pa.Table]:
        """What was read so far, as tables."""
        for index, given in enumerate(self.inputs):
            rows: dict[Key, Row] = {}
            for (number, _), messages in self.read.items():
                for each in messages if number == index else ():
                    rows.pop(each.key(given), None)
                    if not each.is_deleted and each.place > self.emptied.get(index, -1):
                        rows[each.key(given)] = each.row
            yield pa.Table.from_pylist(list(rows.values()), schema=arrow_schema(given.table))

    def join(self, connection: duckdb.DuckDBPyConnection) -> list[Row]:
        """What SQL makes of it."""
        for index, table in enumerate(self.tables()):
            connection.register(f"t{index}", table)
        joins = "".join(
            f" {'LEFT ' if given.is_optional else ''}JOIN {_seen(index, given)} ON "
            + " AND ".join(
                f't0."{left}" = t{index}."{right}"'
                for left, right in zip(self.inputs[0].join_keys, given.join_keys, strict=True)
            )
            for index, given in enumerate(self.inputs)
            if index
        )
        chosen = ", ".join(
            f'{self._value(index, number, column)} AS "{column.name}"'
            for (index, number), column in zip(self.plan.origins, self.plan.output.columns, strict=True)
        )
        tables = f"{_seen(0, self.inputs[0])}{joins}"
        joined: list[Row] = connection.sql(f"SELECT {chosen} FROM {tables}").to_arrow_table().to_pylist()
        return joined

    def _value(self, index: int, number: int, column: Column) -> str:
        value = f't{index}."{self.plan.inputs[index].stored.columns[number].name}"'
        if column.name not in self.plan.stand_ins:
            return value
        match column.type:
            case TextType():
                zero = "''"
            case DateType():
                zero = "DATE '1970-01-01'"
            case DecimalType(precision, scale):
                zero = f"0::DECIMAL({precision}, {scale})"
            case _:
                zero = "0"
        return f"coalesce({value}, {zero})"


def _seen(index: int, given: JoinInput) -> str:
    """An input of SQL's join."""
    return f"(SELECT * FROM t{index} WHERE {given.where}) AS t{index}" if given.where else f"t{index}"


def _key(given: JoinInput, row: Row) -> Key:
    return tuple(row[name] for name in given.table.key)


def completed(completer: RowCompleter, events: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Events for the join, none of which may be of a row that nobody knows."""
    found = []
    for each in completer.take(events):
        assert isinstance(each, pa.RecordBatch), each
        found.append(each)
    return found


class Folded:
    """The output folded by key, as strictly as can be: whoever reads it must never be told what cannot be."""

    def __init__(self, plan: JoinPlan) -> None:
        self._plan = plan
        self.rows: dict[Key, Row] = {}

    def take(self, changes: list[OutputRows]) -> None:
        seen: set[Key] = set()
        for part in changes:
            befores = [None] * 10**6 if part.before is None else part.before.to_pylist()
            afters = [None] * 10**6 if part.after is None else part.after.to_pylist()
            for before, after in zip(befores, afters, strict=False):
                key = tuple((after or before or {})[name] for name in self._plan.output.key)
                assert key not in seen, f"{key} is told twice in one micro-batch"
                seen.add(key)
                assert self.rows.get(key) == before
                assert before != after
                self.rows.pop(key, None)
                if after is not None:
                    self.rows[key] = after
