"""Snapshots of a running pipeline's PostgreSQL tables, under live writes, and killed in the middle."""

from __future__ import annotations

import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import duckdb
import pytest

from penstock.core.errors import UsageError
from penstock.core.snapshots import SnapshotOptions, Status
from penstock.wiring.snapshots import ask_for_snapshots, read_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.postgres_chain import PostgresChain

_LARGE = "(SELECT string_agg(md5(i::text || {0}), '') FROM generate_series(1, 200) i)"
_ALL = "SELECT id, n, note FROM public.t ORDER BY id"
_NEVER = "    snapshot: never"
_WRITES_MAX = 100


def _ask(chain: PostgresChain, *tables: str, **options: object) -> None:
    names = [f"public.{table}" for table in tables]
    ask_for_snapshots(chain.spec, names, SnapshotOptions(**options))  # type: ignore[arg-type]


def _statuses(chain: PostgresChain) -> dict[str, str]:
    return {each.table.removeprefix("public."): each.status for each in read_snapshots(chain.spec)}


def _want(chain: PostgresChain, tables: str) -> None:
    chain.file.write_text(chain.file.read_text().replace('tables: ["public.*"]', f'tables: ["{tables}"]'))


@contextmanager
def _writers(chain: PostgresChain) -> Iterator[None]:
    """Insert, change, delete and move rows of `t` all the while; most changes leave the large values alone."""
    stop = threading.Event()

    def write() -> None:
        number = 0
        with closing(chain.connect()) as connection:
            # A bounded number of rows: else the snapshot would follow what is inserted behind it.
            while not stop.is_set() and number < _WRITES_MAX:
                number += 1
                for statement in (
                    f"INSERT INTO t VALUES ({10_000 + number}, 0, {_LARGE.format(number)})",
                    f"UPDATE t SET n = n + 1 WHERE id % 200 = {number % 200}",
                    f"DELETE FROM t WHERE id = {number * 7 % 600}",
                    f"UPDATE t SET note = {_LARGE.format(number)} WHERE id = {number * 13 % 600}",
                ):
                    connection.execute(statement.encode())
                time.sleep(0.1)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.nightly
def test_a_stopped_table_comes_whole_while_it_is_written_though_the_snapshot_is_killed(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(
        "CREATE TABLE t (id int PRIMARY KEY, n numeric(9,2), note text)",
        "ALTER TABLE t ALTER note SET STORAGE EXTERNAL",
        f"INSERT INTO t SELECT i, i, {_LARGE.format('i')} FROM generate_series(1, 600) i",
    )
    chain.carry()
    chain.write("UPDATE t SET n = 'NaN' WHERE id = 3")
    chain.carry()
    assert list(chain.stopped()) == ["public.t"]

    chain.write("UPDATE t SET n = 0 WHERE id = 3")
    _ask(chain, "t", chunk_rows=40)
    with _writers(chain):
        chain.crash("snapshot.refreshed:4")
        chain.carry()
    chain.carry()

    assert _statuses(chain) == {"t": Status.DONE}
    assert chain.stopped() == {}
    source, warehouse = chain.both(_ALL)
    assert warehouse == source


@pytest.mark.nightly
def test_tables_with_any_key_come_whole_in_small_chunks(make_postgres: Callable[..., PostgresChain]) -> None:
    keys = {
        "gaps": ("int", "(-5), (0), (7), (2147483647)"),
        "letters": ("text", "(''), ('a'), ('B'), ('c''d'), ('é'), ('\\x'), ('日本')"),
        "fixed": ("char(5)", "('b'), ('a'), ('')"),
        "raw": ("bytea", "('\\x00'), ('\\xff27'), ('\\x')"),
        "fractions": ("double precision", "(-1e300), (0.1), (3)"),
        "exact": ("numeric(20,4)", "(-1.5), (0.0001), (9999999.9)"),
        "days": ("date", "('2024-02-29'), ('0001-01-01'), ('9999-12-31')"),
        "instants": ("timestamptz", "('2024-01-01 00:00:00.000001+02'), ('1999-01-01 12:00Z')"),
        "ids": ("uuid", "(gen_random_uuid()), (gen_random_uuid()), (gen_random_uuid())"),
        "truths": ("boolean", "(true), (false)"),
        "moods": ("mood", "('sad'), ('glad'), ('mad')"),
    }
    chain = make_postgres("CREATE TABLE first (id int PRIMARY KEY)", "CREATE TYPE mood AS ENUM ('sad', 'mad', 'glad')")
    for table, (type_, values) in keys.items():
        chain.write(f"CREATE TABLE {table} (id {type_} PRIMARY KEY)", f"INSERT INTO {table} VALUES {values}")
    chain.write(
        "CREATE TABLE pairs (a text, b int, n int, PRIMARY KEY (b, a))",
        "INSERT INTO pairs SELECT 'k' || i % 4, i / 4, i FROM generate_series(1, 20) i",
    )
    _want(chain, "public.first")
    chain.file.write_text(chain.file.read_text().replace("    tables:", f"{_NEVER}\n    tables:"))
    chain.carry()
    _want_all(chain)

    _ask(chain, *keys, "pairs", chunk_rows=2)
    chain.carry()

    assert _statuses(chain) == dict.fromkeys((*keys, "pairs"), Status.DONE)
    for table in (*keys, "pairs"):
        ((count,),) = chain.source_rows(f"SELECT count(*) FROM {table}")
        assert chain.rows(f"SELECT count(*) FROM public.{table}") == [(count,)], table
    source, warehouse = chain.both("SELECT a, b, n FROM public.pairs ORDER BY b, a")
    assert warehouse == source


def _want_all(chain: PostgresChain) -> None:
    chain.file.write_text(chain.file.read_text().replace('tables: ["public.first"]', 'tables: ["public.*"]'))


def test_a_table_that_the_config_adds_gets_a_snapshot_by_itself(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres(
        "CREATE TABLE first (id int PRIMARY KEY)",
        "CREATE TABLE other (id int PRIMARY KEY, n int)",
        "INSERT INTO other SELECT i, i FROM generate_series(1, 10) i",
    )
    _want(chain, "public.first")
    chain.carry()
    chain.write("UPDATE other SET n = 0 WHERE id = 3")
    chain.carry()

    _want_all(chain)
    chain.write("DELETE FROM other WHERE id = 4")
    chain.carry()
    chain.write("UPDATE other SET n = 50 WHERE id = 5")
    chain.carry()

    assert _statuses(chain) == {"other": Status.DONE}
    source, warehouse = chain.both("SELECT id, n FROM public.other ORDER BY id")
    assert warehouse == source


@pytest.mark.nightly
def test_a_table_that_was_renamed_and_not_written_since_is_no_new_one(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(
        "CREATE TABLE t (id int PRIMARY KEY, n int, note text)", "INSERT INTO t VALUES (1, 1), (2, 2)"
    )
    chain.carry()
    chain.write("ALTER TABLE t RENAME TO u")
    chain.carry()
    assert _statuses(chain) == {}

    chain.write("UPDATE u SET n = 3 WHERE id = 1", "ALTER TABLE u RENAME TO t")
    chain.carry()
    chain.write("UPDATE t SET n = 4 WHERE id = 2")
    chain.carry()

    assert (_statuses(chain), chain.stopped()) == ({}, {})
    source, warehouse = chain.both(_ALL)
    assert warehouse == source
    assert chain.rows("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'") == [("t",)]


@pytest.mark.nightly
def test_a_snapshot_under_a_new_name_ends_the_table_under_its_old_one(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(
        "CREATE TABLE t (id int PRIMARY KEY, n int, note text)", "INSERT INTO t VALUES (1, 1), (2, 2)"
    )
    chain.carry()
    chain.write("ALTER TABLE t RENAME TO u")
    _ask(chain, "u", full_refresh=True)
    chain.carry()
    chain.write("UPDATE u SET n = 3 WHERE id = 1", "ALTER TABLE u RENAME TO t", "UPDATE t SET n = 4 WHERE id = 2")
    chain.carry()

    assert (_statuses(chain), chain.stopped()) == ({"u": Status.DONE}, {})
    source, warehouse = chain.both(_ALL)
    assert warehouse == source


@pytest.mark.nightly
def test_listed_keys_are_read_again_and_those_that_are_gone_are_deleted(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres("CREATE TABLE t (id int, code char(4), v text, PRIMARY KEY (code, id))")
    chain.write("INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    chain.carry()
    with closing(duckdb.connect(str(chain.file.parent / chain.name / "wh.duckdb"))) as warehouse:
        warehouse.execute("UPDATE public.t SET v = 'wrong'")
        warehouse.execute("INSERT INTO public.t SELECT * REPLACE (9 AS id) FROM public.t WHERE id = 1")

    _ask(chain, "t", keys=('{"id": 1, "code": "a"}', '["b", 2]', '{"id": 9, "code": "a"}'))
    chain.carry()

    assert chain.rows("SELECT id, code, v FROM public.t ORDER BY id") == [(1, "a   ", "x"), (2, "b   ", "y")]


def test_what_cannot_be_is_said(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE keyless (n int)")
    chain.write("ALTER TABLE keyless REPLICA IDENTITY FULL")
    chain.carry()

    with pytest.raises(UsageError, match="has no table"):
        _ask(chain, "nothing")
    with pytest.raises(UsageError, match="has no primary key"):
        _ask(chain, "keyless")
    with pytest.raises(UsageError, match="the server refused the condition"):
        _ask(chain, "t", where="id >")
    with pytest.raises(UsageError, match="is no primary key of"):
        _ask(chain, "t", keys=('{"n": 1}',))


def test_comments_since_the_last_changed_row_do_not_keep_a_table_from_being_read(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(
        "CREATE TYPE place AS (street text, number int)",
        "CREATE TABLE t (id int PRIMARY KEY, n place, note text)",
        "INSERT INTO t VALUES (1, ROW('Main', 1), 'a')",
    )
    chain.carry()
    chain.write(
        "COMMENT ON TABLE t IS 'commented'", "COMMENT ON COLUMN t.n IS 'too'", "ALTER TYPE place RENAME TO address"
    )

    _ask(chain, "t")
    chain.carry()

    assert _statuses(chain) == {"t": Status.DONE}
    assert chain.stopped() == {}
    source, warehouse = chain.both("SELECT id, n::text, note FROM public.t")
    assert warehouse == source
