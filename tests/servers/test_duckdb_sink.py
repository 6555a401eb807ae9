"""A DuckDB file as a target: what is special about it. What all kinds have in common is in test_sink_contract."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb
import pytest
from tests.servers.sink_case import (
    FIRST,
    OTHER,
    SCHEMAS,
    TABLE,
    DuckdbTarget,
    Place,
    rows_in,
    schema_change,
    write_batch,
)

from penstock.adapters.duckdb.database import CATALOG, DuckdbLimits, explain
from penstock.adapters.duckdb.warehouse import DuckdbWarehouse
from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.core.errors import SinkError, TableStoppedError, UnavailableError
from penstock.core.tables import TableId
from penstock.core.warehouse.schema_text import render_schema
from penstock.links.warehouse.sink import SqlSink

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.core.batches import Batch


@pytest.fixture
def path(tmp_path: Path) -> Path:
    # The file is called like the source's schema, which DuckDB by itself would find ambiguous.
    return tmp_path / "shop.duckdb"


@pytest.fixture
def place(path: Path) -> Place:
    return Place(DuckdbTarget(path), open_objects(ObjectsSpec((path.parent / "objects").as_uri())))


def test_a_table_whose_name_differs_in_case_is_the_same_table(place: Place) -> None:
    sink, other = place.open(), place.open("another")
    other.load(TABLE, [place.batch(0, [("c", "theirs", 1)])], SCHEMAS)

    mine = replace(FIRST, table=TableId("Shop", "ORDERS"))
    with pytest.raises(TableStoppedError, match="a table of this name that Penstock did not make"):
        sink.load(mine.table, [schema_change(1)], {1: mine})

    assert rows_in(sink) == [("theirs", 1)]


@pytest.mark.nightly
def test_values_that_do_not_fit_into_memory_together_are_loaded_one_after_the_other(place: Place, path: Path) -> None:
    # DuckDB holds values of more than a block until the COMMIT. These are small in their files.
    batches = [write_batch(place, OTHER, 3, n, [(f"k{n}", "x" * (1 << 20), "c")]) for n in range(60)]
    with closing(SqlSink(DuckdbWarehouse(path, DuckdbLimits(memory_mb=40)), "shop", "shopdb", place.objects)) as sink:
        loaded = sink.load(TABLE, batches, SCHEMAS)

    with duckdb.connect(str(path), read_only=True) as connection:
        lengths = connection.execute("SELECT length(title), count(*) FROM shop.shop.orders GROUP BY 1").fetchall()
    assert (loaded.rows, lengths) == (60, [(1 << 20, 60)])


def test_a_file_that_broke_for_lack_of_memory_is_no_large_transaction(path: Path) -> None:
    said = "FATAL Error: the database has been invalidated because of a fatal error: failed to pin block of size 1 MiB"

    assert type(explain(path, duckdb.FatalException(said))) is SinkError


def test_a_file_that_another_process_has_is_unavailable_and_the_process_is_named(place: Place, path: Path) -> None:
    place.open().close()
    holding = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", holding, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"

        with pytest.raises(UnavailableError, match=rf"is in use by process {holder.pid}"):
            place.open()

        assert holder.stdin is not None
        holder.stdin.close()
    assert place.open().batch_offset() == 0


def test_a_file_that_is_not_duckdbs_is_refused(place: Place, path: Path) -> None:
    path.write_bytes(b"x" * 20_000)

    with pytest.raises(SinkError, match=r"shop\.duckdb"):
        place.open()


def test_a_folder_that_is_not_there_is_refused(place: Place, path: Path) -> None:
    with pytest.raises(SinkError, match="cannot read or write"):
        Place(DuckdbTarget(path.parent / "no" / "shop.duckdb"), place.objects).open()


# The process loads `batches` (a JSON list on its command line) one by one, and tells of each.
LOADER = """
import json, resource, signal, sys
from pathlib import Path
from penstock.adapters.duckdb.warehouse import DuckdbWarehouse
from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.core.batches import Batch
from penstock.core.errors import SinkError
from penstock.core.warehouse.schema_text import parse_schema
from penstock.links.warehouse.sink import SqlSink
path, objects, schema, bytes_max = sys.argv[1:5]
batches = [Batch.from_json(line) for line in sys.stdin.buffer]
sink = SqlSink(DuckdbWarehouse(Path(path)), "shop", "shopdb", open_objects(ObjectsSpec(objects)))
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


def start_loader(path: Path, batches: list[Batch], bytes_max: int = 0) -> subprocess.Popen[bytes]:
    arguments = [str(path), (path.parent / "objects").as_uri(), render_schema(FIRST), str(bytes_max)]
    loader = subprocess.Popen([sys.executable, "-c", LOADER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert loader.stdin is not None
    loader.stdin.write(b"\n".join(batch.to_json() for batch in batches))
    loader.stdin.close()
    return loader


@pytest.mark.nightly
def test_a_loader_killed_again_and_again_ends_with_every_row_once(place: Place, path: Path) -> None:
    batches = [place.batch(n * 2, [("c", f"{n}", n), ("u", f"{n % 7}", -n)]) for n in range(50)]

    for kill_at in (3, 15):
        with start_loader(path, batches) as loader:
            assert loader.stdout is not None
            for _ in range(kill_at):
                loader.stdout.readline()
            os.kill(loader.pid, signal.SIGKILL)
    with start_loader(path, batches) as loader:
        assert loader.wait(60) == 0

    expected: dict[str, int] = {}
    for number in range(50):
        expected[str(number)] = number
        expected[str(number % 7)] = -number
    sink = place.open()
    assert rows_in(sink) == sorted(expected.items())
    assert sink.batch_offset() == 50


@pytest.mark.nightly
def test_a_disk_that_fills_up_loses_nothing(place: Place, path: Path) -> None:
    """The limit of a file's size stands in for a full disk: writing the database's log fails half-way."""
    batches = [place.batch(n * 400, [("c", f"{n}-{m}", m) for m in range(400)]) for n in range(30)]

    with start_loader(path, batches, bytes_max=150_000) as limited:
        output = limited.stdout.read().decode() if limited.stdout else ""
    assert limited.returncode == 1
    assert "SinkError" in output
    with start_loader(path, batches) as loader:
        assert loader.wait(60) == 0

    assert rows_in(place.open(), "SELECT count(*), count(DISTINCT id) FROM shop.orders") == [(12_000, 12_000)]


def test_the_file_reads_as_any_duckdb_file_once_the_sink_is_closed(place: Place, path: Path) -> None:
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)
    sink.close()

    assert not path.with_name("shop.duckdb.wal").exists()
    with duckdb.connect(str(path), read_only=True) as connection:
        assert connection.execute("SELECT * FROM shop.shop.orders").fetchall() == [("a", 1)]
        assert CATALOG not in {row[0] for row in connection.execute("SHOW DATABASES").fetchall()}


def test_ctrl_c_while_duckdb_works_is_ctrl_c(place: Place) -> None:
    product = "SELECT count(*) FROM range(300000) a, range(300000) b WHERE (a.range * b.range) % 7 = 3"
    interrupt = threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT])
    sink = place.open()

    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        rows_in(sink, product)
