from __future__ import annotations

import pickle

import pymysql
import pytest
from pymysql.constants import CR, ER

from penstock.adapters.mysql.connection import MysqlServer, connect, error_code, explain
from penstock.core.errors import PenstockError, UnavailableError, UnfitServerError

SERVER = MysqlServer("db.example", 3306, "cdc", "secret")
CASES: list[tuple[pymysql.err.MySQLError, type[PenstockError]]] = [
    (pymysql.err.OperationalError(CR.CR_SERVER_LOST, "lost"), UnavailableError),
    (pymysql.err.OperationalError(CR.CR_CONN_HOST_ERROR, "refused"), UnavailableError),
    (pymysql.err.InterfaceError(0, ""), UnavailableError),
    (pymysql.err.OperationalError(ER.LOCK_WAIT_TIMEOUT, "waited"), UnavailableError),
    (pymysql.err.OperationalError(1927, "MariaDB: Connection was killed"), UnavailableError),
    (pymysql.err.OperationalError(3032, "MySQL: The server is currently in offline mode"), UnavailableError),
    (pymysql.err.OperationalError(ER.CANT_CREATE_THREAD, "no thread"), UnavailableError),
    (pymysql.err.OperationalError(ER.ACCESS_DENIED_ERROR, "no"), UnfitServerError),
    (pymysql.err.OperationalError(ER.DUP_FIELDNAME, "twice"), UnfitServerError),
    (pymysql.err.OperationalError(CR.CR_AUTH_PLUGIN_CANNOT_LOAD, "parsec"), UnfitServerError),
    (pymysql.err.OperationalError(CR.CR_SSL_CONNECTION_ERROR, "no TLS"), UnfitServerError),
    (pymysql.err.OperationalError(ER.USER_LIMIT_REACHED, "enough"), UnavailableError),
    (pymysql.err.OperationalError(ER.HOST_IS_BLOCKED, "blocked"), UnfitServerError),
    (pymysql.err.ProgrammingError(ER.PARSE_ERROR, "syntax"), UnfitServerError),
    (pymysql.err.MySQLError(), UnfitServerError),
]


@pytest.mark.parametrize(("error", "kind"), CASES)
def test_an_error_says_whether_the_server_is_away_or_refuses(
    error: pymysql.err.MySQLError, kind: type[PenstockError]
) -> None:
    explained = explain(error, SERVER)

    assert type(explained) is kind
    assert "cdc@db.example:3306" in explained.message
    assert "secret" not in repr(pickle.loads(pickle.dumps(explained)).args)  # noqa: S301 - our own bytes


def test_the_servers_number_is_found_behind_our_error() -> None:
    raw = pymysql.err.OperationalError(ER.DUP_FIELDNAME, "twice")
    explained = explain(raw, SERVER)
    explained.__cause__ = raw

    assert error_code(explained) == error_code(raw) == ER.DUP_FIELDNAME
    assert error_code(ValueError("other")) == 0


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(UnavailableError, match="does not answer"):
        connect(MysqlServer("127.0.0.1", 1, "cdc", "secret"), timeout_seconds=1)
