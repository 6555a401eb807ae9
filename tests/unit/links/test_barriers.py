"""Rows and schema-change events reach the batch topic in the order of the log, however far each partition was read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.links.conftest import MemoryPublisher

from penstock.core.batches import Batch
from penstock.core.schema_changes import Move, SchemaChange, SchemaChangeKind
from penstock.core.tables import TableId
from penstock.links.objects.plan import ObjectsPlan, TopicRange
from penstock.links.objects.publish import BatchPublisher
from penstock.links.objects.record import ObjectsRecord
from penstock.links.objects.write import RangeWritten

TABLES = (TableId("shop", "users"), TableId("shop", "orders"))
PARTITIONS = 2
MOVED = frozenset({2})
"""Table 0 gets the rows of table 1, which is told for table 0 only."""


@dataclass(frozen=True, slots=True)
class Case:
    """A log of rows (table, partition) and statements (tables, or MOVED), and how it is read.

    Each step sees so many items of the log more, of which the last few statements
    only after it asked for ends, and reads so many rows of each partition.
    """

    log: list[tuple[int, int] | frozenset[int]]
    steps: list[tuple[int, int, int]]


rows = st.tuples(st.integers(0, 1), st.integers(0, PARTITIONS - 1))
statements = st.sampled_from([frozenset({0}), frozenset({1}), frozenset({0, 1}), MOVED])
cases = st.builds(
    Case,
    st.lists(rows | rows | rows | statements, min_size=15, max_size=40),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2), st.integers(1, 6)), max_size=12),
)


class World:
    """The log's items as they stand in topics, and what was published of them."""

    def __init__(self, log: list[tuple[int, int] | frozenset[int]]) -> None:
        self.log = log
        self.publisher = MemoryPublisher()
        self.link = BatchPublisher(self.publisher, "batches", 1)

    def step(self, seen: int, late: int, rows_max: int) -> None:
        """Plan from the record what is among the first `seen` items, write it, and publish."""
        record = ObjectsRecord.from_mapping(self.publisher.records[-1]) if self.publisher.records else ObjectsRecord()
        told = [a for item, order in self._items(seen) if isinstance(item, frozenset) for a in announce(item, order)]
        late = min(late, len(told))
        new = [(o, a) for o, a in enumerate(told) if o >= record.schemas_offset and o not in record.passed]
        cuts = {table: [a.order[1] for _, a in enumerate(told) if a.table == table] for table in TABLES}
        # What came while we looked is told, but rows from there on were not seen.
        visible = told[len(told) - late].order[1] if late else seen
        written = [self._write(n, p, record, visible, rows_max, cuts[TABLES[n]]) for n in (0, 1) for p in (0, 1)]
        settled = max(record.schemas_offset, len(told) - late)
        self.link.publish(ObjectsPlan(settled, tuple(new), ()), [part for part in written if part])

    def _items(self, seen: int) -> list[tuple[tuple[int, int] | frozenset[int], int]]:
        return [(item, order) for order, item in enumerate(self.log[:seen])]

    def _write(
        self, number: int, partition: int, record: ObjectsRecord, seen: int, rows_max: int, cuts: list[int]
    ) -> RangeWritten | None:
        orders = [order for item, order in self._items(seen) if item == (number, partition)]
        topic = f"t{number}"
        start = record.places.get((topic, partition), (0, 0))[0]
        end = min(len(orders), start + rows_max)
        if end == start:
            return None
        batches: list[Batch] = []
        for offset in range(start, end):
            order = orders[offset]
            if batches and not any(batches[-1].last_order[1] < cut <= order for cut in cuts):
                batches[-1] = replace(
                    batches[-1], end_offset=offset + 1, rows=batches[-1].rows + 1, last_order=at(order)
                )
            else:
                fields = ("db", TABLES[number], topic, partition, offset, offset + 1, 1, "path", 1, "parquet", 1)
                batches.append(Batch(*fields, at(order), at(order), 1))
        place = TopicRange("db", str(TABLES[number]), topic, partition, start, start, end, (), end == len(orders))
        return RangeWritten(place, end, tuple(batches))


def at(order: int) -> tuple[int, int, int]:
    return 1, order, 0


def announce(tables: frozenset[int], order: int) -> list[SchemaChange]:
    if tables == MOVED:
        told = SchemaChange("db", TABLES[0], "t0", "", 1, 1, PARTITIONS, at(order), SchemaChangeKind.RENAME)
        return [replace(told, moves=(Move(str(TABLES[1]), str(TABLES[0]), 1),))]
    return [
        SchemaChange("db", TABLES[n], f"t{n}", "", 1, 1, PARTITIONS, at(order), SchemaChangeKind.TRUNCATE)
        for n in sorted(tables)
    ]


@given(cases)
def test_every_row_stays_on_its_side_of_every_schema_change_and_everything_arrives(case: Case) -> None:
    world = World(case.log)
    seen = 0
    for more, late, rows_max in case.steps:
        seen = min(len(case.log), seen + more)
        world.step(seen, late, rows_max)
    # Every step moves on by a row or a schema-change event, or nothing is left.
    for _ in range(2 * len(case.log) + 2):
        world.step(len(case.log), 0, 3)

    published = [Batch.from_json(message) for message in world.publisher.committed]
    for number, table in enumerate(TABLES):
        of_table = [batch for batch in published if batch.table == table]
        orders = [order for order, item in enumerate(case.log) if item in {(number, 0), (number, 1)}]
        assert sum(batch.rows for batch in of_table) == len(orders)
        own = {frozenset({number}), frozenset({0, 1}), *([MOVED] if number == 0 else [])}
        barriers = [order for order, item in enumerate(case.log) if item in own]
        assert [batch.first_order[1] for batch in of_table if not batch.rows] == barriers
        for place, batch in enumerate(of_table):
            if not batch.rows:
                assert all(b.last_order < batch.first_order for b in of_table[:place])
                assert all(b.first_order > batch.first_order for b in of_table[place + 1 :])
    joint = [order for order, item in enumerate(case.log) if isinstance(item, frozenset) and len(item) > 1]
    told = [batch.first_order[1] for batch in published if not batch.rows]
    assert all(told[told.index(order) : told.index(order) + 2] == [order, order] for order in joint)
    for place, batch in enumerate(published):
        if batch.moves:
            assert all(b.first_order > batch.first_order for b in published[place:] if b.table == TABLES[1])
