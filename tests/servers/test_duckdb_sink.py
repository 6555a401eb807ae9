"""A DuckDB file as a target: what it takes, what it refuses, and what is left after a refusal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest

from penstock.adapters.duckdb.database import CATALOG, DuckdbLimits
from penstock.adapters.duckdb.sink import DuckdbSink
from penstock.adapters.objects.store import Objects, ObjectsSpec, open_objects
from penstock.core.batches import Batch
from penstock.core.errors import PositionError, SinkError, TableStoppedError, UnavailableError
from penstock.core.files import file_schema, object_key, render_file
from penstock.core.tables import Column, ColumnType, IntegerType, TableId, TableSchema, TextType, TimestampType
from penstock.core.warehouse.schema_text import render_schema

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "shopdb.shop.orders"
TABLE = TableId("shop", "orders")
AT_ONCE = DuckdbLimits(memory_mb=256, lock_wait_seconds=0.0)


def schema(**types: ColumnType) -> TableSchema:
    """A table with the key `id` and these nullable columns."""
    columns = [Column("id", TextType(20, "utf8mb4"), nullable=False)]
    columns += [Column(name, type_, nullable=True) for name, type_ in types.items()]
    return TableSchema(TABLE, tuple(columns), ("id",))


INT = IntegerType(32, unsigned=False)
FIRST = schema(qty=INT)
WIDER = schema(qty=IntegerType(64, unsigned=False))
OTHER = schema(title=TextType(20, "utf8mb4"))
SCHEMAS = {1: FIRST, 2: WIDER, 3: OTHER}

Change = tuple[str, str, int | None]


@dataclass(frozen=True, slots=True)
class Place:
    """A sink's file and the store its files are in."""

    path: Path
    objects: Objects

    def open(self, source: str = "shopdb") -> DuckdbSink:
        return DuckdbSink(self.path, "shop", source, self.objects, AT_ONCE)

    def batch(self, start: int, changes: list[Change], *, schema_id: int = 1, topic: str = TOPIC) -> Batch:
        """Write the file of (op, id, the other column's value) changes, and tell of it."""
        layout = file_schema(SCHEMAS[schema_id])
        rows = [dict(zip(layout.names, [key, value, op, start + n], strict=True)) for n, (op, key, value) in
                enumerate(changes)]  # fmt: skip
        content = render_file(SCHEMAS[schema_id], pa.Table.from_pylist(rows, layout))
        key = object_key("shop", "shopdb", topic, 0, (start, start + len(changes)), schema_id)
        self.objects.put(key, content)
        told = announcement(schema_id, start, topic=topic)
        return replace(told, end_offset=start + len(changes), rows=len(changes), path=key, size_bytes=len(content))


def announcement(schema_id: int, start: int = 0, *, topic: str = TOPIC) -> Batch:
    """A batch without rows; the log's order follows schema ids, then offsets."""
    order = (schema_id, start, 0)
    return Batch("shopdb", TABLE, topic, 0, start, start, 0, "", 0, "parquet", schema_id, order, order, 0)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    # The file is called like the source's schema, which DuckDB by itself would find ambiguous.
    return Place(tmp_path / "shop.duckdb", open_objects(ObjectsSpec((tmp_path / "objects").as_uri())))


def rows_in(sink: DuckdbSink, query: str = "SELECT * FROM shop.orders ORDER BY id") -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = sink._connection.execute(query).fetchall()
    return rows


def test_the_newest_change_of_each_key_counts_and_deleting_nothing_is_fine(place: Place) -> None:
    sink = place.open()

    loaded = sink.load(TABLE, [
        place.batch(0, [("c", "a", 1), ("u", "a", 2), ("c", "b", 1), ("d", "b", 1), ("d", "never", 0), ("c", "b", 5)]),
        place.batch(6, [("d", "a", 2), ("r", "c", None)]),
    ], SCHEMAS)  # fmt: skip

    assert rows_in(sink) == [("b", 5), ("c", None)]
    assert loaded.rows == 8
    assert abs(loaded.committed_at_ms - time.time() * 1000) < 60_000
    assert sink.positions(TABLE) == {(TOPIC, 0): 8}


def test_loading_again_changes_nothing(place: Place) -> None:
    batches = [place.batch(0, [("c", "a", 1)]), place.batch(1, [("u", "a", 2)])]
    sink = place.open()
    sink.load(TABLE, batches, SCHEMAS)

    again = sink.load(TABLE, batches, SCHEMAS)

    assert (again.rows, rows_in(sink)) == (0, [("a", 2)])


def test_keys_that_differ_in_case_accents_or_spaces_are_different_rows(place: Place) -> None:
    keys = ["e", "E", "é", "e\u0301", "e "]
    sink = place.open()

    sink.load(TABLE, [place.batch(0, [("c", key, 1) for key in keys]), place.batch(5, [("d", "E", 1)])], SCHEMAS)

    assert {row[0] for row in rows_in(sink)} == {"e", "é", "e\u0301", "e "}


def test_progress_is_kept_per_pipeline_and_source_and_survives(place: Place) -> None:
    sink, other = place.open(), place.open("another")
    sink.finish(17)
    other.finish(4)
    sink.finish(18)
    sink.close()
    other.close()

    sink, other = place.open(), place.open("another")

    assert (sink.batch_offset(), other.batch_offset(), place.open("third").batch_offset()) == (18, 4, 0)
    assert sink.positions(TABLE) == {}


def test_a_hole_is_refused_and_leaves_everything_as_it_was(place: Place) -> None:
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)

    with pytest.raises(PositionError, match="starts at offset 3"):
        sink.load(TABLE, [place.batch(1, [("c", "b", 1)]), place.batch(3, [("c", "c", 1)])], SCHEMAS)

    assert rows_in(sink) == [("a", 1)]
    assert sink.positions(TABLE) == {(TOPIC, 0): 1}


@pytest.mark.parametrize("spoil", ["rows", "bytes", "schema", "gone"])
def test_a_file_that_is_not_what_its_batch_says_is_refused_whole(place: Place, spoil: str) -> None:
    good, bad = place.batch(0, [("c", "a", 1)]), place.batch(1, [("c", "b", 1)])
    if spoil == "rows":
        bad = replace(bad, rows=2)
    elif spoil == "bytes":
        place.objects.put(bad.path, b"PAR1 not really PAR1")
    elif spoil == "schema":
        place.objects.put(bad.path, place.objects.get(place.batch(1, [("c", "b", None)], schema_id=3).path))
    else:
        bad = replace(bad, path="nowhere.parquet")
    sink = place.open()

    with pytest.raises(SinkError):
        sink.load(TABLE, [announcement(1), good, bad], SCHEMAS)

    assert rows_in(sink, "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'shop'") == []
    assert sink.positions(TABLE) == {}


def test_a_later_topic_takes_over_and_an_older_one_that_comes_late_undoes_nothing(place: Place) -> None:
    later = place.batch(0, [("u", "a", 2**40)], schema_id=2, topic=f"{TOPIC}.2")
    sink = place.open()

    sink.load(TABLE, [place.batch(0, [("c", "a", 1), ("c", "b", 1)]), later], SCHEMAS)
    sink.load(TABLE, [announcement(1), place.batch(2, [("u", "b", 9)])], SCHEMAS)

    assert rows_in(sink) == [("a", 2**40), ("b", 9)]
    assert rows_in(sink, "SELECT DISTINCT typeof(qty) FROM shop.orders") == [("BIGINT",)]
    assert sink.positions(TABLE) == {(TOPIC, 0): 3, (f"{TOPIC}.2", 0): 1}


def test_rows_older_than_a_column_take_the_default_it_came_with_however_late_they_are(place: Place) -> None:
    came, changed = (
        replace(FIRST, columns=(*FIRST.columns, Column("size", INT, nullable=True, default=default)))
        for default in ("4", "9")
    )
    schemas = {1: FIRST, 4: came, 5: changed}
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1)]), announcement(4), announcement(5)], schemas)

    sink.load(TABLE, [place.batch(1, [("c", "b", 1)])], schemas)

    assert rows_in(sink) == [("a", 1, 4), ("b", 1, 4)]


def test_an_announcement_makes_the_table_and_an_empty_table_can_become_any_other(place: Place) -> None:
    sink = place.open()
    sink.load(TABLE, [announcement(1)], SCHEMAS)
    assert rows_in(sink, "SELECT column_name FROM (DESCRIBE shop.orders)") == [("id",), ("qty",)]

    sink.load(TABLE, [announcement(3)], SCHEMAS)

    assert rows_in(sink, "SELECT column_name FROM (DESCRIBE shop.orders)") == [("id",), ("title",)]
    assert sink.positions(TABLE) == {}


def test_a_change_that_the_target_cannot_follow_stops_the_table_and_loses_nothing(place: Place) -> None:
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)

    with pytest.raises(TableStoppedError, match="qty went and title came in one step"):
        sink.load(TABLE, [place.batch(1, [("u", "a", 2)]), announcement(3, 2)], SCHEMAS)

    assert rows_in(sink) == [("a", 1)]
    assert sink.load(TABLE, [place.batch(1, [("u", "a", 2)])], SCHEMAS).rows == 1


def test_a_default_that_only_the_source_knows_stops_the_table(place: Place) -> None:
    computed = Column("at", TimestampType(0), nullable=False, default="now()", default_is_expression=True)
    after = replace(FIRST, columns=(*FIRST.columns, computed))
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)

    with pytest.raises(TableStoppedError, match=r"shop\.orders\.at stopped .* now\(\) is computed by the source"):
        sink.load(TABLE, [announcement(4, 1)], {4: after})


def test_a_table_of_the_same_name_that_is_not_ours_is_left_alone(place: Place) -> None:
    sink, other = place.open(), place.open("another")
    other.load(TABLE, [place.batch(0, [("c", "theirs", 1)])], SCHEMAS)

    mine = replace(FIRST, table=TableId("Shop", "ORDERS"))
    with pytest.raises(TableStoppedError, match="a table of this name that is not ours"):
        sink.load(mine.table, [announcement(1)], {1: mine})

    assert rows_in(sink) == [("theirs", 1)]


def test_a_table_that_somebody_dropped_is_not_begun_anew_unasked(place: Place) -> None:
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)
    rows_in(sink, "DROP TABLE shop.orders")

    with pytest.raises(TableStoppedError, match="somebody dropped it"):
        sink.load(TABLE, [place.batch(1, [("c", "b", 1)])], SCHEMAS)


def test_a_thousand_files_are_one_load(place: Place) -> None:
    batches = [place.batch(n * 3, [("c", f"{n:04}-{m}", n) for m in range(3)]) for n in range(1000)]
    sink = place.open()

    assert sink.load(TABLE, batches, SCHEMAS).rows == 3000
    assert rows_in(sink, "SELECT count(*), sum(qty) FROM shop.orders") == [(3000, 3 * sum(range(1000)))]


def test_a_file_that_another_process_has_is_unavailable_and_the_process_is_named(place: Place) -> None:
    place.open().close()
    holding = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", holding, str(place.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"

        with pytest.raises(UnavailableError, match=rf"is in use by process {holder.pid}"):
            place.open()

        assert holder.stdin is not None
        holder.stdin.close()
    assert place.open().batch_offset() == 0


def test_a_file_that_is_not_duckdbs_is_refused(place: Place) -> None:
    place.path.write_bytes(b"x" * 20_000)

    with pytest.raises(SinkError, match=r"shop\.duckdb"):
        place.open()


def test_a_folder_that_is_not_there_is_refused(place: Place) -> None:
    with pytest.raises(SinkError, match="cannot read or write"):
        replace(place, path=place.path.parent / "no" / "shop.duckdb").open()


# The process loads `batches` (a JSON list on its command line) one by one, and tells of each.
LOADER = """
import json, resource, signal, sys
from pathlib import Path
from penstock.adapters.duckdb.sink import DuckdbSink
from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.core.batches import Batch
from penstock.core.errors import SinkError
from penstock.core.warehouse.schema_text import parse_schema
path, objects, schema, bytes_max = sys.argv[1:5]
batches = [Batch.from_json(line) for line in sys.stdin.buffer]
sink = DuckdbSink(Path(path), "shop", "shopdb", open_objects(ObjectsSpec(objects)))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
if int(bytes_max):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(bytes_max), int(bytes_max)))
try:
    for number in range(sink.batch_offset(), len(batches)):
        sink.load(batches[number].table, [batches[number]], {1: parse_schema(schema)})
        sink.finish(number + 1)
        print(number, flush=True)
except SinkError as error:
    print(type(error).__name__, error.hint, flush=True)
    sys.exit(1)
sink.close()
"""


def start_loader(place: Place, batches: list[Batch], bytes_max: int = 0) -> subprocess.Popen[bytes]:
    arguments = [str(place.path), (place.path.parent / "objects").as_uri(), render_schema(FIRST), str(bytes_max)]
    loader = subprocess.Popen([sys.executable, "-c", LOADER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert loader.stdin is not None
    loader.stdin.write(b"\n".join(batch.to_json() for batch in batches))
    loader.stdin.close()
    return loader


def test_a_loader_killed_again_and_again_ends_with_every_row_once(place: Place) -> None:
    batches = [place.batch(n * 2, [("c", f"{n}", n), ("u", f"{n % 7}", -n)]) for n in range(50)]

    for kill_at in (3, 15):
        with start_loader(place, batches) as loader:
            assert loader.stdout is not None
            for _ in range(kill_at):
                loader.stdout.readline()
            os.kill(loader.pid, signal.SIGKILL)
    with start_loader(place, batches) as loader:
        assert loader.wait(60) == 0

    expected: dict[str, int] = {}
    for number in range(50):
        expected[str(number)] = number
        expected[str(number % 7)] = -number
    sink = place.open()
    assert rows_in(sink) == sorted(expected.items())
    assert sink.batch_offset() == 50


def test_a_disk_that_fills_up_loses_nothing(place: Place) -> None:
    """The limit of a file's size stands in for a full disk: writing the database's log fails half-way."""
    batches = [place.batch(n * 400, [("c", f"{n}-{m}", m) for m in range(400)]) for n in range(30)]

    with start_loader(place, batches, bytes_max=150_000) as limited:
        output = limited.stdout.read().decode() if limited.stdout else ""
    assert limited.returncode == 1
    assert "SinkError" in output
    with start_loader(place, batches) as loader:
        assert loader.wait(60) == 0

    assert rows_in(place.open(), "SELECT count(*), count(DISTINCT id) FROM shop.orders") == [(12_000, 12_000)]


def test_the_file_reads_as_any_duckdb_file_once_the_sink_is_closed(place: Place) -> None:
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)
    sink.close()

    assert not place.path.with_name("shop.duckdb.wal").exists()
    with duckdb.connect(str(place.path), read_only=True) as connection:
        assert connection.execute("SELECT * FROM shop.shop.orders").fetchall() == [("a", 1)]
        assert CATALOG not in {row[0] for row in connection.execute("SHOW DATABASES").fetchall()}


def test_sources_that_share_a_target_take_turns(place: Place) -> None:
    def load(source: str) -> None:
        mine = replace(FIRST, table=TableId("shop", source))
        sink = place.open(source)
        for batch in batches:
            sink.load(mine.table, [replace(batch, table=mine.table)], {1: mine})
            sink.finish(batch.end_offset)
        sink.close()

    batches = [place.batch(n, [("c", str(n), n)]) for n in range(20)]
    sources = [f"source{n}" for n in range(3)]
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(load, sources))

    sink = place.open()
    for source in sources:
        assert rows_in(sink, f"SELECT count(*) FROM shop.{source}") == [(20,)]
        assert place.open(source).batch_offset() == 20
