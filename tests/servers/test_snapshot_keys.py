"""Snapshots of tables with keys of every kind, on both kinds of server, while rows and their keys change."""

from __future__ import annotations

import random
import signal
import threading
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

import duckdb
import pymysql
import pytest
import yaml
from pymysql.constants import ER
from tests.servers.capture_processes import spawn_capture
from tests.servers.chain import Chain, make_chain
from tests.servers.fresh_databases import state_database

from penstock.core.snapshots import Method, SnapshotOptions, Status
from penstock.embedded.mysql import OracleMysql, start_mysql
from penstock.wiring.open import open_topic_log
from penstock.wiring.snapshots import ask_for_snapshots, read_snapshots

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.embedded.debian import DebianPackage
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

_UTF8 = "CHARACTER SET utf8mb4 COLLATE"
KEYS = {
    "gaps": ("INT", "-2147483648, -5, 0, 7, 1000000, 2147483647"),
    "big": ("BIGINT UNSIGNED", "0, 1, 9223372036854775807, 9223372036854775808, 18446744073709551614, ~0"),
    "letters": (f"VARCHAR(20) {_UTF8} utf8mb4_general_ci", "'', 'a', 'B', 'c', 'D', '\\'', 'é2', 'Ä1', 'zz', '日本'"),
    "accents": (f"VARCHAR(20) {_UTF8} utf8mb4_unicode_ci", "'', 'a', 'É', 'f', 'ö', 'P', 'ß', 'z', '\\\\', '日本'"),
    "cases": (f"VARCHAR(20) {_UTF8} utf8mb4_bin", "'', 'a', 'A', 'á', 'Á', '\t', 'a%', 'z', 'Z', '🙂'"),
    "latin": ("CHAR(5) CHARACTER SET latin1 COLLATE latin1_swedish_ci", "'a', 'ö', 'Z', 'z1', '€'"),
    "bytes_fixed": ("BINARY(4)", "X'00', X'0001', X'FF', X'27275C00', X'80'"),
    "bytes_long": ("VARBINARY(8)", "X'', X'00', X'0000', X'FF00', X'5C27'"),
    "labels": ("ENUM('z', 'b', 'a', '\\'')", "'a', 'b', 'z', '\\''"),
    "numbers": ("DECIMAL(20,4)", "-1.5, 0, 0.0001, 99999999999999.9999, 7"),
    "fractions": ("DOUBLE", "-1e300, -0.1, 0, 0.1, 1e-300, 3"),
    "singles": ("FLOAT", "0.1, 0.2, -7.25, 3e30, 16777216"),
    "days": ("DATE", "'1970-01-01', '2024-02-29', '9999-12-31', '1000-01-01'"),
    "moments": ("DATETIME(6)", "'2024-01-01 00:00:00.000001', '2024-01-01 00:00:00', '1999-01-01 12:00:00'"),
    "instants": ("TIMESTAMP(3)", "'2024-01-01 00:00:00.5', '2001-01-01 00:00:00', '2037-01-01 12:00:00'"),
    "spans": ("TIME(3)", "'-838:59:59', '-00:00:00.5', '00:00:00', '12:00:00.123', '838:59:59'"),
    "years": ("YEAR", "1901, 2000, 2155, 0"),
    "bits": ("BIT(9)", "b'0', b'1', b'111111111', b'100000000', b'100111'"),
    "uuids": (
        "CHAR(36) CHARACTER SET ascii",
        "'00000000-0000-0000-0000-000000000001', 'ffffffff-0000-4000-8000-000000000000', '6CCD780C'",
    ),
}
OFTEN = ("big", "letters", "bytes_long", "moments", "uuids")
"""A kind of each way in which a cursor is written; the others run nightly."""
# What only one of the two has, or has in another way.
MARIADB_KEYS = {"real_uuids": ("UUID", "UUID(), UUID(), '00000000-0000-0000-0000-000000000001', UUID(), UUID()")}
MYSQL_KEYS = {
    "no_pad": (f"VARCHAR(20) {_UTF8} utf8mb4_0900_ai_ci", "'', ' ', 'a', 'a ', 'É', 'é ', 'z', '\\'', '日本'"),
    "exact": (f"VARCHAR(20) {_UTF8} utf8mb4_0900_as_cs", "'', 'a', 'A', 'á', 'Á', 'z', 'Z', 'ß', 'ss'"),
    "by_bytes": (f"VARCHAR(20) {_UTF8} utf8mb4_0900_bin", "'', 'a', 'A', 'á', '日本', '🙂'"),
    "packed": ("BINARY(16)", "UUID_TO_BIN(UUID()), UUID_TO_BIN(UUID(),1), X'00', UUID_TO_BIN(UUID())"),
}


@pytest.fixture
def mysql_without_gtids(servers_home: Path, mysql_package: DebianPackage) -> Iterator[OracleMysql]:
    """A MySQL on which nobody can see what is committed without holding up those who write."""
    del mysql_package
    options = ["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]
    with start_mysql(servers_home / "mysql_without_gtids", options=options) as server:
        yield server


@pytest.fixture
def chain(
    any_source: MariadbServer | OracleMysql,
    request: pytest.FixtureRequest,
    chain_parts: tuple[KafkaBroker, str, int],
    fresh_name: str,
    tmp_path: Path,
) -> Iterator[Chain]:
    """A pipeline on a server of either kind that carries no tables by itself but `first`."""
    kafka, schematizer, port = chain_parts
    if isinstance(any_source, OracleMysql):
        port = request.getfixturevalue("mysql_tracker_server").port
    with ExitStack() as stack:
        stack.enter_context(state_database(any_source, fresh_name))
        chain = make_chain(tmp_path, fresh_name, any_source, (kafka, schematizer, port))
        carry_tables(chain, f"{chain.name}.first")
        yield chain


def carry_tables(chain: Chain, tables: str) -> None:
    config = yaml.safe_load(chain.file.read_text())
    config["sources"][0] |= {"tables": [tables], "snapshot": "never"}
    chain.file.write_text(yaml.safe_dump(config))


def make_tables(chain: Chain, kinds: dict[str, tuple[str, str]]) -> list[str]:
    """Make a table for each kind of key, `n` tells its rows apart; return their names."""
    chain.write("CREATE TABLE first (id INT PRIMARY KEY)")
    for table, (type_, values) in kinds.items():
        rows = ", ".join(f"({value}, {n})" for n, value in enumerate(values.split(", ")))
        chain.write(f"CREATE TABLE {table} (id {type_} PRIMARY KEY, n INT)", f"INSERT INTO {table} VALUES {rows}")
    chain.write(f"CREATE TABLE pairs (a VARCHAR(9) {_UTF8} utf8mb4_general_ci, b INT, n INT, PRIMARY KEY (b, a))")
    for n in range(30):
        chain.write(f"INSERT INTO pairs VALUES ('{'kÉ'[n % 2]}{n % 4}', {n // 4}, {n})")
    return [*kinds, "pairs"]


@contextmanager
def writers(chain: Chain, kinds: dict[str, tuple[str, str]], *, seed: int) -> Iterator[None]:
    """Insert, change, delete and move rows of all tables all the while; each version of a row has its own `n`."""
    stop, chance = threading.Event(), random.Random(seed)  # noqa: S311 - not for secrets

    def write() -> None:
        n = 1_000
        with chain.cursor() as cursor:
            while not stop.is_set():
                n += 1
                table, (_, values) = chance.choice([*kinds.items()])
                one, other = chance.sample(values.split(", "), 2)
                statement = chance.choice(
                    (
                        f"REPLACE INTO {table} VALUES ({one}, {n})",
                        f"DELETE FROM {table} WHERE id = {one}",
                        f"UPDATE {table} SET id = {other}, n = {n} WHERE id = {one}",
                        f"UPDATE {table} SET n = {n} WHERE id = {one}",
                        f"UPDATE pairs SET a = CONCAT('z', {n}), n = {n} WHERE b = {n % 7} ORDER BY a LIMIT 1",
                    )
                )
                try:
                    cursor.execute(statement)
                except pymysql.err.IntegrityError as error:
                    assert error.args[0] == ER.DUP_ENTRY  # noqa: PT017 - what else it is raises in the thread

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def versions(chain: Chain, table: str) -> list[int]:
    """Which versions of rows the source has."""
    with chain.cursor() as cursor:
        cursor.execute(f"SELECT n FROM {table}")
        return sorted(n for (n,) in cursor.fetchall())


def messages(chain: Chain, table: str) -> int:
    place = (f"{chain.source}.{chain.name}.{table}", 0)
    with closing(open_topic_log(chain.spec)) as log:
        return sum(len(part) for part in log.read(*place, 0, log.ends([place])[place]))


def check_equal(chain: Chain, tables: list[str]) -> None:
    assert {each.table.partition(".")[2]: each.status for each in read_snapshots(chain.spec)} == dict.fromkeys(
        tables, Status.DONE
    )
    found = {table: [n for (n,) in chain.query(f"SELECT n FROM {{schema}}.{table} ORDER BY n")] for table in tables}
    assert found == {table: versions(chain, table) for table in tables}


def ask(chain: Chain, tables: list[str], method: Method = Method.READ_ONLY) -> None:
    options = SnapshotOptions(chunk_rows=3, method=method)
    ask_for_snapshots(chain.spec, [f"{chain.name}.{table}" for table in tables], options)


@pytest.mark.parametrize(
    ("any_source", "kinds"),
    [
        pytest.param("mariadb", {kind: KEYS[kind] for kind in OFTEN}, id="mariadb_often"),
        pytest.param("mariadb", KEYS | MARIADB_KEYS, id="mariadb", marks=pytest.mark.nightly),
        pytest.param("mysql_server", MYSQL_KEYS, id="mysql_only", marks=pytest.mark.nightly),
        pytest.param("mysql_server", KEYS, id="mysql", marks=pytest.mark.nightly),
        pytest.param("mysql_without_gtids", MYSQL_KEYS, id="mysql_without_gtids", marks=pytest.mark.nightly),
    ],
    indirect=["any_source"],
)
def test_tables_with_any_key_come_whole_and_once_in_small_chunks_and_again_while_keys_change(
    chain: Chain, kinds: dict[str, tuple[str, str]]
) -> None:
    tables = make_tables(chain, kinds)
    chain.start()
    carry_tables(chain, f"{chain.name}.*")

    ask(chain, tables)
    chain.carry()
    first = {table: (messages(chain, table), versions(chain, table)) for table in tables}
    ask(chain, tables)
    with writers(chain, kinds, seed=7):
        chain.capture()
    chain.carry()

    check_equal(chain, tables)
    assert {table: count for table, (count, _) in first.items()} == {
        table: len(found) for table, (_, found) in first.items()
    }


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("any_source", "kinds"),
    [
        pytest.param("mariadb", KEYS | MARIADB_KEYS, id="mariadb"),
        pytest.param("mysql_server", KEYS | MYSQL_KEYS, id="mysql"),
    ],
    indirect=["any_source"],
)
def test_tables_with_any_key_come_whole_through_the_log_of_the_source_while_keys_change(
    chain: Chain, kinds: dict[str, tuple[str, str]]
) -> None:
    with_blackhole(chain)
    tables = make_tables(chain, kinds)
    chain.start()
    carry_tables(chain, f"{chain.name}.*")

    ask(chain, tables, Method.BLACKHOLE)
    with writers(chain, kinds, seed=8):
        chain.capture()
    chain.carry()

    check_equal(chain, tables)


def with_blackhole(chain: Chain) -> None:
    """Have the server know the engine; MySQL does by itself."""
    with chain.cursor() as cursor:
        if not cursor.execute("SELECT 1 FROM information_schema.ENGINES WHERE ENGINE = 'BLACKHOLE'"):
            cursor.execute("INSTALL SONAME 'ha_blackhole'")


@pytest.mark.nightly
@pytest.mark.parametrize("method", [Method.BLACKHOLE, Method.FULL_LOCK])
@pytest.mark.parametrize("any_source", ["mariadb", "mysql_server"], indirect=True)
def test_rows_that_are_read_under_a_lock_have_every_value_whatever_the_columns_are(
    chain: Chain, method: Method
) -> None:
    with_blackhole(chain)
    chain.write(
        "CREATE TABLE parents (id INT PRIMARY KEY)",
        "INSERT INTO parents VALUES (1), (2)",
        "CREATE TABLE first (id INT PRIMARY KEY, parent INT, kind ENUM('a', 'b') NOT NULL DEFAULT 'b', "
        "flags SET('x', 'y'), at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), day DATE, amount DECIMAL(20, 5), "
        "doubled INT AS (id * 2) VIRTUAL, tripled INT AS (id * 3) STORED, doc JSON, words TEXT, raw BLOB, bits BIT(9), "
        "latin VARCHAR(9) CHARACTER SET latin1 DEFAULT 'ö', FULLTEXT (words), KEY (tripled), CHECK (id > 0), "
        "FOREIGN KEY (parent) REFERENCES parents (id))",
        "INSERT INTO first (id, parent, kind, flags, day, amount, doc, words, raw, bits) VALUES "
        "(1, 1, 'a', 'x,y', '2024-02-29', -1.5, '{\"a\": [1, null]}', 'ein wort', X'00FF', b'100000001'), "
        "(2, NULL, 'b', NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        "CREATE TABLE parted (id INT, day DATE, PRIMARY KEY (day, id)) PARTITION BY HASH (id) PARTITIONS 3",
        "INSERT INTO parted VALUES (1, '2024-01-01'), (2, '2024-01-01'), (3, '1999-01-01')",
    )
    carry_tables(chain, f"{chain.name}.*")
    chain.start()
    chain.carry()
    tables = ["first", "parted"]
    whole = {table: chain.query(f"SELECT * FROM {{schema}}.{table} ORDER BY id") for table in tables}
    with duckdb.connect(str(chain.spec.home / "wh.duckdb")) as target:
        for table in tables:
            target.execute(f"DELETE FROM {chain.name}.{table}")

    ask(chain, tables, method)
    chain.carry()

    assert all(len(rows) > 1 for rows in whole.values())
    assert {table: chain.query(f"SELECT * FROM {{schema}}.{table} ORDER BY id") for table in tables} == whole


@pytest.mark.nightly
@pytest.mark.parametrize("any_source", ["mariadb", "mysql_server"], indirect=True)
def test_a_table_that_is_altered_while_it_is_copied_comes_whole_and_one_that_is_dropped_says_so(chain: Chain) -> None:
    with_blackhole(chain)
    chain.write("CREATE TABLE first (id INT PRIMARY KEY, n INT)", "CREATE TABLE gone (id INT PRIMARY KEY, n INT)")
    for table in ("first", "gone"):
        chain.write(f"INSERT INTO {table} VALUES {', '.join(f'({n}, {n})' for n in range(1, 901))}")
    carry_tables(chain, f"{chain.name}.*")
    chain.start()
    chain.carry()
    options = SnapshotOptions(chunk_rows=50, method=Method.BLACKHOLE)
    ask_for_snapshots(chain.spec, [f"{chain.name}.first", f"{chain.name}.gone"], options)

    died = spawn_capture(chain, 2, "snapshot.refreshed:5")
    chain.write("ALTER TABLE first ADD m INT DEFAULT 5", "UPDATE first SET m = id", "DROP TABLE gone")
    chain.capture(3)
    chain.write_objects()
    chain.load()

    assert died == -signal.SIGKILL
    found = {each.table.partition(".")[2]: each for each in read_snapshots(chain.spec)}
    assert {table: each.status for table, each in found.items()} == {"first": Status.DONE, "gone": Status.FAILED}
    assert "dropped or renamed" in found["gone"].error or "has no table" in found["gone"].error
    assert sorted(chain.query("SELECT id, m FROM {schema}.first")) == [(n, n) for n in range(1, 901)]


@pytest.mark.parametrize(
    "any_source", ["mariadb", pytest.param("mysql_server", marks=pytest.mark.nightly)], indirect=True
)
def test_a_listed_key_of_a_float_is_read_and_one_that_is_not_there_becomes_a_delete(chain: Chain) -> None:
    chain.write("CREATE TABLE first (id FLOAT PRIMARY KEY, n INT)", "INSERT INTO first VALUES (0.1, 1), (16777216, 2)")
    chain.start()
    chain.carry()

    options = SnapshotOptions(keys=('{"id": 0.1}', "16777216", '{"id": "0.3"}'))
    ask_for_snapshots(chain.spec, [f"{chain.name}.first"], options)
    chain.carry()

    assert [each.status for each in read_snapshots(chain.spec)] == [Status.DONE]
    assert messages(chain, "first") == 2 + 3
    assert chain.query("SELECT n FROM {schema}.first ORDER BY n") == [(1,), (2,)]
