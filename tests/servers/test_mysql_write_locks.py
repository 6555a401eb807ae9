"""A copy of a MySQL source on which our user may not hold up everybody, as on Amazon RDS."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import pytest
from tests.servers.source_log import address, read_all

from penstock.adapters.mysql import write_locks
from penstock.adapters.mysql.connection import MysqlServer, ask, connect
from penstock.adapters.mysql.initial_snapshot import open_initial_snapshot
from penstock.adapters.mysql.preflight import examine
from penstock.core.errors import UnavailableError, UnfitServerError
from penstock.core.mysql.rows.decode import decode_rows
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pymysql

    from penstock.core.changes import RowBatch
    from penstock.embedded.mysql import OracleMysql


@pytest.fixture
def root(mysql_server: OracleMysql, fresh_name: str) -> Iterator[pymysql.Connection]:
    with contextlib.closing(connect(address(mysql_server))) as opened:
        ask(opened, f"CREATE DATABASE {fresh_name}")
        ask(opened, f"USE {fresh_name}")
        ask(opened, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY)")
        ask(opened, "CREATE TABLE aside (id INT AUTO_INCREMENT PRIMARY KEY)")
        yield opened
        ask(opened, f"DROP DATABASE {fresh_name}")


@pytest.fixture
def modest(mysql_server: OracleMysql, root: pymysql.Connection, fresh_name: str) -> Iterator[MysqlServer]:
    """Whoever has what a capture needs, but for a lock."""
    ask(root, "CREATE USER modest IDENTIFIED BY 'modest'")
    ask(root, "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO modest")
    ask(root, f"GRANT SELECT ON {fresh_name}.* TO modest")
    yield MysqlServer(mysql_server.host, mysql_server.port, "modest", "modest")
    ask(root, "DROP USER modest")


@pytest.fixture
def wanted(fresh_name: str) -> Callable[[TableId], bool]:
    return lambda table: table == TableId(fresh_name, "t")


@pytest.mark.nightly
def test_where_only_tables_can_be_locked_a_copy_and_the_log_behind_it_agree(
    mysql_server: OracleMysql, root: pymysql.Connection, modest: MysqlServer, wanted: Callable[[TableId], bool]
) -> None:
    database = str(ask(root, "SELECT DATABASE()")[0][0])
    ask(root, f"GRANT LOCK TABLES ON {database}.* TO modest")
    stop = threading.Event()

    def write(table: str) -> None:
        with contextlib.closing(connect(address(mysql_server))) as writer:
            while not stop.is_set():
                ask(writer, f"INSERT INTO {database}.{table} VALUES ()")

    writers = [threading.Thread(target=write, args=(table,)) for table in ("t", "t", "t", "aside")]
    for writer in writers:
        writer.start()
    copies = []
    try:
        for _ in range(8):
            with open_initial_snapshot(modest, wanted) as copy:
                schema = copy.schemas[TableId(database, "t")]
                copies.append((copy.position, ids(copy.rows(schema.table, 1000))))
    finally:
        stop.set()
        for writer in writers:
            writer.join()

    there = sorted(number for (number,) in ask(root, "SELECT id FROM t"))
    for position, copied in copies:
        items = [item for item in read_all(mysql_server, position, wanted=wanted) if isinstance(item, RowsLogged)]
        assert sorted(copied + ids(decode_rows(schema, [item]) for item in items)) == there
    assert len({len(copied) for _, copied in copies}) > 1


def test_a_lock_of_tables_is_waited_for_and_let_go(
    root: pymysql.Connection, modest: MysqlServer, wanted: Callable[[TableId], bool]
) -> None:
    database = str(ask(root, "SELECT DATABASE()")[0][0])
    ask(root, f"GRANT LOCK TABLES ON {database}.* TO modest")
    ask(root, "BEGIN")
    ask(root, "INSERT INTO t VALUES (7)")
    committing = threading.Timer(1, ask, (root, "COMMIT"))
    committing.start()

    with open_initial_snapshot(modest, wanted) as copy:
        committing.join()
        ask(root, "INSERT INTO t VALUES (8)")
        found = ids(copy.rows(TableId(database, "t"), 10))

    assert found == [7]


def test_the_server_ends_a_lock_whose_holder_says_nothing_any_more(
    root: pymysql.Connection, modest: MysqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the host of the capture is lost: the server hears of that from nobody."""
    monkeypatch.setattr(write_locks, "LOST_SECONDS", 1)
    database = str(ask(root, "SELECT DATABASE()")[0][0])
    ask(root, f"GRANT LOCK TABLES ON {database}.* TO modest")

    ask(root, "SET lock_wait_timeout = 20")

    with (
        contextlib.closing(connect(modest)) as connection,
        write_locks.writes_locked(connection, [TableId(database, "t")]),
    ):
        ask(root, "INSERT INTO t VALUES (9)")

    assert ask(root, "SELECT id FROM t") == [(9,)]


def test_whoever_may_hold_up_nobody_is_told_what_to_grant(
    root: pymysql.Connection, modest: MysqlServer, wanted: Callable[[TableId], bool]
) -> None:
    with pytest.raises(UnfitServerError, match="lock out writers") as caught, open_initial_snapshot(modest, wanted):
        pass

    assert "GRANT RELOAD ON *.* TO modest" in caught.value.hint
    assert "GRANT LOCK TABLES ON *.* TO modest" in caught.value.hint
    assert lock_findings(modest) == ["error"]
    ask(root, f"GRANT LOCK TABLES ON {ask(root, 'SELECT DATABASE()')[0][0]}.* TO modest")
    assert lock_findings(modest) == ["ok"]


def test_a_table_that_goes_before_it_is_locked_is_worth_another_attempt(
    root: pymysql.Connection, modest: MysqlServer
) -> None:
    ask(root, "GRANT LOCK TABLES ON *.* TO modest")

    def drop_as_it_is_wanted(table: TableId) -> bool:
        if table.name == "aside":
            ask(root, "DROP TABLE IF EXISTS aside")
        return table.name == "aside"

    with pytest.raises(UnavailableError, match="dropped"), open_initial_snapshot(modest, drop_as_it_is_wanted):
        pass


def ids(batches: Iterable[RowBatch]) -> list[int]:
    """The ids of rows that came to be."""
    return [int(key or 0) for batch in batches if batch.after for key in batch.after["id"].to_pylist()]


def lock_findings(server: MysqlServer) -> list[str]:
    with contextlib.closing(connect(server)) as connection:
        return [finding.level for finding in examine(connection) if finding.subject == "grant RELOAD"]
