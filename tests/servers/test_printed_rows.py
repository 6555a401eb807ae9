"""What a SELECT prints comes as pymysql itself would read it, however rows lie in what arrives."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pymysql
import pytest

from penstock.adapters.mysql.catalog import read_flavour
from penstock.adapters.mysql.connection import MysqlServer, ask, connect
from penstock.adapters.mysql.printed_rows import stream_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

SIZES = (0, 1, 250, 251, 70_000, (1 << 24) + 5, 7)
NUMBERS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000) "


@pytest.fixture
def server(any_source: MariadbServer | OracleMysql) -> MysqlServer:
    return MysqlServer(any_source.host, any_source.port, any_source.user, any_source.password)


@pytest.fixture
def connection(server: MysqlServer) -> Iterator[pymysql.Connection]:
    with contextlib.closing(connect(server)) as opened:
        limit = "max_recursive_iterations" if read_flavour(opened) == "mariadb" else "cte_max_recursion_depth"
        ask(opened, f"SET {limit} = 5000")
        yield opened


def test_rows_of_all_sizes_and_null_are_those_that_were_asked_for(
    server: MysqlServer, connection: pymysql.Connection
) -> None:
    sizes = " UNION ALL ".join(f"SELECT {n} n, REPEAT('x', {size}) v" for n, size in enumerate(SIZES))
    rows = [row for part in stream_rows(server, connection, f"SELECT n, v, NULL FROM ({sizes}) t ORDER BY n", 3)
            for row in map(part.row, range(len(part)))]  # fmt: skip

    assert [(int(row[0] or b""), len(row[1] or b""), row[2]) for row in rows] == [
        (n, size, None) for n, size in enumerate(SIZES)
    ]


def test_many_rows_come_in_batches_and_the_connection_goes_on(
    server: MysqlServer, connection: pymysql.Connection
) -> None:
    sql = f"{NUMBERS}SELECT i, REPEAT(i, 50) FROM n ORDER BY i"
    parts = list(stream_rows(server, connection, sql, 1500))

    assert [len(part) for part in parts] == [1500, 1500, 1000]
    numbers = [int(value.as_py()) for part in parts for value in part.columns[0]]
    assert numbers == list(range(1, 4001))
    assert all(part.row(n)[1] == (part.row(n)[0] or b"") * 50 for part in parts for n in (0, 700, -1))
    assert ask(connection, "SELECT 1") == [(1,)]


def test_a_caller_that_stops_early_and_an_error_amid_rows_leave_a_connection_that_answers(
    server: MysqlServer, connection: pymysql.Connection
) -> None:
    with contextlib.closing(stream_rows(server, connection, f"{NUMBERS}SELECT i FROM n", 10)) as early:
        assert len(next(early)) == 10
    assert ask(connection, "SELECT 1") == [(1,)]

    broken = f"{NUMBERS}SELECT i, IF(i > 3000, (SELECT 1 UNION SELECT 2), 0) FROM n"
    with pytest.raises(pymysql.err.MySQLError, match="more than 1 row"):
        list(stream_rows(server, connection, broken, 100))
    assert ask(connection, "SELECT 1") == [(1,)]
