"""Tables of which the log has other columns than one would think: what it decodes to is what a copy has."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.servers.source_log import address, connected, read_all

from penstock.adapters.mysql.catalog import read_tables
from penstock.adapters.mysql.connection import ask, connect
from penstock.adapters.mysql.history import head
from penstock.adapters.mysql.initial_snapshot import open_initial_snapshot
from penstock.core.errors import TableStoppedError
from penstock.core.mysql.rows.decode import decode_rows
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.table_policy import TablePolicy
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.source_log import Source

    from penstock.core.changes import RowBatch
    from penstock.core.tables import TableSchema

Rows = dict[tuple[Any, ...], dict[str, Any]]

PARTIAL = TablePolicy("stop", "partial")


@pytest.fixture
def source(request: pytest.FixtureRequest, fresh_name: str) -> Iterator[tuple[Source, TableId]]:
    """The server that the test is for, and a table `t` in a database of its own."""
    server = cast("Source", request.getfixturevalue(request.param))
    with closing(connected(server)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {fresh_name}")
        yield server, TableId(fresh_name, "t")
        cursor.execute(f"DROP DATABASE {fresh_name}")


def everywhere(*servers: str) -> pytest.MarkDecorator:
    """Run it on these servers, on those that only a newer MariaDB is every night."""
    cases = [pytest.param(each, marks=pytest.mark.nightly if each == "newer_mariadb" else ()) for each in servers]
    return pytest.mark.parametrize("source", cases, indirect=True)


def write(source: tuple[Source, TableId], create: str, *statements: str) -> tuple[TableSchema, list[RowsLogged]]:
    """Make the table, describe it, run the statements; return what the log has of them."""
    server, table = source
    with closing(connect(address(server))) as connection:
        ask(connection, f"USE {table.schema}")
        ask(connection, create)
        begin, schema = head(connection), read_tables(connection, [table])[table]
        for statement in statements:
            ask(connection, statement)
    items = read_all(server, begin, wanted=lambda seen: seen == table)
    return schema, [item for item in items if isinstance(item, RowsLogged)]


def applied(batches: list[RowBatch]) -> Rows:
    """The rows that are left; every row before a change must be the one that was there."""
    rows: Rows = {}
    for batch in batches:
        for row in batch.before.to_pylist() if batch.before is not None else []:
            assert rows.pop(tuple(row[name] for name in batch.schema.key)) == row
        for row in batch.after.to_pylist() if batch.after is not None else []:
            rows[tuple(row[name] for name in batch.schema.key)] = row
    return rows


def copied(source: tuple[Source, TableId]) -> Rows:
    server, table = source
    with open_initial_snapshot(address(server), lambda seen: seen == table) as copy:
        batches = list(copy.rows(table, 1000))
    return applied(batches)


GENERATED = "CREATE TABLE t (id INT PRIMARY KEY, a INT, c INT, s INT AS (a % 2) STORED, v INT AS (a * 2) VIRTUAL)"
STORED = GENERATED.replace(", v INT AS (a * 2) VIRTUAL", "")


@everywhere("mariadb", "mysql_server")
def test_generated_columns_are_columns_like_any_other(source: tuple[Source, TableId]) -> None:
    schema, events = write(
        source,
        GENERATED,
        "INSERT INTO t (id, a) VALUES (1, 1), (2, 2), (3, 3)",
        "UPDATE t SET a = 7 WHERE id = 2",
        "UPDATE t SET c = 9",
        "DELETE FROM t WHERE id = 3",
    )

    assert applied([decode_rows(schema, [event]) for event in events]) == copied(source)


@everywhere("newer_mariadb")
@pytest.mark.parametrize("statement", ["UPDATE t SET a = 4", "DELETE FROM t"])
def test_a_server_that_does_not_log_generated_columns_stops_their_table(
    source: tuple[Source, TableId], statement: str
) -> None:
    schema, (inserted, changed) = write(source, GENERATED, "INSERT INTO t (id, a) VALUES (1, 1)", statement)

    assert len(decode_rows(schema, [inserted])) == 1
    with pytest.raises(TableStoppedError, match="the source computes it") as caught:
        decode_rows(schema, [changed])
    assert caught.value.column == "s"
    assert "leaves generated columns out" in caught.value.hint


def with_stored_column(source: tuple[Source, TableId], image: str) -> tuple[TableSchema, list[RowsLogged]]:
    schema, events = write(
        source,
        STORED,
        f"SET SESSION binlog_row_image = {image}",
        "INSERT INTO t (id, a) VALUES (1, 1)",
        "UPDATE t SET a = 2",
        "DELETE FROM t",
    )
    return PARTIAL.applied_to(schema), events


IMAGES = pytest.mark.parametrize("image", ["FULL", "MINIMAL"])


@everywhere("mariadb", "mysql_server")
@IMAGES
def test_a_stored_column_is_logged_with_what_it_is_computed_from(source: tuple[Source, TableId], image: str) -> None:
    schema, (_, changed, _) = with_stored_column(source, image)

    after = decode_rows(schema, [changed]).after

    assert after is not None
    assert after.column("s").to_pylist() == [0]


@everywhere("newer_mariadb")
@IMAGES
def test_a_stored_column_that_is_not_logged_never_goes_stale(source: tuple[Source, TableId], image: str) -> None:
    schema, (_, changed, deleted) = with_stored_column(source, image)

    with pytest.raises(TableStoppedError, match="what the source computes them from"):
        decode_rows(schema, [changed])
    assert "s" in decode_rows(schema, [deleted]).before_lacks


HASHED = "CREATE TABLE t (id INT PRIMARY KEY, b BLOB UNIQUE, c INT, d VARCHAR(4000) UNIQUE, DB_ROW_HASH_2 BIGINT)"


@everywhere("mariadb", "newer_mariadb")
@pytest.mark.parametrize("rows", [2, 600])
@pytest.mark.parametrize("history", ["", " WITH SYSTEM VERSIONING"])
def test_the_hashes_of_unique_keys_on_long_columns_are_left_out(
    source: tuple[Source, TableId], rows: int, history: str
) -> None:
    schema, events = write(
        source,
        HASHED + history,
        f"INSERT INTO t SELECT seq, IF(seq = 1, NULL, seq), 7, CONCAT('long ', seq), seq FROM seq_1_to_{rows}",
        "UPDATE t SET c = id WHERE id > 1",
        "UPDATE t SET b = CONCAT('new ', id)",
        "DELETE FROM t WHERE id = 2",
    )

    found = [decode_rows(schema, [event]) for event in events]

    assert found[0].after is not None
    assert [row["b"] for row in found[0].after.to_pylist()][:2] == [None, b"2"]
    assert applied(found) == copied(source)


@everywhere("mariadb", "newer_mariadb")
@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_what_a_row_lacks_is_told_beside_hashes(source: tuple[Source, TableId], image: str) -> None:
    schema, (_, updated, deleted) = write(
        source,
        HASHED,
        f"SET SESSION binlog_row_image = {image}",
        "INSERT INTO t VALUES (1, 'b', 2, 'd', 3)",
        "UPDATE t SET c = 4",
        "DELETE FROM t",
    )

    after, gone = decode_rows(PARTIAL.applied_to(schema), [updated]), decode_rows(PARTIAL.applied_to(schema), [deleted])

    assert after.after is not None
    assert after.after.to_pylist()[0]["c"] == 4
    assert after.after_lacks == (("b", "d", "DB_ROW_HASH_2") if image == "MINIMAL" else ("b",))
    assert gone.before_lacks == (("b", "c", "d", "DB_ROW_HASH_2") if image == "MINIMAL" else ("b",))
    with pytest.raises(TableStoppedError, match="without all of their columns"):
        decode_rows(schema, [updated])


@everywhere("mariadb")
def test_hashes_without_names_stop_their_table(source: tuple[Source, TableId]) -> None:
    server, _ = source
    with closing(connected(server)) as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL binlog_row_metadata = MINIMAL")
        try:
            schema, (inserted,) = write(source, HASHED, "INSERT INTO t VALUES (1, 'b', 2, 'd', 3)")
        finally:
            cursor.execute("SET GLOBAL binlog_row_metadata = FULL")

    with pytest.raises(TableStoppedError, match="the log has 7 columns where 5 are expected") as caught:
        decode_rows(schema, [inserted])
    assert "set binlog_row_metadata=FULL" in caught.value.hint


@everywhere("mariadb", "newer_mariadb")
def test_years_without_their_century_stop_their_table(source: tuple[Source, TableId]) -> None:
    schema, (inserted,) = write(
        source, "CREATE TABLE t (id INT PRIMARY KEY, y YEAR(2))", "INSERT INTO t VALUES (1, 70)"
    )

    with pytest.raises(TableStoppedError, match="without their century"):
        decode_rows(schema, [inserted])
    with pytest.raises(TableStoppedError, match="without their century"):
        copied(source)


@everywhere("mariadb", "mysql_server")
@pytest.mark.parametrize(("kind", "alike"), [("ENUM", 0), ("SET", 1)])
def test_two_values_of_a_key_that_print_alike_stop_their_table(
    source: tuple[Source, TableId], kind: str, alike: int
) -> None:
    schema, (carried, other) = write(
        source,
        f"CREATE TABLE t (k {kind}('', 'a'), id INT, e {kind}('', 'a'), PRIMARY KEY (k, id))",
        "SET SESSION sql_mode = ''",
        f"INSERT INTO t VALUES ('', 1, {alike}), ('a', 2, '')",
        f"INSERT INTO t VALUES ({alike}, 1, 'a')",
    )

    assert applied([decode_rows(schema, [carried])]).keys() == {("", 1), ("a", 2)}
    for events in ([other], [other] * 1000):
        with pytest.raises(TableStoppedError, match="prints as '', and so does another one") as caught:
            decode_rows(schema, events)
        assert caught.value.column == "k"
    with pytest.raises(TableStoppedError, match="prints as '', and so does another one"):
        copied(source)


@everywhere("mariadb", "mysql_server")
def test_a_set_with_an_empty_label_is_what_the_server_prints(source: tuple[Source, TableId]) -> None:
    schema, (inserted,) = write(
        source,
        "CREATE TABLE t (id INT PRIMARY KEY, s SET('', 'a', 'b'), z SET('a', '', 'b'))",
        f"INSERT INTO t VALUES {', '.join(f'({bits}, {bits}, {bits})' for bits in range(8))}",
    )

    with closing(connected(source[0])) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT id, CAST(s AS CHAR), CAST(z AS CHAR) FROM {source[1]}")
        printed = {(number,): {"id": number, "s": s, "z": z} for number, s, z in cursor.fetchall()}
    assert applied([decode_rows(schema, [inserted])]) == copied(source) == printed
