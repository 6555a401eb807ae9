"""Random changes and statements, cut into batches at random, redelivered and interrupted, end as a dictionary says."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.servers.cut_warehouse import CutError, CutWarehouse
from tests.servers.kinds import TARGETS

from penstock.core.batches import Batch
from penstock.core.files import FILE, LACKS, OFFSET, OP, POS, ROW, TS_MS, file_schema, object_key, render_file
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import Column, IntegerType, TableId, TableSchema, TextType
from penstock.links.warehouse.load_rules import LoadRules
from penstock.links.warehouse.sink import SqlSink

if TYPE_CHECKING:
    from tests.servers.sink_case import Place

    from penstock.adapters.objects.store import Objects
    from penstock.core.warehouse.load_plan import DroppedTables

TABLE = TableId("warehouse", "orders")
ID = Column("id", IntegerType(32, unsigned=False), nullable=False)
NAME = Column("name", TextType(20, "utf8mb4"), nullable=True)
QTY = Column("qty", IntegerType(16, unsigned=False), nullable=True)
QTY_WIDE = Column("qty", IntegerType(64, unsigned=False), nullable=True)
EXTRA = Column("extra", IntegerType(32, unsigned=False), nullable=False, default="7")
GENERATIONS = ((ID, NAME, QTY), (ID, NAME, QTY, EXTRA), (ID, NAME, QTY_WIDE, EXTRA), (ID, QTY_WIDE, EXTRA))

LOG = "bin.000001"
Row = dict[str, object]
DAILY = {("duckdb", 0), ("postgres", 0)}
STORIES = [
    pytest.param(target, seed, marks=() if (target, seed) in DAILY else pytest.mark.nightly)
    for target in TARGETS
    for seed in range(4)
]
every_story = pytest.mark.parametrize(("place", "seed"), STORIES, indirect=["place"])


DEFAULTS: Row = {"name": None, "qty": None, "extra": 7}


def schemas(*, keyed: bool, partial: bool = False) -> dict[int, TableSchema]:
    key = ("id",) if keyed else ()
    tables = (TableSchema(TABLE, columns, key, partial_rows=partial) for columns in GENERATIONS)
    return {100 + number: table for number, table in enumerate(tables)}


@dataclass
class Message:
    """A change as it stands in its partition: the rows of the file that it becomes."""

    schema_id: int
    order: int
    rows: list[Row]


@dataclass
class World:
    """The source's table, the topic that its changes went to, and the batch topic."""

    rng: random.Random
    keyed: bool
    partial: bool = False
    rows: list[Row] = field(default_factory=list)
    partitions: list[list[Message]] = field(default_factory=lambda: [[], []])
    schema_changes: list[tuple[SchemaChangeKind, int, int]] = field(default_factory=list)
    generation: int = 0
    order: int = 0
    truncates: int = 0
    begun: int = 0

    @property
    def schemas(self) -> dict[int, TableSchema]:
        """All the table's schemas by their ids."""
        return schemas(keyed=self.keyed, partial=self.partial)

    def change(self) -> None:
        """Create, update or delete a row; in a keyed table often one that was there before."""
        self.order += 1
        row = self.rng.choice(self.rows) if self.rows else None
        if row is None or self.rng.random() < 0.4:
            key = self.rng.randrange(12)
            if self.keyed and any(row["id"] == key for row in self.rows):
                return
            self.rows.append(self._fresh(key))
            self._log("c", [("c", self._lacking(self.rows[-1], DEFAULTS))])
        elif self.rng.random() < 0.5:
            self.rows.remove(row)
            self._log("d", [("d", self._lacking(row, row))])
        else:
            after = self._fresh(row["id"])
            self.rows[self.rows.index(row)] = after
            self._log("u", [("u", self._lacking(after, row))] if self.keyed else [("u-", row), ("u+", after)])

    def alter(self) -> None:
        """Go to the next generation, as the source's ALTER TABLE does."""
        self.order += 1
        self.generation += 1
        names = {column.name for column in GENERATIONS[self.generation]}
        for row in self.rows:
            row.update(dict.fromkeys(names - set(row), 7))
            for name in set(row) - names:
                del row[name]
        self._announce(SchemaChangeKind.SCHEMA)

    def truncate(self) -> None:
        """Empty the table, as the source's TRUNCATE TABLE does."""
        self.order += 1
        self.rows.clear()
        self.truncates += 1
        self._announce(SchemaChangeKind.TRUNCATE)

    def begin_anew(self) -> None:
        """Drop the table and create it again, often with another shape."""
        self.order += 1
        if self.rng.random() < 0.5:
            self._announce(SchemaChangeKind.DROP)
            self.order += 1
        self.rows.clear()
        self.generation = self.rng.randrange(len(GENERATIONS))
        self.truncates, self.begun = 0, self.order
        self._announce(SchemaChangeKind.CREATE)

    def batches(self, objects: Objects) -> list[Batch]:
        """Cut the partitions into files, and mix them and the schema-change events in an order that may happen."""
        queues = [self._cut(objects, partition) for partition in range(2)]
        told = [self._batch(id_, 0, 0, 0, [], order) for _, id_, order in self.schema_changes]
        kinds = [kind for kind, _, _ in self.schema_changes]
        queues.append([replace(batch, kind=kind, file=LOG) for batch, kind in zip(told, kinds, strict=True)])
        mixed: list[Batch] = []
        while any(queues):
            ready = [queue for queue in queues if queue and self._is_ready(queue[0], queues)]
            mixed.append(self.rng.choice(ready).pop(0))
        return mixed

    def _announce(self, kind: SchemaChangeKind) -> None:
        self.schema_changes.append((kind, 100 + self.generation, self.order))

    def _fresh(self, key: object) -> Row:
        row: Row = {"id": key, "name": self.rng.choice(["a", "A", None]), "qty": self.rng.choice([*range(9), None])}
        row["extra"] = self.rng.choice([1, 7])
        return {column.name: row[column.name] for column in GENERATIONS[self.generation]}

    def _lacking(self, row: Row, known: Row) -> Row:
        """Leave out, as a source may, some of the values that are as they are `known` to be."""
        if not self.partial:
            return row
        lacks = [name != "id" and row[name] == known[name] and self.rng.random() < 0.7 for name in row]
        there = {name: None if lack else row[name] for name, lack in zip(row, lacks, strict=True)}
        return there | {LACKS: "".join(map(str, map(int, lacks))) if any(lacks) else ""}

    def _log(self, op: str, images: list[tuple[str, Row]]) -> None:
        partition = self.partitions[hash(images[0][1]["id"]) % 2]
        meta = {OFFSET: len(partition), FILE: LOG, POS: self.order * 10, ROW: 0, TS_MS: 1_700_000_000_000}
        rows = [dict(row) | meta | {OP: label} for label, row in images]
        assert op == images[0][0][0]
        partition.append(Message(100 + self.generation, self.order, rows))

    def _cut(self, objects: Objects, partition: int) -> list[Batch]:
        messages, batches, start = self.partitions[partition], [], 0
        while start < len(messages):
            begin = start
            while begin > max(0, start - self.rng.choice([0, 0, 0, 2])) and self._go_together(messages, begin - 1):
                begin -= 1
            end = begin + 1
            longest = begin + self.rng.randint(1, 9)
            while end < min(longest, len(messages)) and self._go_together(messages, end - 1):
                end += 1
            rows = [row for message in messages[begin:end] for row in message.rows]
            key = object_key("p", "s", "t", partition, (begin, end), self.rng.randrange(10**9))
            size = self._write(objects, key, messages[begin].schema_id, rows)
            first, last = messages[begin].order, messages[end - 1].order
            batch = self._batch(messages[begin].schema_id, partition, begin, end, rows, first, last, key, size)
            batches.append(batch)
            start = max(start, end)
        return batches

    def _go_together(self, messages: list[Message], index: int) -> bool:
        """Whether a message and the one behind it may be in one file."""
        before, after = messages[index : index + 2]
        return not any(before.order < order <= after.order for _, _, order in self.schema_changes)

    def _write(self, objects: Objects, key: str, schema_id: int, rows: list[Row]) -> int:
        schema = self.schemas[schema_id]
        content = render_file(schema, pa.Table.from_pylist(rows, file_schema(schema)))
        objects.put(key, content)
        return len(content)

    @staticmethod
    def _batch(  # noqa: PLR0917 - the fields of a batch
        schema_id: int, partition: int, start: int, end: int, rows: list[Row], first: int, last: int = 0,
        key: str = "", size: int = 0,
    ) -> Batch:  # fmt: skip
        orders = (1, first * 10, 0), (1, max(first, last) * 10, 0)
        fields = ("s", TABLE, "t", partition, start, end, len(rows), key, size, "parquet", schema_id)
        return Batch(*fields, *orders, last_timestamp_ms=0)

    @staticmethod
    def _is_ready(batch: Batch, queues: list[list[Batch]]) -> bool:
        """Whether `batch` may come next: an altered table's old rows may come late, but not across a barrier."""
        if batch.rows:
            return all(batch.first_order < schema_change.first_order for schema_change in queues[2])
        if batch.kind is SchemaChangeKind.SCHEMA:
            return True
        return all(rows.first_order > batch.first_order for queue in queues[:2] for rows in queue)


def load_all(world: World, batches: list[Batch], place: Place) -> int:
    """Load as the warehouse link does, cut off at random, until everything is in; return the cuts."""
    cuts = 0
    faults = 4 + world.rng.randrange(12)
    dropped_tables: DroppedTables = world.rng.choice(("keep", "drop"))
    rules = LoadRules(rows_max=7, held_bytes_max=200, dropped_tables=dropped_tables)
    place.open("s", rules).close()
    while True:
        warehouse = place.target.connect("s")
        statements = world.rng.randrange(4, 60) if cuts < faults else 1_000_000_000
        cut = CutWarehouse(warehouse, statements)
        try:
            sink = SqlSink(cut, "p", "s", place.objects, rules)  # type: ignore[arg-type]
            while (offset := sink.batch_offset()) < len(batches):
                through = min(len(batches), offset + world.rng.randint(1, 12))
                # A table that could not go on for a while has everything since then loaded again.
                again = world.rng.choice([0, 0, 3, 3, 200])
                sink.load(TABLE, batches[max(0, offset - again) : through], world.schemas)
                sink.finish(through)
            sink.load(TABLE, batches, world.schemas)
            break
        except CutError:
            cuts += 1
        finally:
            warehouse.close()
    return cuts


def make_world(seed: int, *, keyed: bool, partial: bool = False) -> World:
    world = World(random.Random(seed), keyed, partial)  # noqa: S311 - not for secrets
    world.schema_changes.append((SchemaChangeKind.SCHEMA, 100, 0))
    for _ in range(200):
        dice = world.rng.random()
        if dice < 0.02 and world.generation < len(GENERATIONS) - 1:
            world.alter()
        elif dice < 0.05:
            world.truncate()
        elif dice < 0.07:
            world.begin_anew()
        world.change()
    return world


def counted(rows: list[Row]) -> Counter[tuple[tuple[str, object], ...]]:
    return Counter(tuple(sorted(row.items())) for row in rows)


def read(place: Place) -> list[Row]:
    names = list(place.columns(TABLE))
    listed = ", ".join(names)
    return [dict(zip(names, row, strict=True)) for row in place.ask(f"SELECT {listed} FROM {TABLE}")]


@pytest.mark.parametrize("partial", [False, True])
@every_story
def test_a_keyed_table_ends_as_the_source_whatever_happens_on_the_way(
    *, seed: int, partial: bool, place: Place
) -> None:
    world = make_world(seed, keyed=True, partial=partial)

    cuts = load_all(world, world.batches(place.objects), place)

    assert cuts > 0
    assert counted(read(place)) == counted(world.rows)


@every_story
def test_a_change_log_adds_up_to_the_source_and_has_every_image_once(seed: int, place: Place) -> None:
    world = make_world(seed, keyed=False)

    cuts = load_all(world, world.batches(place.objects), place)

    log = read(place)
    places = Counter((row["_file"], row["_pos"], row["_row"], row["_op"]) for row in log)
    emptied_at = max((row["_pos"] for row in log if row["_op"] == "t"), default=0)  # type: ignore[type-var]
    present: Counter[tuple[tuple[str, object], ...]] = Counter()
    for row in log:
        if row["_op"] != "t" and row["_pos"] > emptied_at:  # type: ignore[operator]
            values = tuple(sorted((name, value) for name, value in row.items() if not name.startswith("_")))
            present[values] += 1 if row["_op"] in {"c", "r", "u+"} else -1
    since = [message for messages in world.partitions for message in messages if message.order > world.begun]
    assert cuts > 0
    assert max(places.values()) == 1
    assert sum(row["_op"] == "t" for row in log) == world.truncates
    assert len(log) == sum(len(message.rows) for message in since) + world.truncates
    assert {row: count for row, count in present.items() if count} == counted(world.rows)
