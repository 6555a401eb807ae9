"""The kernel of joins, on Spark: its differences are those of the algebra, and its state outlives a restart."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors.exceptions import captured
from tests.servers.kinds import first
from tests.unit.joins.joined_notes import WHOLE, Joined
from tests.unit.joins.joined_streams import Streams, completed, random_plan, table_of

from penstock.core.changes import Op
from penstock.core.joins.algebra import JoinState
from penstock.core.joins.blocks import BUCKETS, pack_events, unpack_differences
from penstock.core.joins.completing import RowCompleter
from penstock.core.joins.inputs import JoinInput
from penstock.core.joins.keys import key_bytes
from penstock.core.joins.shown_keys import split_key
from penstock.core.tables import Column, IntegerType, TextType
from penstock.jobs.join_tasks import CompletedPacker
from penstock.links.joins.spec import JoinJob
from penstock.spark.join_kernel import BLOCKS, completed_blocks, join_blocks, run_blocks, stateful_session
from penstock.spark.join_state import JoinStateReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NUMBER, TEXT = IntegerType(64, unsigned=False), TextType(20, "utf8mb4")
BATCHES = 5
PAGE_BYTES = 64


def streams_of(seed: int, *, remembered: bool, optional: bool, partial: bool = False) -> Streams:
    """Three inputs, large enough for pages; the keys of one tell its join keys, or those of all do.

    Where two are `optional`, rows of the first come with null join keys, too. Rows of two
    may lack columns where they are `partial`.
    """
    rng = Random(seed)  # noqa: S311 - what it makes is no secret
    columns = (
        Column("id", NUMBER, nullable=False),
        Column("k", NUMBER, nullable=optional and remembered),
        Column("word", TEXT, nullable=True),
    )
    keys = [("k",), ("id",) if remembered else ("id", "k"), ("id", "k")]
    if optional and remembered:
        keys = [("id",)] * 3
    aliases = [(("id", f"i{i}"), ("word", f"w{i}")) for i in range(3)]
    inputs = [
        JoinInput(
            f"db.shop.t{i}",
            replace(table_of(i, columns, key), partial_rows=partial and i < 2),
            ("k",),
            (),
            aliases[i],
            is_optional=optional and i > 0,
        )
        for i, key in enumerate(keys)
    ]
    return Streams(
        rng,
        inputs,
        random_plan(rng, inputs),
        values=24 if optional and remembered else 12,
        truncates=0.002,
        deletes=0.1,
    )


def run_query(spark: SparkSession, home: Path, streams: Streams) -> list[pa.Table]:
    """The differences of each micro-batch that the files below `home` are."""
    found: dict[int, pa.Table] = {}

    def take(frame: DataFrame, batch: int) -> None:
        names = [f"{when}{index}" for when in "ba" for index in range(len(streams.inputs))]
        nothing = pa.schema([(name, pa.binary()) for name in names]).empty_table()
        blocks = run_blocks(frame, home / "differences")
        found[batch] = pa.concat_tables([nothing, *unpack_differences(blocks, len(streams.inputs))])

    source = stateful_session(spark).readStream.schema(BLOCKS).option("maxFilesPerTrigger", 1)
    events, plan = source.parquet(str(home / "in")), streams.plan
    if plan.partial:
        job = JoinJob("joined", plan, (), "schemas")
        events = completed_blocks(events, plan.partial).mapInArrow(CompletedPacker(job), BLOCKS)
    joined = join_blocks(events, len(plan.inputs), plan.remembered, PAGE_BYTES, optional=plan.optional)
    writer = joined.writeStream.option("checkpointLocation", str(home / "checkpoint")).foreachBatch(take)
    writer.trigger(availableNow=True).start().awaitTermination()
    return [found[batch] for batch in sorted(found)]


def write_blocks(home: Path, number: int, streams: Streams, events: list[pa.RecordBatch]) -> None:
    by = "row_key" if streams.plan.remembered or streams.plan.partial else "join_key"
    pairs = list(pack_events(events, by))
    columns: dict[str, pa.Array[Any]] = {
        "bucket": pa.array([b for b, _ in pairs], pa.int32()),
        "block": pa.array([b for _, b in pairs], pa.binary()),
    }
    (home / "in").mkdir(exist_ok=True)
    file = home / "in" / f"{number}.parquet"
    pq.write_table(pa.table(columns), file)
    os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def gone_and_new(differences: pa.Table) -> list[Counter[tuple[bytes, ...]]]:
    """The joined rows that are not there any more, and those that were not: a row that only moved is neither."""
    n = differences.num_columns // 2
    rows = [tuple(row.values()) for row in differences.to_pylist()]
    before = Counter(row[:n] for row in rows if row[0] is not None)
    after = Counter(row[n:] for row in rows if row[n] is not None)
    return [before - after, after - before]


@pytest.mark.parametrize(
    ("remembered", "optional", "partial"),
    first(
        1,
        (True, True, True),
        (True, True, False),
        (True, False, True),
        (True, False, False),
        (False, True, True),
        (False, True, False),
        (False, False, False),
    ),
)
def test_the_kernel_finds_the_differences_that_the_algebra_finds(
    spark: SparkSession, tmp_path: Path, *, remembered: bool, optional: bool, partial: bool
) -> None:
    streams = streams_of(3, remembered=remembered, optional=optional, partial=partial)
    completer, state = RowCompleter(streams.plan), JoinState(3, streams.plan.optional)
    assert bool(streams.plan.remembered) is remembered
    expected = []
    for batch in range(BATCHES):
        for _ in range(200):
            streams.change()
        events = streams.read_some(0.8)
        write_blocks(tmp_path, batch, streams, events)
        expected.append(state.apply(completed(completer, events)))
    assert sum(map(len, expected)) > 100
    assert streams.heard
    lacking = [each for messages in streams.read.values() for each in messages if each.lacks]
    assert (len(lacking) > 10) is partial

    # The second query goes on with the state of the first.
    last = (tmp_path / "in" / f"{BATCHES - 1}.parquet").rename(tmp_path / "last.parquet")
    found = run_query(spark, tmp_path, streams)
    last.rename(tmp_path / "in" / f"{BATCHES - 1}.parquet")
    found += run_query(spark, tmp_path, streams)

    assert len(found) == BATCHES
    for mine, theirs in zip(found, expected, strict=True):
        assert gone_and_new(mine) == gone_and_new(theirs)


@pytest.mark.nightly
def test_many_changes_of_large_rows_are_a_row_each_and_a_block_each(spark: SparkSession, tmp_path: Path) -> None:
    joined, large, found = Joined(), "x" * (5 << 20), dict[int, list[int]]()
    row_keys = key_bytes([pa.array(range(500))]).to_pylist()
    in_one_bucket = [number for number, key in enumerate(row_keys) if crc32(key or b"") % BUCKETS == 0][:3]
    rows = [WHOLE | {"id": number} for number in in_one_bucket]
    plan = joined.job.plan
    streams = Streams(Random(1), [], plan)  # noqa: S311 - not asked
    write_blocks(tmp_path, 0, streams, [joined.decoded(0, Op.READ, row | {"text": large}, ())[0] for row in rows])
    updates = [joined.decoded(0, Op.UPDATE, row | {"shop": n}, ("text",))[0] for n in range(20) for row in rows]
    write_blocks(tmp_path, 1, streams, updates)

    def take(frame: DataFrame, batch: int) -> None:
        found[batch] = [row[0] for row in frame.selectExpr("length(block)").collect()]

    source = stateful_session(spark).readStream.schema(BLOCKS).option("maxFilesPerTrigger", 1)
    whole = completed_blocks(source.parquet(str(tmp_path / "in")), plan.partial)
    writer = whole.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).foreachBatch(take)
    writer.trigger(availableNow=True).start().awaitTermination()

    assert [len(sizes) for sizes in found.values()] == [3, 3]
    assert all(len(large) < size < len(large) + 1000 for sizes in found.values() for size in sizes)


def test_a_micro_batch_ends_without_an_exception_of_java(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark asks Java for each kind of exception by name, fourteen times, which costs more than to plan the query."""
    told: list[object] = []
    monkeypatch.setattr(captured, "convert_exception", told.append)
    streams = streams_of(10, remembered=True, optional=False)
    for _ in range(100):
        streams.change()
    write_blocks(tmp_path, 0, streams, streams.read_some(1.0))

    found = run_query(spark, tmp_path, streams)

    assert len(found) == 1
    assert len(found[0])
    assert not told


def write_file(spark: SparkSession, file: Path) -> tuple[int, bool]:
    """Write a file as Spark writes those of a checkpoint; its permissions, and whether processes were started."""
    jvm: Any = spark._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    stat = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/stat")
    before = pages_of_ended_children(stat)
    path = jvm.org.apache.hadoop.fs.Path(str(file))
    manager = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.create(
        path.getParent(), conf
    )
    stream = manager.createAtomic(path, False)  # noqa: FBT003 - Java has no names of arguments
    stream.write(bytearray(b"abc"))
    stream.close()
    return file.stat().st_mode, pages_of_ended_children(stat) > before


def pages_of_ended_children(stat: Path) -> int:
    """Source: proc(5), cminflt."""
    return int(stat.read_text().rpartition(")")[2].split()[8])


def test_files_of_a_state_are_as_hadoop_makes_them_and_no_process_is_started_for_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    theirs, starts_some = write_file(spark.newSession(), tmp_path / "theirs")
    ours, starts_any = write_file(stateful_session(spark), tmp_path / "ours")

    assert ours == theirs
    assert (starts_some, starts_any) == (True, False)
    assert (tmp_path / ".ours.crc").read_bytes() == (tmp_path / ".theirs.crc").read_bytes()
    assert (tmp_path / "ours").read_bytes() == b"abc"


@pytest.mark.nightly
def test_a_state_that_is_read_from_outside_has_the_rows_that_were_read(spark: SparkSession, tmp_path: Path) -> None:
    home = tmp_path / "a home"
    home.mkdir()
    streams = streams_of(16, remembered=True, optional=False)
    for batch in range(2):
        for _ in range(300):
            streams.change()
        write_blocks(home, batch, streams, streams.read_some(1.0))
    run_query(spark, home, streams)
    tables = list(streams.tables())
    hottest = Counter((index, row["k"]) for index, table in enumerate(tables) for row in table.to_pylist())

    reader = JoinStateReader(spark, home / "checkpoint")
    contents = reader.contents(3, 1)
    (top,) = contents.hottest
    rows = reader.rows(streams.plan, top.join_key, 1000)
    assert_result(reader, streams, tmp_path)

    assert [each.rows for each in contents.inputs] == [len(table) for table in tables]
    assert contents.remembered == len(tables[1])
    assert top.rows == max(hottest.values())
    key = int(split_key(top.join_key)[0])
    assert Counter(row.input for row in rows) == Counter({i: n for (i, k), n in hottest.items() if k == key})
    words = sorted(repr(row["word"]) for table in tables for row in table.to_pylist() if row["k"] == key)
    assert sorted(repr(row.values["word"]) for row in rows) == words
    assert contents.disk_bytes > 1000


def assert_result(reader: JoinStateReader, streams: Streams, folder: Path) -> None:
    """A whole state has the joined rows that the algebra has of all that was read."""
    plan = streams.plan
    expected = JoinState(len(plan.inputs), plan.optional).apply(streams.everything())
    found = pa.concat_tables(reader.result(plan, folder / "result"))
    assert len(expected) > 10
    assert gone_and_new(found) == gone_and_new(expected)


@pytest.mark.nightly
def test_all_joined_rows_of_a_state_are_read_with_those_that_have_no_match(spark: SparkSession, tmp_path: Path) -> None:
    streams = streams_of(10, remembered=True, optional=True)
    streams.truncates = 0.0
    for batch in range(2):
        for _ in range(300):
            streams.change()
        write_blocks(tmp_path, batch, streams, streams.read_some(1.0))
    run_query(spark, tmp_path, streams)

    assert_result(JoinStateReader(spark, tmp_path / "checkpoint"), streams, tmp_path)
