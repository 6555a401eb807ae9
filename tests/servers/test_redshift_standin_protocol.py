"""The stand-in speaks to real clients as Redshift does: start-up, TLS, logins, both protocols, pipelines, cancel."""

from __future__ import annotations

import contextlib
import datetime as dt
import socket
import struct
import threading
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import redshift_connector
from redshift_connector.error import InterfaceError
from tests.servers.redshift_case import log_in, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redshift_connector.core import Connection

    from penstock.dev.redshift import RedshiftServer

# The connector makes its TLS context as Python 3.10 wished, and leaves sockets open where TLS fails.
pytestmark = [
    pytest.mark.filterwarnings("ignore:ssl.:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def connector(redshift: RedshiftServer) -> Iterator[Connection]:
    with _connect(redshift, ssl=False) as connection:
        yield connection


def test_the_connector_verifies_the_certificate(redshift: RedshiftServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(redshift.certificate))

    with _connect(redshift, ssl=True, sslmode="verify-full") as connection:
        assert _ask(connection, "SELECT 1") == [[1]]


def test_the_connector_refuses_a_certificate_that_it_does_not_know(redshift: RedshiftServer) -> None:
    with pytest.raises(InterfaceError):
        _connect(redshift, ssl=True)


@pytest.mark.parametrize("sslmode", ["disable", "prefer", "require"])
def test_psycopg_connects_with_and_without_tls(redshift: RedshiftServer, sslmode: str) -> None:
    with log_in(redshift, sslmode=sslmode) as connection:
        assert connection.pgconn.ssl_in_use == (sslmode != "disable")
        assert "Redshift" in run(connection, "SELECT version()")[0][0]


@pytest.mark.parametrize("encryption", ["md5", "scram-sha-256"])
def test_both_clients_log_in_with_each_kind_of_password(redshift: RedshiftServer, encryption: str) -> None:
    name = f"user_{encryption.replace('-', '_')}"
    with log_in(redshift) as owner:
        run(owner, f"SET password_encryption TO '{encryption}'", f"CREATE USER {name} PASSWORD 'Secret123'")

    with log_in(redshift, user=name, password="Secret123") as connection:
        assert run(connection, "SELECT current_user") == [(name,)]
    with _connect(redshift, ssl=False, user=name, password="Secret123") as other:
        assert _ask(other, "SELECT 1") == [[1]]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        log_in(redshift, user=name, password="Wrong1234")


@pytest.mark.parametrize(
    ("style", "text", "values"),
    [
        ("qmark", "SELECT ?::int + ?::int, ?", (1, 2, "it's")),
        ("numeric", "SELECT :1::int + :2::int, :3", (1, 2, "it's")),
        ("named", "SELECT :a::int + :b::int, :c", {"a": 1, "b": 2, "c": "it's"}),
        ("format", "SELECT %s::int + %s::int, %s", (1, 2, "it's")),
        ("pyformat", "SELECT %(a)s::int + %(b)s::int, %(c)s", {"a": 1, "b": 2, "c": "it's"}),
    ],
)
def test_every_paramstyle_works(connector: Connection, style: str, text: str, values: object) -> None:
    cursor = connector.cursor()
    cursor.paramstyle = style

    cursor.execute(text, values)

    assert cursor.fetchall() == ([3, "it's"],)


def test_values_of_all_types_arrive(connector: Connection) -> None:
    cursor = connector.cursor()
    cursor.execute(
        "CREATE TEMP TABLE every (a SMALLINT, b INT, c BIGINT, d NUMERIC(38,10), e REAL, f DOUBLE PRECISION, g BOOLEAN,"
        " h CHAR(3), i VARCHAR(MAX), j DATE, k TIMESTAMP, l TIMESTAMPTZ, m TIME, n SUPER, o VARBYTE(10), p GEOMETRY)"
    )
    cursor.execute(
        "INSERT INTO every VALUES (1, 2, 3, 12345678901234567890.5, 1.5, 2.5, true, 'ab', 'text', '2024-02-29',"
        " '2024-02-29 12:34:56.789', '2024-02-29 12:34:56+02', '12:34:56', JSON_PARSE('{\"a\": [1, \"x y\"]}'),"
        " FROM_HEX('616263'), '01010000000000000000000000000000000000F03F')"
    )
    cursor.execute("SELECT * FROM every")

    found = [column[1] for column in cursor.description]
    (row,) = cursor.fetchall()
    assert found == [21, 23, 20, 1700, 700, 701, 16, 1042, 1043, 1082, 1114, 1184, 1083, 4000, 6551, 3000]
    assert row == [
        *[1, 2, 3, Decimal("12345678901234567890.5000000000"), 1.5, 2.5, True, "ab ", "text", dt.date(2024, 2, 29)],
        dt.datetime(2024, 2, 29, 12, 34, 56, 789_000),  # noqa: DTZ001 - the column has none
        dt.datetime(2024, 2, 29, 10, 34, 56, tzinfo=dt.UTC),
        *[dt.time(12, 34, 56), '{"a":[1,"x y"]}', "abc", "01010000000000000000000000000000000000F03F"],
    ]


def test_statements_of_one_query_string_are_one_transaction(redshift: RedshiftServer) -> None:
    with log_in(redshift) as connection:
        run(connection, "DROP TABLE IF EXISTS several", "CREATE TABLE several (a INT)")

        with pytest.raises(psycopg.errors.DivisionByZero):
            run(connection, "INSERT INTO several VALUES (1); SELECT 1/0")

        assert run(connection, "SELECT count(*) FROM several") == [(0,)]
        run(connection, "INSERT INTO several VALUES (1); INSERT INTO several VALUES (2)")
        assert run(connection, "SELECT count(*) FROM several") == [(2,)]


def test_a_pipeline_that_fails_in_the_middle_leaves_nothing(redshift: RedshiftServer) -> None:
    with log_in(redshift) as connection:
        run(connection, "DROP TABLE IF EXISTS piped", "CREATE TABLE piped (a INT)")

        with pytest.raises(psycopg.Error, match="not supported"):
            _pipe_three(connection)

        assert run(connection, "SELECT count(*) FROM piped") == [(0,)]
        with connection.pipeline():
            for number in range(500):
                connection.execute("INSERT INTO piped VALUES (%s)", [number])
        assert run(connection, "SELECT count(*), sum(a) FROM piped") == [(500, 124_750)]


def test_a_refusal_of_the_stand_in_aborts_the_clients_transaction(redshift: RedshiftServer) -> None:
    with log_in(redshift, autocommit=False) as connection:
        run(connection, "CREATE TEMP TABLE aborted (a INT)")

        with pytest.raises(psycopg.errors.FeatureNotSupported):
            run(connection, "CREATE INDEX i ON aborted (a)")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            run(connection, "SELECT 1")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            run(connection, "VACUUM")
        connection.rollback()

        assert run(connection, "SELECT 1") == [(1,)]


def test_a_statement_can_be_cancelled(redshift: RedshiftServer) -> None:
    with log_in(redshift) as connection:
        timer = threading.Timer(0.5, connection.cancel)
        timer.start()
        begun = time.monotonic()

        with pytest.raises(psycopg.errors.QueryCanceled, match="cancelled on user's request"):
            run(connection, "SELECT pg_sleep(60)")

        assert time.monotonic() - begun < 30
        assert run(connection, "SELECT 1") == [(1,)]


def test_a_client_that_is_cut_off_leaves_nothing_behind(redshift: RedshiftServer) -> None:
    with log_in(redshift) as connection:
        run(connection, "DROP TABLE IF EXISTS cut_off", "CREATE TABLE cut_off (a INT)")
        other = log_in(redshift, autocommit=False)
        run(other, "INSERT INTO cut_off VALUES (1)")

        # No goodbye: the socket is closed under the client.
        socket.socket(fileno=other.pgconn.socket).close()

        # This waits for the other's lock, which goes with it.
        run(connection, "BEGIN", "INSERT INTO cut_off VALUES (2)", "COMMIT")
        assert run(connection, "SELECT a FROM cut_off") == [(2,)]
        with contextlib.suppress(psycopg.Error):
            other.close()


def test_what_is_no_start_up_is_turned_away(redshift: RedshiftServer) -> None:
    with socket.create_connection((redshift.host, redshift.port), timeout=10) as raw:
        raw.sendall(struct.pack("!II", 8, 2 << 16))

        answer = raw.makefile("rb").read()

    assert b"unsupported frontend protocol" in answer


def _pipe_three(connection: psycopg.Connection) -> None:
    """The second is refused by the stand-in itself: PostgreSQL must lose the first with it."""
    with connection.pipeline():
        connection.execute("INSERT INTO piped VALUES (1)")
        connection.execute("CREATE INDEX i ON piped (a)")
        connection.execute("INSERT INTO piped VALUES (2)")


def _connect(server: RedshiftServer, **more: Any) -> Connection:  # noqa: ANN401 - the connector's own
    login = {"user": server.user, "password": server.password, "database": server.database, **more}
    return redshift_connector.connect(host=server.host, port=server.port, timeout=60, **login)


def _ask(connection: Connection, text: str) -> list[list[Any]]:
    cursor = connection.cursor()
    cursor.execute(text)
    return list(cursor.fetchall())
