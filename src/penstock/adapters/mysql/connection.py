"""Connections to a MySQL or MariaDB server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pymysql
from pymysql.constants import CR, ER

from penstock.adapters.mysql.login import Tls, clear_text_plugins, explain_login, tls_context
from penstock.core.errors import PenstockError, UnavailableError, UnfitServerError, UsageError
from penstock.core.sessions import mysql_query, mysql_statement, require_kept

# Codes from 2000 to 2999 are the client's own: it could not connect, or lost the server.
_BUFFER_BYTES = 256 << 10
_CLIENT_ERRORS = range(CR.CR_ERROR_FIRST, 3000)
# The driver has no names for these: MariaDB's ER_CONNECTION_KILLED, MySQL's ER_SERVER_OFFLINE_MODE and
# ER_CLIENT_INTERACTION_TIMEOUT.
_CONNECTION_KILLED, _SERVER_OFFLINE, _IDLE_FOR_TOO_LONG = 1927, 3032, 4031
_WORTH_A_RETRY = frozenset(
    {
        ER.SERVER_SHUTDOWN,
        ER.CON_COUNT_ERROR,
        ER.TOO_MANY_USER_CONNECTIONS,
        ER.USER_LIMIT_REACHED,
        ER.NEW_ABORTING_CONNECTION,
        ER.LOCK_WAIT_TIMEOUT,
        ER.LOCK_DEADLOCK,
        ER.QUERY_INTERRUPTED,
        ER.TABLE_DEF_CHANGED,
        ER.OUTOFMEMORY,
        ER.OUT_OF_RESOURCES,
        ER.CANT_CREATE_THREAD,
        _CONNECTION_KILLED,
        _SERVER_OFFLINE,
        _IDLE_FOR_TOO_LONG,
    }
)


@dataclass(frozen=True, slots=True)
class MysqlServer:
    """Where a server is, who we are to it, and how we are encrypted (None: not). The password never shows in a repr."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    tls: Tls | None = None

    def __str__(self) -> str:
        """`user@host:port`, for messages."""
        return f"{self.user}@{self.host}:{self.port}"


def connect(
    server: MysqlServer, timeout_seconds: float = 10.0, silence_seconds: float | None = None
) -> pymysql.Connection:
    """Open a connection with the session settings that we depend on, autocommit on, in `timeout_seconds`.

    Every read and write is bounded by `silence_seconds`, by default ten times as long.

    Raises UsageError for files of `tls` that cannot be used, UnfitServerError for
    a refused login, for a certificate that we do not trust and for a session
    that does not take our settings, and UnavailableError for a server that does not answer.
    """
    try:
        connection = _Connection(server, timeout_seconds, silence_seconds or timeout_seconds * 10)
    except pymysql.err.MySQLError as error:
        raise explain(error, server) from error
    except RuntimeError as error:
        # What pymysql says of a package that one way to log in needs.
        message = f"{server} uses an authentication plugin that takes another package: {error}"
        raise UsageError(message, "type: make setup") from error
    try:
        require_kept(server, ask(connection, mysql_query()))
    except BaseException:
        connection.close()
        raise
    return connection


class _Connection(pymysql.Connection):
    """A connection that knows where it leads, and gives away what has arrived of an answer."""

    # pymysql's own, of which its type stubs do not know.
    _rfile: Any
    _sock: Any
    _next_seq_id: int

    def __init__(self, server: MysqlServer, timeout_seconds: float, silence_seconds: float) -> None:
        """Connect and log in."""
        self.server = server
        super().__init__(
            host=server.host,
            port=server.port,
            user=server.user,
            # As the servers' own clients send it; of text pymysql would make Latin-1.
            password=server.password.encode(),
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=int(timeout_seconds),
            read_timeout=int(silence_seconds),
            write_timeout=int(silence_seconds),
            init_command=mysql_statement(),
            # Never by chance: without `tls`, no TLS either where the server offers it.
            ssl=tls_context(server.tls) if server.tls else None,
            ssl_disabled=server.tls is None,
            auth_plugin_map=clear_text_plugins(server.tls),
        )
        # Nothing has arrived before a question. More than pymysql's 8 KiB at once lets rows be read together.
        self._rfile.close()
        self._rfile = self._sock.makefile("rb", buffering=_BUFFER_BYTES)

    def arrived(self) -> bytes:
        """Return what has arrived of an answer, which is waited for where nothing has; nothing of a lost connection."""
        try:
            return b"" if self._rfile is None else self._rfile.peek()
        except OSError:
            # Whoever reads on hears of it.
            return b""

    def take(self, size: int, sequence: int) -> None:
        """Take `size` bytes of what has arrived, whose last packet has the number `sequence`."""
        self._rfile.read(size)
        self._next_seq_id = (sequence + 1) % 256


def ask(connection: pymysql.Connection, sql: str) -> list[tuple[Any, ...]]:
    """Run one statement that stands for itself and return its rows; errors are explained as `explain` does.

    Lone surrogates in `sql` are the bytes that they stand for.
    """
    try:
        with connection.cursor() as cursor:
            # pymysql takes bytes as they are; its type stubs do not know.
            cursor.execute(sql.encode("utf-8", "surrogateescape"))  # type: ignore[call-overload]
            return list(cursor.fetchall())
    except pymysql.err.MySQLError as error:
        raise explain(error, server_of(connection)) from error


def buffered(connection: pymysql.Connection) -> _Connection:
    """A connection that `connect` opened, whose answers may be read without pymysql."""
    assert isinstance(connection, _Connection)  # noqa: S101 - all of them are opened above
    return connection


def server_of(connection: pymysql.Connection) -> MysqlServer:
    """Where a connection that `connect` opened leads, and as whom."""
    return buffered(connection).server


def error_code(error: BaseException | None) -> int:
    """The server's number of a driver's error, or of one of ours that was explained from it; 0 if there is none."""
    raw = error if isinstance(error, pymysql.err.MySQLError) else getattr(error, "__cause__", None)
    if isinstance(raw, pymysql.err.MySQLError) and raw.args and isinstance(raw.args[0], int):
        return raw.args[0]
    return 0


def explain(error: pymysql.err.MySQLError, server: MysqlServer) -> PenstockError:
    """Turn a driver's error into ours: UnavailableError if the server is away, UnfitServerError if it refuses."""
    code = error.args[0] if error.args else 0
    login = explain_login(error, str(server), server.tls)
    if login is not None:
        return login
    # pymysql calls most errors of the server OperationalError; only its number tells a lost server from a refusal.
    if code in _CLIENT_ERRORS or isinstance(error, pymysql.err.InterfaceError):
        return UnavailableError(f"{server} does not answer: {error}", "check that the server runs and can be reached")
    if code in _WORTH_A_RETRY:
        hint = "try again; if it comes again, look for long statements and locks on the server"
        return UnavailableError(f"{server} gave up on a statement: {error.args[-1]}", hint)
    return UnfitServerError(
        f"{server} refused a statement: {error}", "check the server's version and the grants of the user"
    )
