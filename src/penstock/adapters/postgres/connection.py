"""Connecting to PostgreSQL, and saying in our words what it refuses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors
from psycopg.conninfo import make_conninfo

from penstock.core.errors import PenstockError, RefusedStatementError, SinkError, UnavailableError
from penstock.core.sessions import POSTGRES_KEEPALIVE, POSTGRES_SESSION, postgres_statement, require_kept

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CONNECT_SECONDS = 10
_ALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
_SESSION: Mapping[str, str] = {
    **POSTGRES_SESSION,
    "lock_timeout": "1min",
    # A statement that takes longer has hung: the transaction is undone, and tried again.
    "statement_timeout": "1h",
    # Sorting and joining staged rows: one connection at a time does it.
    "work_mem": "64MB",
    # Of what we ANALYZE, which are staged rows, PostgreSQL has to know how many keys there are, and no more.
    "default_statistics_target": "1",
    # Statements are of many rows and little arithmetic: to compile them takes longer than it saves.
    "jit": "off",
}
# Of the documentation's appendix "Error Codes"; all others are about what a statement does, and so about its tables.
_OF_THE_SERVER = ("08", "25", "28", "3D", "53", "57", "58", "F0", "XX000")
_REFUSALS: Sequence[tuple[tuple[str, ...], str]] = (
    (("22",), "see which value or expression it means, and correct it in the source or in the target's table"),
    (("23", "44"), "drop the constraint or unique index that it names, which Penstock did not make"),
    (
        ("09", "21", "27", "2F", "38", "39", "HV", "P0"),
        "a trigger, rule or function in the target does not take the rows: correct or disable it",
    ),
    (("40", "55006"), "somebody uses the table all the time: look into pg_stat_activity"),
    (("42601",), "this is a mistake in Penstock: report it"),
    (("54",), "drop the index that it names; or leave the column, or the table, out of what the link carries"),
    (
        ("55",),
        "see what it lacks: ALTER TABLE ... REPLICA IDENTITY FULL, or take the table out of its publication",
    ),
    (("XX",), "the table or an index of it is damaged: REINDEX it, or restore the table"),
    (("",), "somebody altered the table or what depends on it: see the message, put it back as it was"),
)
"""What to do about codes that begin so."""
_AWAY_HINT = "check that the server runs and can be reached"
LOCK_HINT = (
    "somebody holds a lock on the table: look into pg_locks (SELECT pid, mode FROM pg_locks WHERE granted "
    "AND relation = 'SCHEMA.TABLE'::regclass), and end that transaction"
)
_LOGIN_HINT = "check the sink's user, password, database and tls"
_LOGIN_REFUSED = ("authentication failed", "no pg_hba.conf entry", "does not exist", "permission denied for database")
_KINDS: tuple[tuple[tuple[type[psycopg.Error], ...], type[PenstockError], str, str], ...] = (
    (
        (errors.InvalidPassword, errors.InvalidAuthorizationSpecification, errors.InvalidCatalogName),
        SinkError,
        "refused the login",
        _LOGIN_HINT,
    ),
    (
        (
            errors.AdminShutdown,
            errors.CannotConnectNow,
            errors.CrashShutdown,
            errors.IdleInTransactionSessionTimeout,
            errors.TooManyConnections,
        ),
        UnavailableError,
        "cannot be reached",
        _AWAY_HINT,
    ),
    ((errors.DiskFull,), UnavailableError, "has a full disk", "free some space there: it goes on by itself"),
    (
        (errors.ConfigurationLimitExceeded,),
        RefusedStatementError,
        "has reached one of its limits",
        "raise the limit that it names (such as temp_file_limit), and run again",
    ),
    (
        (errors.InsufficientResources,),
        UnavailableError,
        "has reached one of its limits",
        "make room there: it goes on by itself",
    ),
    (
        (errors.InsufficientPrivilege,),
        RefusedStatementError,
        "does not permit it",
        "grant it: the `user` of the sink must own its tables, and needs CREATE on the database",
    ),
    (
        (errors.ReadOnlySqlTransaction,),
        UnavailableError,
        "is read-only",
        "point the sink at the primary, or make the server writable",
    ),
    (
        (errors.LockNotAvailable,),
        UnavailableError,
        "did not grant a lock in time",
        LOCK_HINT,
    ),
    (
        (errors.DependentObjectsStillExist,),
        RefusedStatementError,
        "cannot change what others depend on",
        "drop what is named above, and make it again when the table has gone on",
    ),
    (
        (errors.QueryCanceled,),
        UnavailableError,
        "ended a statement of Penstock's",
        "read its log: somebody cancelled it, or a limit (such as statement_timeout) did",
    ),
)


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A database of a server and our login to it; `tls` are libpq's own parameters (sslmode, sslrootcert ...)."""

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
    tls: Mapping[str, str]

    def __str__(self) -> str:
        """Where it is, without the password."""
        return f"postgresql://{self.user}@{self.host}:{self.port}/{self.database}"


def connect(server: PostgresServer) -> psycopg.Connection:
    """Connect, in autocommit mode, with the session settings that we depend on.

    A lock that another session holds is waited for a minute. Raises
    UnavailableError and SinkError as `explain` says, and UnfitServerError for a
    session that does not take our settings.
    """
    try:
        connection = psycopg.connect(_conninfo(server), autocommit=True)
    except psycopg.Error as error:
        raise explain(server, error) from error
    try:
        _pin(server, connection)
    except BaseException:
        connection.close()
        raise
    # Each statement is planned for the rows that are there now.
    connection.prepare_threshold = None
    return connection


def _pin(server: PostgresServer, connection: psycopg.Connection) -> None:
    try:
        found = connection.execute(postgres_statement(_SESSION).encode()).fetchall()
        connection.execute(postgres_statement(POSTGRES_KEEPALIVE).encode())
    except psycopg.Error as error:
        raise explain(server, error) from error
    require_kept(server, [(name, _SESSION[name], value) for name, value in found])


def _conninfo(server: PostgresServer) -> str:
    return make_conninfo(
        host=server.host,
        port=server.port,
        dbname=server.database,
        user=server.user,
        password=server.password,
        connect_timeout=_CONNECT_SECONDS,
        application_name="penstock",
        **{name: str(value) for name, value in (_ALIVE | dict(server.tls)).items()},
    )


def explain(server: PostgresServer, error: psycopg.Error) -> PenstockError:
    """Turn a driver's error into ours: UnavailableError where trying again may help, else SinkError."""
    cause = str(error).strip()
    for kinds, class_, what, hint in _KINDS:
        if isinstance(error, kinds):
            return class_(f"{server} {what}: {cause}", hint)
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        # What is refused while connecting comes without its code.
        if any(refused in cause for refused in _LOGIN_REFUSED):
            return SinkError(f"{server} refused the login: {cause}", _LOGIN_HINT)
        return UnavailableError(f"{server} cannot be reached: {cause}", _AWAY_HINT)
    code = error.sqlstate
    if code is not None and not code.startswith(_OF_THE_SERVER):
        hint = next(hint for codes, hint in _REFUSALS if code.startswith(codes))
        return RefusedStatementError(f"{server} refused a statement: {cause}", f"{hint}, and run again")
    return SinkError(f"{server} refused a statement: {cause}", "run again; report it if it stays")
