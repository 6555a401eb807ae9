from __future__ import annotations

import contextlib
import datetime as dt
import threading
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pytest

from penstock.adapters.mysql.catalog import read_flavour
from penstock.adapters.mysql.connection import MysqlServer, ask, connect
from penstock.adapters.mysql.history import head
from penstock.adapters.mysql.initial_snapshot import open_initial_snapshot
from penstock.adapters.mysql.tracker import MysqlTracker, read_source_defaults
from penstock.core.changes import Op
from penstock.core.errors import TableStoppedError, UnavailableError
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pymysql

    from penstock.adapters.mysql.initial_snapshot import MysqlInitialSnapshot
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

DEEP = {"mariadb": "max_recursive_iterations", "mysql": "cte_max_recursion_depth"}


@pytest.fixture
def server(any_source: MariadbServer | OracleMysql) -> MysqlServer:
    return MysqlServer(any_source.host, any_source.port, any_source.user, any_source.password)


@pytest.fixture
def fresh_database(database: str) -> str:
    """Here of whichever source the test runs on."""
    return database


@pytest.fixture
def connection(server: MysqlServer, fresh_database: str) -> Iterator[pymysql.Connection]:
    with contextlib.closing(connect(server)) as opened:
        ask(opened, f"USE {fresh_database}")
        yield opened


@pytest.fixture
def wanted(fresh_database: str) -> Callable[[TableId], bool]:
    return lambda table: table.schema == fresh_database


@pytest.fixture
def table(fresh_database: str) -> TableId:
    return TableId(fresh_database, "t")


def read(copy: MysqlInitialSnapshot, table: TableId, batch_rows: int = 1000) -> list[dict[str, object]]:
    batches = [batch.after for batch in copy.rows(table, batch_rows) if batch.after is not None]
    return [row for batch in batches for row in batch.to_pylist()]


def numbers(connection: pymysql.Connection, count: int) -> None:
    ask(connection, "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(200))")
    insert_numbers(connection, "t (a, b)", "n, REPEAT('x', 200)", count)


def insert_numbers(connection: pymysql.Connection, into: str, values: str, count: int) -> None:
    """Insert `values` of each n from 1 to `count`."""
    ask(connection, f"SET SESSION {DEEP[read_flavour(connection)]} = 100000")
    numbered = f"WITH RECURSIVE numbered AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM numbered WHERE n < {count})"
    ask(connection, f"INSERT INTO {into} {numbered} SELECT {values} FROM numbered")


def only_mariadb(connection: pymysql.Connection, sql: str) -> None:
    """Skip the test on MySQL, which does not know the statement, if that says so."""
    if "/* MariaDB */" in sql and read_flavour(connection) == "mysql":
        pytest.skip("MySQL has no such statement")


def test_values_of_every_type_that_is_carried_arrive_exactly(
    server: MysqlServer, connection: pymysql.Connection, table: TableId, wanted: Callable[[TableId], bool]
) -> None:
    columns: list[tuple[str, str, object]] = [
        ("TINYINT", "-128", -128),
        ("BIGINT UNSIGNED", "18446744073709551615", 2**64 - 1),
        ("INT ZEROFILL", "42", 42),
        ("DECIMAL(65,30)", "-1.000000000000000000000000000001", Decimal("-1.000000000000000000000000000001")),
        ("FLOAT", "3.14159274", 3.1415927410125732),
        ("FLOAT(7,3)", "1.2345", 1.2339999675750732),
        ("DOUBLE", "0.1e0", 0.1),
        ("DOUBLE", "5e-324", 5e-324),
        ("VARCHAR(9)", "'日本😀'", "日本😀"),
        ("CHAR(9) CHARACTER SET latin1", "'é€'", "é€"),
        ("TEXT CHARACTER SET ascii", "'a '", "a "),
        ("VARCHAR(9) CHARACTER SET utf8mb3", "''", ""),
        ("BINARY(4)", "x'61ff'", b"a\xff\0\0"),
        ("LONGBLOB", "x'00ff'", b"\x00\xff"),
        ("DATE", "'2020-02-29'", dt.date(2020, 2, 29)),
        ("DATETIME(6)", "'9999-12-31 23:59:59.999999'", dt.datetime(9999, 12, 31, 23, 59, 59, 999999)),  # noqa: DTZ001
        ("TIMESTAMP(3)", "'2020-01-01 12:00:00.123'", dt.datetime(2020, 1, 1, 12, 0, 0, 123000, tzinfo=dt.UTC)),
        ("YEAR", "2155", 2155),
        ("ENUM('a','b','ü') CHARACTER SET latin1", "'ü'", "ü"),
        ("JSON", "'{\"a\": 1}'", '{"a": 1}'),
        ("INT INVISIBLE", "5", 5),
    ]
    if read_flavour(connection) == "mysql":
        # Its JSON is a type of its own, which stops the table in this release.
        columns = [column for column in columns if column[0] != "JSON"]
    defined = ", ".join(f"c{index} {declared}" for index, (declared, _, _) in enumerate(columns))
    names = ", ".join(f"c{index}" for index in range(len(columns)))
    ask(connection, f"CREATE TABLE t ({defined}, v INT AS (c0 + 1) VIRTUAL, s INT AS (c0 + 2) STORED)")
    ask(
        connection,
        f"INSERT INTO t ({names}) VALUES ({', '.join(value for _, value, _ in columns)}), "
        f"({', '.join(['NULL'] * len(columns))})",
    )

    with open_initial_snapshot(server, wanted) as copy:
        first, second = read(copy, table)

    assert list(first.values()) == [value for _, _, value in columns] + [-127, -126]
    assert [name for name, value in second.items() if value is not None] == []


def test_a_batch_says_where_its_rows_belong(
    server: MysqlServer, connection: pymysql.Connection, table: TableId, wanted: Callable[[TableId], bool]
) -> None:
    numbers(connection, 25)
    before = head(connection)

    with open_initial_snapshot(server, wanted) as copy:
        batches = list(copy.rows(table, 10))

    assert copy.position == before
    assert [len(batch) for batch in batches] == [10, 10, 5]
    assert [int(row) for batch in batches for row in batch.rows] == list(range(25))
    assert {int(offset) for batch in batches for offset in batch.offsets} == {before.offset}
    assert {(batch.file, batch.op, batch.before, batch.server_id) for batch in batches} == {
        (before.file, Op.READ, None, 1)
    }
    now_ms = dt.datetime.now(dt.UTC).timestamp() * 1000
    assert abs(int(batches[0].timestamps_ms[0]) - now_ms) < 60_000
    assert batches[0].gtids.equals(pa.array([""] * 10, pa.string()))


def test_large_rows_come_few_at_a_time(
    server: MysqlServer, connection: pymysql.Connection, table: TableId, wanted: Callable[[TableId], bool]
) -> None:
    ask(connection, "CREATE TABLE t (id INT PRIMARY KEY, picture MEDIUMBLOB)")
    for number in range(9):
        ask(connection, f"INSERT INTO t VALUES ({number}, REPEAT('x', 4 << 20))")

    with open_initial_snapshot(server, wanted) as copy:
        assert [len(batch) for batch in copy.rows(table, 10_000)] == [4, 4, 1]


def test_rows_are_those_of_the_position_whatever_is_written_meanwhile(
    server: MysqlServer, connection: pymysql.Connection, table: TableId, wanted: Callable[[TableId], bool]
) -> None:
    numbers(connection, 3)

    with open_initial_snapshot(server, wanted) as copy:
        ask(connection, "INSERT INTO t VALUES (4, 'new')")
        ask(connection, "UPDATE t SET b = 'new'")
        ask(connection, "DELETE FROM t WHERE a = 1")
        rows = read(copy, table)

    assert [(row["a"], row["b"]) for row in rows] == [(number, "x" * 200) for number in (1, 2, 3)]
    assert copy.position != head(connection)


def test_position_and_rows_agree_while_others_write(
    server: MysqlServer, connection: pymysql.Connection, fresh_database: str, wanted: Callable[[TableId], bool]
) -> None:
    """Each transaction adds one row and knows its own number, so the position's GTID tells how many rows there are."""
    ask(connection, "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY)")
    started = int(head(connection).gtids.rpartition("-")[2])
    stop = threading.Event()

    def write() -> None:
        with contextlib.closing(connect(server)) as writer:
            while not stop.is_set():
                ask(writer, f"INSERT INTO {fresh_database}.t VALUES ()")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            with open_initial_snapshot(server, wanted) as copy:
                count = len(read(copy, TableId(fresh_database, "t")))
            assert count == int(copy.position.gtids.rpartition("-")[2]) - started
    finally:
        stop.set()
        writer.join()


ALTERED = [
    "ALTER TABLE t ADD COLUMN c INT, ALGORITHM=INSTANT",
    "ALTER TABLE t MODIFY b TEXT",
    "ALTER TABLE t DROP COLUMN b",
    "ALTER TABLE t FORCE",
    "RENAME TABLE t TO t2",
    "ALTER TABLE t FORCE; TRUNCATE TABLE t",
    "RENAME TABLE t TO t2; CREATE TABLE t LIKE t2",
    "SET SESSION sql_log_bin = 0; TRUNCATE TABLE t",
    "CREATE TABLE IF NOT EXISTS t (a INT); SET SESSION sql_log_bin = 0; ALTER TABLE t ADD COLUMN c INT",
]
EMPTIED = [
    "TRUNCATE TABLE t",
    "DROP TABLE t",
    "DROP TABLE t; CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(200)); INSERT INTO t VALUES (9, 'new')",
    "CREATE OR REPLACE TABLE t (a INT PRIMARY KEY, b VARCHAR(200)) /* MariaDB */",
]


@pytest.mark.parametrize("statement", [*ALTERED, *EMPTIED])
def test_of_a_table_that_was_emptied_since_the_position_nothing_comes_and_one_that_was_altered_is_not_copied(
    server: MysqlServer,
    connection: pymysql.Connection,
    table: TableId,
    wanted: Callable[[TableId], bool],
    statement: str,
) -> None:
    only_mariadb(connection, statement)
    numbers(connection, 3)
    is_refused = pytest.raises(UnavailableError, match=str(table))

    with open_initial_snapshot(server, wanted) as copy:
        for part in statement.split("; "):
            ask(connection, part)

        with is_refused if statement in ALTERED else contextlib.nullcontext():
            assert read(copy, table) == []


def test_another_table_of_the_same_name_and_shape_is_not_taken_for_it(
    server: MysqlServer, connection: pymysql.Connection, table: TableId, wanted: Callable[[TableId], bool]
) -> None:
    numbers(connection, 3)
    # CREATE_TIME has whole seconds. On MariaDB it is that of the renaming, on MySQL the new table's own.
    ask(connection, "DO SLEEP(1.1)")
    ask(connection, "CREATE TABLE u LIKE t")
    ask(connection, "DO SLEEP(1.1)")

    with open_initial_snapshot(server, wanted) as copy:
        ask(connection, "RENAME TABLE t TO t2, u TO t")

        with pytest.raises(UnavailableError, match=str(table)):
            read(copy, table)


def test_tables_that_change_their_names_are_not_taken_for_each_other(
    server: MysqlServer, connection: pymysql.Connection, table: TableId, wanted: Callable[[TableId], bool]
) -> None:
    """Both are alike, and were created in the same second."""
    ask(connection, "CREATE TABLE t (a INT PRIMARY KEY)")
    ask(connection, "CREATE TABLE u (a INT PRIMARY KEY)")
    ask(connection, "CREATE TABLE done (a INT PRIMARY KEY)")
    ask(connection, "INSERT INTO t VALUES (1)")

    with open_initial_snapshot(server, wanted) as copy:
        assert read(copy, TableId(table.schema, "done")) == []
        ask(connection, "RENAME TABLE t TO v, u TO t, v TO u")
        with pytest.raises(UnavailableError, match="was altered or renamed"):
            read(copy, table)


def test_a_table_can_be_altered_as_soon_as_it_is_copied(
    server: MysqlServer, connection: pymysql.Connection, table: TableId, wanted: Callable[[TableId], bool]
) -> None:
    numbers(connection, 3)
    ask(connection, "SET SESSION lock_wait_timeout = 5")

    with open_initial_snapshot(server, wanted) as copy:
        assert len(read(copy, table)) == 3
        ask(connection, "ALTER TABLE t ADD COLUMN c INT")


@pytest.mark.parametrize(
    ("declared", "value", "reason"),
    [
        ("DATE", "'0000-00-00'", "0000-00-00"),
        ("DATETIME", "'2020-00-00'", "2020-00-00"),
        ("TIMESTAMP", "'0000-00-00'", "0000-00-00"),
        ("TEXT CHARACTER SET ascii", "CONVERT(x'61ff' USING ascii)", ""),
    ],
)
def test_a_value_that_cannot_be_carried_stops_its_table_and_no_other(
    server: MysqlServer,
    connection: pymysql.Connection,
    fresh_database: str,
    wanted: Callable[[TableId], bool],
    *,
    declared: str,
    value: str,
    reason: str,
) -> None:
    ask(connection, "SET SESSION sql_mode = ''")
    ask(connection, f"CREATE TABLE bad (a INT PRIMARY KEY, b {declared} NULL)")
    if reason:
        ask(connection, f"INSERT INTO bad VALUES (1, {value})")
        insert_numbers(connection, "bad (a, b)", "n + 1, NULL", 50_000)
    numbers(connection, 3)

    with open_initial_snapshot(server, wanted) as copy:
        if reason:
            with pytest.raises(TableStoppedError, match=reason) as caught:
                read(copy, TableId(fresh_database, "bad"), 100)
            assert caught.value.column == "b"
            assert caught.value.position == str(copy.position)

        assert len(read(copy, TableId(fresh_database, "t"))) == 3


_TRANSACTION_PERIOD: Final = (
    "(a INT PRIMARY KEY, s BIGINT UNSIGNED GENERATED ALWAYS AS ROW START, e BIGINT UNSIGNED GENERATED ALWAYS AS "
    "ROW END, PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING /* MariaDB */"
)


@pytest.mark.parametrize(
    ("definition", "column", "reason"),
    [
        (
            _TRANSACTION_PERIOD,
            "s",
            "ROW START",
        ),
        ("(a INT PRIMARY KEY) ENGINE=MyISAM", "", "MyISAM"),
    ],
)
def test_a_table_that_cannot_be_carried_is_named_with_the_cause(
    server: MysqlServer,
    connection: pymysql.Connection,
    table: TableId,
    wanted: Callable[[TableId], bool],
    *,
    definition: str,
    column: str,
    reason: str,
) -> None:
    only_mariadb(connection, definition)
    ask(connection, f"CREATE TABLE t {definition}")

    with open_initial_snapshot(server, wanted) as copy, pytest.raises(TableStoppedError, match=reason) as caught:
        read(copy, table)

    assert caught.value.column == column


def test_the_tracker_can_be_given_every_table_of_the_copy(
    server: MysqlServer,
    connection: pymysql.Connection,
    table: TableId,
    wanted: Callable[[TableId], bool],
    request: pytest.FixtureRequest,
) -> None:
    numbers(connection, 3)
    defaults = read_source_defaults(connection)
    kind = {"mariadb": "tracker_server", "mysql": "mysql_tracker_server"}[defaults.flavour]
    running = request.getfixturevalue(kind)
    on = MysqlServer(running.host, running.port, running.user, running.password)

    with open_initial_snapshot(server, wanted) as copy, contextlib.closing(MysqlTracker(on, defaults)) as tracker:
        tracker.restore(copy.creates)

        assert list(copy.schemas) == [table]
        assert tracker.table_schema(table) == copy.schemas[table]
        assert set(copy.schemas) <= set(tracker.tables())


def test_an_empty_table_has_no_batches(
    server: MysqlServer, connection: pymysql.Connection, table: TableId, wanted: Callable[[TableId], bool]
) -> None:
    ask(connection, "CREATE TABLE t (a INT)")

    with open_initial_snapshot(server, wanted) as copy:
        assert list(copy.rows(table, 10)) == []


def test_a_copy_that_is_left_early_leaves_nothing_behind(
    server: MysqlServer, connection: pymysql.Connection, table: TableId, wanted: Callable[[TableId], bool]
) -> None:
    numbers(connection, 50_000)

    with open_initial_snapshot(server, wanted) as copy:
        batches = copy.rows(table, 10)
        next(batches)
        del batches
        assert len(read(copy, table)) == 50_000

    ask(connection, "SET SESSION lock_wait_timeout = 5")
    ask(connection, "DROP TABLE t")
