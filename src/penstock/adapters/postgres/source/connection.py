"""Connecting to PostgreSQL as a source, and saying in our words what it refuses."""

from __future__ import annotations

import re
import select
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import errors, pq
from psycopg.conninfo import make_conninfo

from penstock.core.errors import PenstockError, UnavailableError, UnfitServerError
from penstock.core.postgres.bad_values import FIX_ROW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg.pq.abc import PGconn, PGresult

    from penstock.adapters.postgres.connection import PostgresServer

_CONNECT_SECONDS: Final = 10
_LOCK_SECONDS: Final = 60
_ALIVE: Final = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
PRINTED: Final = {
    "timezone": "UTC",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "3",
}
"""How values are printed: `penstock.core.postgres.values` reads nothing else."""
_SETTINGS: Final = PRINTED | {
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    # A policy that hides rows from us is an error then, and not fewer rows.
    "row_security": "off",
    # Nobody can put another table or function before those that we name.
    "search_path": "pg_catalog",
    "lock_timeout": f"{_LOCK_SECONDS}s",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
UNCHECKED: Final = "SQL_ASCII"
"""The encoding of a server that takes bytes of any encoding for text."""
_TRANSACTION_TIMEOUT_SINCE: Final = 170000
_AWAY: Final = "check that the server runs and can be reached"
_LOGIN: Final = "check the source's host, database, user, password and tls; pg_hba.conf must let the user in"
_REFUSED_AT_THE_DOOR: Final = ("authentication failed", "no pg_hba.conf entry", "does not exist", "permission denied")
_GRANTS: Final = (
    "grant it: ALTER ROLE {user} REPLICATION, or on Amazon RDS GRANT rds_replication TO {user}; "
    "GRANT USAGE ON SCHEMA ... TO {user}; GRANT SELECT ON ALL TABLES IN SCHEMA ... TO {user}"
)
_PLUGIN: Final = (
    "ALTER SYSTEM SET output_plugin_libraries = 'pgoutput, ...', with what others need, and SELECT pg_reload_conf(); "
    "where there is no such setting, pgoutput, which is a part of PostgreSQL, is missing: install it, or ask the "
    "server's provider for it"
)
_SAID: Final[tuple[tuple[re.Pattern[str], type[PenstockError], str, str], ...]] = (
    (
        # Before PostgreSQL 16, and from then on.
        re.compile("to start walsender|to start WAL sender"),
        UnfitServerError,
        "does not let {user} read the log: {cause}",
        _GRANTS,
    ),
    (
        re.compile(r'may not be used as an output plugin|could not access file ".*pgoutput"'),
        UnfitServerError,
        "does not let the log be read by pgoutput: {cause}",
        _PLUGIN,
    ),
    (
        # For a moment only, where a failover is under way. At a start a standby is refused: see preflight.require_fit.
        re.compile("recovery is in progress"),
        UnavailableError,
        "is a standby",
        "let `host` and `port` lead to the primary, or promote the standby",
    ),
    (
        re.compile("conflict with recovery"),
        UnavailableError,
        "is a standby, and ended a query that held up its replay: {cause}",
        "raise max_standby_streaming_delay there, or set hot_standby_feedback = on",
    ),
    (
        # PostgreSQL 17 and later quote the setting's name.
        re.compile('requires "?wal_level"?'),
        UnfitServerError,
        "has a wal_level that is not logical, so its log has no rows",
        "ALTER SYSTEM SET wal_level = 'logical', and restart the server",
    ),
)
_NO_SLOT: Final = "SELECT * FROM pg_replication_slots: drop those that nobody needs, or raise max_replication_slots"
NO_TEXT: Final = (errors.CharacterNotInRepertoire, errors.UntranslatableCharacter)
"""What a server says that cannot send a text as UTF-8: a byte of it is no character."""
_KINDS: Final[tuple[tuple[tuple[type[psycopg.Error], ...], type[PenstockError], str], ...]] = (
    (
        (errors.InvalidPassword, errors.InvalidAuthorizationSpecification, errors.InvalidCatalogName),
        UnfitServerError,
        _LOGIN,
    ),
    ((errors.InsufficientPrivilege,), UnfitServerError, _GRANTS),
    (NO_TEXT, UnfitServerError, FIX_ROW),
    ((errors.ConfigurationLimitExceeded,), UnfitServerError, _NO_SLOT),
    ((errors.ObjectInUse,), UnavailableError, "another instance, or what is left of one, still reads it: it ends soon"),
    ((errors.LockNotAvailable,), UnavailableError, "somebody holds a lock on the table: look into pg_locks"),
    (
        (errors.QueryCanceled,),
        UnavailableError,
        "read its log: somebody cancelled it, or a limit (such as statement_timeout) did",
    ),
)


def connect(server: PostgresServer) -> psycopg.Connection:
    """Connect in autocommit mode; values are printed as `core.postgres.values` reads them. Raises as `explain` says."""
    return _connect(server, replication=False)


def connect_to_log(server: PostgresServer) -> psycopg.Connection:
    """Connect to a process of the server that also takes commands of the replication protocol."""
    return _connect(server, replication=True)


def _connect(server: PostgresServer, *, replication: bool) -> psycopg.Connection:
    more: dict[str, str] = {"replication": "database"} if replication else {}
    conninfo = make_conninfo(
        host=server.host,
        port=server.port,
        dbname=server.database,
        user=server.user,
        password=server.password,
        connect_timeout=_CONNECT_SECONDS,
        application_name="penstock",
        options=" ".join(f"-c {name}={value}" for name, value in _SETTINGS.items()),
        **{name: str(value) for name, value in (_ALIVE | dict(server.tls) | more).items()},
    )
    with explained(server):
        connection = psycopg.connect(conninfo, autocommit=True)
        try:
            _settle(connection, replication=replication)
        except BaseException:
            connection.close()
            raise
    connection.prepare_threshold = None
    return connection


def _settle(connection: psycopg.Connection, *, replication: bool) -> None:
    """Set what not every server knows, or wants."""
    if connection.info.server_version >= _TRANSACTION_TIMEOUT_SINCE:
        run_command(connection, "SET transaction_timeout = 0", _CONNECT_SECONDS)
    if replication and connection.info.parameter_status("server_encoding") == UNCHECKED:
        # Such a server looks at what it sends, but not at what it is given, and would end the log at a bad value.
        run_command(connection, f"SET client_encoding = '{UNCHECKED}'", _CONNECT_SECONDS)


@contextmanager
def explained(server: PostgresServer) -> Iterator[None]:
    """Raise what the driver raises inside as `explain` says it."""
    try:
        yield
    except psycopg.Error as error:
        raise explain(server, error) from error


@contextmanager
def connected(server: PostgresServer) -> Iterator[psycopg.Connection]:
    """Connect for as long as it takes, and explain what goes wrong inside."""
    with closing(connect(server)) as connection, explained(server):
        yield connection


def explain(server: PostgresServer, error: psycopg.Error) -> PenstockError:
    """Turn a driver's error into ours: UnavailableError where trying again may help."""
    cause = str(error).strip()
    for sign, said_class, reason, remedy in _SAID:
        if sign.search(cause):
            message = f"{server} {reason.format(user=server.user, cause=cause)}"
            return said_class(message, remedy.format(user=server.user))
    for kinds, class_, hint in _KINDS:
        if isinstance(error, kinds):
            return class_(f"{server}: {cause}", hint.format(user=server.user))
    if isinstance(error, psycopg.OperationalError):
        if error.sqlstate is None and any(refused in cause for refused in _REFUSED_AT_THE_DOOR):
            return UnfitServerError(f"{server} refused the login: {cause}", _LOGIN)
        return UnavailableError(f"{server} cannot be reached: {cause}", _AWAY)
    return PenstockError(f"{server} refused a statement: {cause}", "run again; report it if it stays")


def run_command(connection: psycopg.Connection, command: str, seconds: float) -> PGresult:
    """Run a command of the replication protocol, for `seconds` at most, and return its first result.

    psycopg itself does not know the state that START_REPLICATION leads to. Raises psycopg.Error.
    """
    pgconn, deadline = connection.pgconn, time.monotonic() + seconds
    pgconn.send_query(command.encode())
    while pgconn.flush():
        _wait(pgconn, deadline, writes=True)
    pgconn.consume_input()
    while pgconn.is_busy():
        _wait(pgconn, deadline)
        pgconn.consume_input()
    result = pgconn.get_result()
    if result is None or result.status in {pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE}:
        raise raised(result)
    if result.status != pq.ExecStatus.COPY_BOTH:
        while pgconn.get_result() is not None:
            pass
    return result


def _wait(pgconn: PGconn, deadline: float, *, writes: bool = False) -> None:
    left = deadline - time.monotonic()
    if left > 0:
        reading, writing = [pgconn.socket], [pgconn.socket] if writes else []
        if any(select.select(reading, writing, [], left)):
            return
    message = "it did not answer in time"
    raise errors.OperationalError(message)


def raised(result: PGresult | None) -> psycopg.Error:
    """Return what the driver would raise for a result."""
    if result is None:
        return errors.OperationalError("the connection was lost")
    code = result.error_field(pq.DiagnosticField.SQLSTATE)
    text = result.error_message.decode(errors="replace").strip()
    class_ = errors.lookup(code.decode()) if code else errors.OperationalError
    return class_(text)
