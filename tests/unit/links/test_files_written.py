"""Messages of a topic become files, and what is told of each is all that a reader needs."""

from __future__ import annotations

import resource
import signal
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.links.conftest import MemoryTopics

from penstock.adapters.objects.store import Objects, ObjectsSpec, open_objects
from penstock.core.arrow_types import arrow_schema
from penstock.core.avro.envelope_encode import EncodableTable, encode_changes
from penstock.core.avro.schemas import value_schema
from penstock.core.batches import Batch
from penstock.core.changes import Op, RowBatch
from penstock.core.errors import SinkError
from penstock.core.file_formats import PARQUET, FileFormat, parse_batch_file
from penstock.core.tables import Column, IntegerType, TableId, TableSchema, TextType
from penstock.links.batch_files import read_content
from penstock.links.objects.plan import ObjectsPlanner
from penstock.links.objects.publish import BatchPublisher
from penstock.links.objects.record import ObjectsRecord
from penstock.links.objects.write import FileRules, FileWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.unit.links.conftest import MemoryPublisher

    from penstock.links.objects.plan import ObjectsPlan
    from penstock.links.objects.write import RangeWritten
    from penstock.ports.registry import RegisteredTable
    from penstock.ports.topics import Fetched

ID = Column("id", IntegerType(64, unsigned=False), nullable=False)
USERS = TableSchema(TableId("shop", "users"), (ID, Column("name", TextType(200, "utf8mb4"), nullable=True)), ("id",))
WIDER = replace(USERS, columns=(*USERS.columns, Column("age", IntegerType(8, unsigned=True), nullable=True)))
SCHEMAS = {1: USERS, 2: WIDER}
FORMATS = [PARQUET, FileFormat("csv", "zstd"), FileFormat("csv", "gzip")]


class MemoryRegistry:
    """The schemas above, by id."""

    def register(self, source: str, schema: TableSchema) -> RegisteredTable:
        raise AssertionError((source, schema))

    def value_schema(self, schema_id: int) -> str:
        return value_schema(SCHEMAS[schema_id])

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return open_objects(ObjectsSpec((tmp_path / "objects").as_uri()))


def create(topics: MemoryTopics, schema_id: int, *names: str, partition: int = 0) -> None:
    """Append a created row for each name, behind what is there."""
    schema, start = SCHEMAS[schema_id], len(topics.values["t", partition])
    rows = [{"id": start + number, "name": name} for number, name in enumerate(names)]
    after = pa.RecordBatch.from_pylist(rows, arrow_schema(USERS))
    if schema_id == 2:
        after = pa.RecordBatch.from_arrays([*after.columns, pa.nulls(len(rows), pa.uint8())], ["id", "name", "age"])
    numbers = np.arange(start, start + len(rows), dtype=np.int64)
    batch = RowBatch(
        schema, Op.CREATE, None, after, "bin.000001", numbers * 100 + 4, np.zeros(len(rows), np.int32),
        numbers + 1_700_000_000_000, pa.array([""] * len(rows), pa.string()), 1,
    )  # fmt: skip
    _, values = encode_changes(EncodableTable("db", "mysql", schema, 1, schema_id), batch, 5)
    topics.values["t", partition].extend(value for value in values.to_pylist() if value is not None)


def write(
    topics: MemoryTopics, objects: Objects, rules: FileRules, record: ObjectsRecord | None = None
) -> tuple[ObjectsPlan, list[RangeWritten]]:
    plan = ObjectsPlanner(topics, "schemas", "eras").plan(record or ObjectsRecord())
    return plan, list(FileWriter("shop", topics, MemoryRegistry(), objects, rules).write(plan.ranges))


def told(publisher: MemoryPublisher) -> list[Batch]:
    return [batch for batch in map(Batch.from_json, publisher.committed) if batch.rows]


@pytest.mark.parametrize("format_", FORMATS)
def test_a_file_is_closed_by_its_rows_and_by_a_new_schema_and_its_message_tells_all(
    topics: MemoryTopics, publisher: MemoryPublisher, objects: Objects, format_: FileFormat
) -> None:
    topics.announce(0, "t")
    create(topics, 1, *"abcde")
    create(topics, 2, "f")

    BatchPublisher(publisher, "batches", 1).publish(*write(topics, objects, FileRules(format_, rows_max=2)))

    batches = told(publisher)
    assert [(b.start_offset, b.end_offset, b.rows, b.schema_id) for b in batches] == [
        (0, 2, 2, 1), (2, 4, 2, 1), (4, 5, 1, 1), (5, 6, 1, 2)
    ]  # fmt: skip
    for batch in batches:
        name = f"{batch.start_offset:020d}-{batch.end_offset:020d}-{batch.schema_id}.{format_.ending}"
        content = objects.get(batch.path)
        assert (batch.source, str(batch.table), batch.topic, batch.partition) == ("db", "shop.users", "t", 0)
        assert batch.path == f"shop/db/t/0/{name}"
        assert (batch.format, batch.compression) == (format_.name, format_.compression)
        assert (batch.dialect is not None) == (format_.name == "csv")
        assert (batch.size_bytes, batch.crc32) == (len(content), zlib.crc32(content))
        assert batch.written_at_ms > 1_700_000_000_000
    rows = [row for b in batches for row in parse_batch_file(SCHEMAS[b.schema_id], b, objects.get(b.path)).to_pylist()]
    assert [row["name"] for row in rows] == list("abcdef")
    assert [row["__penstock_op"] for row in rows] == ["c"] * 6
    assert [row["__penstock_offset"] for row in rows] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("format_", FORMATS)
def test_a_small_file_is_in_its_message_and_a_larger_one_in_the_store(
    topics: MemoryTopics, publisher: MemoryPublisher, objects: Objects, format_: FileFormat
) -> None:
    topics.announce(0, "t")
    create(topics, 1, "a", "b")
    create(topics, 2, *(f"{number**9}" for number in range(40)))
    create(topics, 1, "c")

    BatchPublisher(publisher, "batches", 1).publish(*write(topics, objects, FileRules(format_, inline_bytes_max=200)))

    batches = told(publisher)
    assert [(b.rows, b.content is None, b.is_stored) for b in batches] == [
        (2, False, False), (40, True, True), (1, False, False)
    ]  # fmt: skip
    assert objects.list("shop") == [batches[1].path]
    assert batches[1].format == format_.name
    read = [parse_batch_file(SCHEMAS[b.schema_id], b, read_content(objects, b)).to_pylist() for b in batches]
    assert [row["name"] for rows in read for row in rows] == ["a", "b", *(f"{n**9}" for n in range(40)), "c"]


def test_a_file_of_just_the_largest_size_is_in_its_message(topics: MemoryTopics, objects: Objects) -> None:
    topics.announce(0, "t")
    create(topics, 1, *(f"{number**9}" for number in range(40)))
    (measured,) = write(topics, objects, FileRules(FileFormat("csv")))[1][0].batches

    rules = [FileRules(inline_bytes_max=measured.size_bytes + more) for more in (-1, 0)]
    written = [write(topics, objects, each)[1][0].batches for each in rules]

    assert [[batch.is_stored for batch in batches] for batches in written] == [[True], [False]]


def test_a_file_is_closed_by_its_bytes_and_the_next_goes_on_behind_it(
    topics: MemoryTopics, publisher: MemoryPublisher, objects: Objects
) -> None:
    topics.announce(0, "t")
    create(topics, 1, *("x" * 100 for _ in range(10)))
    link, rules = BatchPublisher(publisher, "batches", 1), FileRules(bytes_max=300)

    while (work := write(topics, objects, rules, link.record))[0].ranges:
        link.publish(*work)

    batches = told(publisher)
    assert [batch.start_offset for batch in batches[1:]] == [batch.end_offset for batch in batches[:-1]]
    assert (sum(batch.rows for batch in batches), len(batches) >= 4) == (10, True)
    assert 100 < link.record.message_bytes["t"] < 300


class WeighedTopics(MemoryTopics):
    """Topics that know how many bytes of their messages are not in files yet, and how many were so at most."""

    held = most = 0

    def read_together(
        self, ranges: Mapping[tuple[str, int], tuple[int, int]], bytes_max: int
    ) -> Iterator[tuple[tuple[str, int], Fetched]]:
        for place, fetched in super().read_together(ranges, bytes_max):
            self.held += fetched.size_bytes
            self.most = max(self.most, self.held)
            yield place, fetched


def test_ranges_with_larger_messages_than_were_known_are_not_held_all_at_once(
    publisher: MemoryPublisher, objects: Objects
) -> None:
    topics, link = WeighedTopics(), BatchPublisher(publisher, "batches", 1)
    topics.announce(0, "t", partitions=12)
    for partition in range(12):
        create(topics, 1, *("x" * 4_000 for _ in range(2)), partition=partition)
    rules = FileRules(bytes_max=10_000)

    for _ in range(24):
        plan = ObjectsPlanner(topics, "schemas", "eras").plan(link.record)
        topics.held, written = 0, []
        for each in FileWriter("shop", topics, MemoryRegistry(), objects, rules).write(plan.ranges):
            topics.held -= each.message_bytes * sum(batch.rows for batch in each.batches)
            written.append(each)
        link.publish(plan, written)
        if not plan.ranges:
            break

    assert rules.held_bytes_max - 5_000 < topics.most < rules.held_bytes_max + 5_000
    for partition in range(12):
        batches = [batch for batch in told(publisher) if batch.partition == partition]
        assert [batch.start_offset for batch in batches[1:]] == [batch.end_offset for batch in batches[:-1]]
        assert sum(batch.rows for batch in batches) == 2


@pytest.mark.parametrize("format_", FORMATS)
def test_a_file_without_its_message_is_written_again_with_the_same_key_and_bytes(
    topics: MemoryTopics, publisher: MemoryPublisher, objects: Objects, format_: FileFormat
) -> None:
    topics.announce(0, "t")
    create(topics, 1, "a", "b")
    rules = FileRules(format_)
    write(topics, objects, rules)
    before = {key: objects.get(key) for key in objects.list("shop")}

    link = BatchPublisher(publisher, "batches", 1)
    link.publish(*write(topics, objects, rules, link.record))

    assert {key: objects.get(key) for key in objects.list("shop")} == before
    assert [batch.path for batch in told(publisher)] == list(before)
    restarted = ObjectsRecord.from_mapping(publisher.records[-1])
    assert write(topics, objects, rules, restarted)[0].ranges == ()


@pytest.fixture
def full_disk() -> Iterator[type[AbstractContextManager[None]]]:
    """A limit on how large a file of this process may get stands in for a full disk: the write fails half-way."""
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    class FullDisk:
        def __enter__(self) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))

        def __exit__(self, *_: object) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    yield FullDisk
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("format_", FORMATS)
def test_a_full_disk_leaves_offsets_where_they_are_and_the_next_try_succeeds(
    topics: MemoryTopics,
    publisher: MemoryPublisher,
    objects: Objects,
    format_: FileFormat,
    full_disk: type[AbstractContextManager[None]],
) -> None:
    topics.announce(0, "t")
    create(topics, 1, *(f"name {number} {number**9}" for number in range(50)))
    link, rules = BatchPublisher(publisher, "batches", 1), FileRules(format_)

    with full_disk(), pytest.raises(SinkError) as raised:
        write(topics, objects, rules, link.record)
    left = objects.list("shop")
    link.publish(*write(topics, objects, rules, link.record))

    assert "free some space on that disk" in raised.value.hint
    assert left == []
    assert [batch.rows for batch in told(publisher)] == [50]
