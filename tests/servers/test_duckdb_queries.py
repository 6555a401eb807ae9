"""A DuckDB target answers queries while the pipeline has it open, and when nobody has."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.commands import Said, run_command

from penstock.adapters.duckdb import query_server
from penstock.adapters.duckdb.audited import AuditedDuckdb
from penstock.adapters.duckdb.database import DuckdbLimits
from penstock.adapters.duckdb.query import query
from penstock.adapters.duckdb.query_server import QueryServer
from penstock.adapters.duckdb.query_wire import ServerAddress, read_run_file, receive, run_file, send, write_run_file
from penstock.adapters.duckdb.warehouse import DuckdbWarehouse
from penstock.core.errors import PenstockError, SinkError, UnavailableError, UsageError
from penstock.ports.queries import QueryResult, ReadLimits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIG = """
pipeline: shop
home: ./home
sources:
  - {name: shopdb, kind: mysql, host: 127.0.0.1, port: 3306, user: cdc, password_env: SHOPDB, tables: ["shop.*"]}
sinks:
  - {name: warehouse, kind: duckdb, path: ./shop.duckdb}
links: [{from: shopdb, to: warehouse}]
"""
# Another process asks for the sum, which no load changes, as long as its input is open.
ASKER = """
import sys, threading
from pathlib import Path
from penstock.adapters.duckdb.query import query
path, run_file = map(Path, sys.argv[1:])
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
while not ended.is_set():
    rows = query(path, run_file, "SELECT count(*) AS n, sum(amount) AS total FROM shop.accounts").rows
    print(*rows.to_pylist()[0].values(), flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.duckdb"


@pytest.fixture
def told_at(tmp_path: Path) -> Path:
    return run_file(tmp_path / "home", "warehouse")


@pytest.fixture
def sink(path: Path) -> Iterator[DuckdbWarehouse]:
    """A target with a table of 100 accounts, which hold 100 each."""
    sink = DuckdbWarehouse(path, DuckdbLimits(memory_mb=256))
    run(sink, "CREATE SCHEMA shop")
    run(sink, "CREATE TABLE shop.accounts AS SELECT range AS id, 100 AS amount FROM range(100)")
    yield sink
    sink.close()


def run(sink: DuckdbWarehouse, *statements: str) -> None:
    for statement in statements:
        sink._connection.execute(statement).fetchall()


def rows(result: QueryResult) -> list[dict[str, object]]:
    found: list[dict[str, object]] = result.rows.to_pylist()
    return found


@pytest.fixture(params=["running", "ended"])
def target(request: pytest.FixtureRequest, sink: DuckdbWarehouse, path: Path, told_at: Path) -> tuple[Path, Path]:
    """The same target while the pipeline runs and after it has ended."""
    if request.param == "running":
        sink.serve_queries(told_at)
    else:
        sink.close()
    return path, told_at


@pytest.mark.parametrize(
    ("statement", "first"),
    [
        ("SELECT count(*) AS n FROM shop.accounts", {"n": 100}),
        ("FROM shop.accounts ORDER BY id", {"id": 0, "amount": 100}),
        ("WITH a AS (SELECT 1 AS x) SELECT x FROM a", {"x": 1}),
        ("SELECT name FROM (SHOW ALL TABLES) WHERE schema = 'shop'", {"name": "accounts"}),
        ("SELECT column_name FROM (DESCRIBE shop.accounts)", {"column_name": "id"}),
        ("SELECT CAST(TIMESTAMPTZ '2024-01-01 00:00:00+00' AS VARCHAR) AS t", {"t": "2024-01-01 00:00:00+00"}),
    ],
)
def test_a_target_answers_whether_the_pipeline_runs_or_not(
    target: tuple[Path, Path], statement: str, first: dict[str, object]
) -> None:
    assert rows(query(*target, statement))[0] == first


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM shop.accounts",
        "WITH gone AS (DELETE FROM shop.accounts RETURNING *) FROM gone",
        "EXPLAIN ANALYZE DELETE FROM shop.accounts",
        "CREATE TABLE shop.mine AS SELECT 1",
        "COPY shop.accounts TO '/dev/null'",
        "ATTACH ':memory:' AS other",
        "SET memory_limit = '1GB'",
        "CHECKPOINT",
        "BEGIN; SELECT 1",
        "SELECT 1; DROP TABLE shop.accounts",
        "",
        "SELEC",
        "SELECT * FROM shop.nothing",
        "SELECT error('as asked')",
    ],
)
def test_what_does_not_read_or_is_wrong_is_refused_and_changes_nothing(
    target: tuple[Path, Path], statement: str
) -> None:
    with pytest.raises(UsageError):
        query(*target, statement)

    assert rows(query(*target, "SELECT sum(amount) AS total FROM shop.accounts")) == [{"total": 10_000}]


def test_long_results_are_cut_and_say_so(target: tuple[Path, Path]) -> None:
    cut = query(*target, "FROM range(5000)", ReadLimits(rows_max=3000))
    whole = query(*target, "FROM range(3000)", ReadLimits(rows_max=3000))
    wide = query(*target, "SELECT repeat('x', 1_000_000) AS x FROM range(3000)")

    assert (cut.rows.num_rows, cut.truncated) == (3000, True)
    assert (whole.rows.num_rows, whole.truncated) == (3000, False)
    assert wide.truncated


def test_a_query_without_end_is_ended(target: tuple[Path, Path]) -> None:
    started = time.monotonic()

    with pytest.raises(SinkError, match="ended after 1 seconds"):
        query(*target, "SELECT sum(a.range * b.range) FROM range(10_000_000) a, range(10_000_000) b",
              ReadLimits(seconds_max=1.0))  # fmt: skip

    assert time.monotonic() - started < 20


def test_an_audit_may_take_longer_than_other_queries_of_a_running_pipeline(
    sink: DuckdbWarehouse, path: Path, told_at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_server, "_DEFAULTS", ReadLimits(seconds_max=0.02))
    statement = "SELECT sum(strlen(sha256(CAST(range AS VARCHAR)))) FROM range(300_000)"

    sink.serve_queries(told_at)
    found = AuditedDuckdb(path, told_at).fetch(statement)

    assert found == [(300_000 * 64,)]


def test_nobody_who_asks_a_running_pipeline_gets_more_time_than_it_gives(
    sink: DuckdbWarehouse, path: Path, told_at: Path
) -> None:
    server = QueryServer(sink._connection, told_at, seconds_max=0.02)

    with closing(server), pytest.raises(SinkError, match=r"ended after 0\.02 seconds"):
        AuditedDuckdb(path, told_at).fetch("SELECT sum(a.range) FROM range(10_000_000) a, range(10_000_000) b")


def test_queries_of_another_process_see_whole_commits_while_loads_go_on(
    sink: DuckdbWarehouse, path: Path, told_at: Path
) -> None:
    sink.serve_queries(told_at)
    with subprocess.Popen(
        [sys.executable, "-c", ASKER, str(path), str(told_at)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as asker:
        assert asker.stdout is not None
        assert asker.stdin is not None
        seen = [asker.stdout.readline()]

        for number in range(100):
            run(
                sink,
                "BEGIN TRANSACTION",
                f"DELETE FROM shop.accounts WHERE id = {number}",
                f"ALTER TABLE shop.accounts ADD COLUMN c{number} INTEGER DEFAULT 7",
                f"INSERT INTO shop.accounts (id, amount) VALUES ({number}, 100 - {number}), ({number + 100}, {number})",
                "COMMIT",
            )
        asker.stdin.close()
        seen += asker.stdout.readlines()

    assert asker.returncode == 0
    assert {line.split()[1] for line in seen} == {"10000"}
    assert len({line.split()[0] for line in seen}) > 1


def test_a_long_query_holds_up_neither_loads_nor_the_end(sink: DuckdbWarehouse, path: Path, told_at: Path) -> None:
    sink.serve_queries(told_at)
    ended: list[PenstockError] = []

    def ask() -> None:
        try:
            query(path, told_at, "SELECT sum(a.range * b.range) FROM range(10_000_000) a, range(10_000_000) b")
        except PenstockError as error:
            ended.append(error)

    asker = threading.Thread(target=ask)
    asker.start()
    time.sleep(0.5)
    run(sink, "INSERT INTO shop.accounts VALUES (100, 0)")
    sink.close()
    asker.join(20)

    assert len(ended) == 1
    assert not told_at.exists()
    assert rows(query(path, told_at, "SELECT count(*) AS n FROM shop.accounts")) == [{"n": 101}]


def ask_without_end(told_at: Path) -> socket.socket:
    """Ask for what takes an hour, and return without waiting for it."""
    address = read_run_file(told_at)
    assert address is not None
    connection = socket.create_connection(("127.0.0.1", address.port), timeout=20)
    statement = "SELECT sum(a.range * b.range) FROM range(10_000_000) a, range(10_000_000) b"
    send(connection, {"token": address.token, "statement": statement, "seconds_max": 3600.0})
    return connection


def test_a_query_that_nobody_waits_for_any_more_is_ended(sink: DuckdbWarehouse, path: Path, told_at: Path) -> None:
    sink.serve_queries(told_at)
    killed = [ask_without_end(told_at) for _ in range(4)]
    time.sleep(0.5)
    for connection in killed:
        connection.close()

    assert rows(query(path, told_at, "SELECT 1 AS one")) == [{"one": 1}]


def test_the_end_ends_queries_too_that_have_not_quite_begun(sink: DuckdbWarehouse, told_at: Path) -> None:
    for wait in (0.0, 0.001, 0.003, 0.01, 0.03):
        server = QueryServer(sink._connection, told_at)
        with ask_without_end(told_at) as connection:
            time.sleep(wait)
            began = time.monotonic()
            server.close()
            assert time.monotonic() - began < 4
            header, _ = receive(connection)
        assert header["message"] == "the pipeline is ending"


def test_who_connected_as_the_end_came_hears_that_it_is_over(sink: DuckdbWarehouse, told_at: Path) -> None:
    for _ in range(20):
        server = QueryServer(sink._connection, told_at)
        # More than the listener takes in before it is told.
        with ExitStack() as askers:
            asked = [askers.enter_context(ask_without_end(told_at)) for _ in range(6)]
            server.close()
            heard = [receive(connection)[0]["message"] for connection in asked]
        assert heard == ["the pipeline is ending"] * 6


def test_only_who_knows_the_token_is_let_in(sink: DuckdbWarehouse, told_at: Path) -> None:
    sink.serve_queries(told_at)
    address = read_run_file(told_at)
    assert address is not None

    with socket.create_connection(("127.0.0.1", address.port), timeout=5) as connection:
        send(connection, {"token": "guess", "statement": "SELECT 1"})
        header, _ = receive(connection)

    assert header["error"] == "UsageError"
    assert "token is wrong" in str(header["message"])
    assert stat.S_IMODE(told_at.stat().st_mode) == 0o600


def test_nonsense_on_the_port_harms_nobody(sink: DuckdbWarehouse, path: Path, told_at: Path) -> None:
    sink.serve_queries(told_at)
    address = read_run_file(told_at)
    assert address is not None

    for nonsense in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x02[]\x00\x00\x00\x00"):
        with socket.create_connection(("127.0.0.1", address.port), timeout=5) as connection:
            connection.sendall(nonsense)

    assert rows(query(path, told_at, "SELECT 1 AS one")) == [{"one": 1}]


def test_a_run_file_that_a_kill_left_behind_is_not_believed(sink: DuckdbWarehouse, path: Path, told_at: Path) -> None:
    sink.close()
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait(30)

    for stale in (ServerAddress(1, "x", ended.pid), ServerAddress(1, "x", os.getpid())):
        write_run_file(told_at, stale)
        assert rows(query(path, told_at, "SELECT 1 AS one")) == [{"one": 1}]
    told_at.write_text("{")
    assert rows(query(path, told_at, "SELECT 1 AS one")) == [{"one": 1}]


def test_servers_of_one_process_begin_side_by_side(told_at: Path) -> None:
    addresses = [ServerAddress(port, "a word", os.getpid()) for port in range(8)]

    for _ in range(20):
        with ThreadPoolExecutor(len(addresses)) as threads:
            list(threads.map(lambda address: write_run_file(told_at, address), addresses))

    assert read_run_file(told_at) in addresses
    assert [file.name for file in told_at.parent.iterdir()] == [told_at.name]


def test_a_target_that_somebody_else_has_open_is_named_after_a_while(path: Path, told_at: Path) -> None:
    holding = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", holding, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()

        with pytest.raises(UnavailableError, match=f"is in use by process {holder.pid}"):
            query(path, told_at, "SELECT 1")
        holder.stdin.close()


def test_a_target_that_is_not_there_yet_is_not_made(path: Path, told_at: Path) -> None:
    with pytest.raises(UsageError, match="there is no warehouse"):
        query(path, told_at, "SELECT 1")

    assert not path.exists()


def penstock_sql(config: Path, *arguments: str) -> Said:
    return run_command("sql", str(config), *arguments)


def test_the_command_prints_a_table_or_a_json_object_per_row(target: tuple[Path, Path], tmp_path: Path) -> None:
    assert target[0].parent == tmp_path
    config = tmp_path / "shop.yaml"
    config.write_text(CONFIG)
    statement = "SELECT id, id + 1 AS id, 1.50 AS d, NULL AS n, '[b]x' AS s, '\\xFF'::BLOB AS b FROM shop.accounts"

    table = penstock_sql(config, f"{statement} ORDER BY 1 LIMIT 1")
    lines = penstock_sql(config, f"{statement} ORDER BY 1 LIMIT 2", "--sink", "warehouse", "--json")
    long = penstock_sql(config, "FROM range(1001)")

    assert [line.split() for line in table.stdout.splitlines() if "1.50" in line] == [
        ["0", "1", "1.50", "NULL", "[b]x", "ff"]
    ]
    assert [json.loads(line) for line in lines.stdout.splitlines()] == [
        {"id": n, "id_2": n + 1, "d": "1.50", "n": None, "s": "[b]x", "b": "ff"} for n in range(2)
    ]
    assert "these are the first 1000 rows" in long.stderr


def test_the_command_says_what_is_wrong_and_exits_with_2(tmp_path: Path) -> None:
    config = tmp_path / "shop.yaml"
    config.write_text(CONFIG)

    no_sink = penstock_sql(config, "SELECT 1", "--sink", "other")
    no_file = penstock_sql(config, "SELECT 1")

    assert (no_sink.returncode, no_file.returncode) == (2, 2)
    assert "there is no sink other in pipeline shop" in no_sink.stderr
    assert "there is no warehouse at" in no_file.stderr
