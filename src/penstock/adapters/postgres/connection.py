"""Connecting to PostgreSQL, and saying in our words what it refuses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors
from psycopg.conninfo import make_conninfo

from penstock.core.errors import PenstockError, RefusedStatementError, SinkError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping

_CONNECT_SECONDS = 10
_LOCK_SECONDS = 60
_ALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
# Classes 22, 23, 42, 2B and 0A of the documentation's appendix "Error Codes".
_ABOUT_A_TABLE = (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError, psycopg.NotSupportedError)
_AWAY_HINT = "check that the server runs and can be reached"
LOCK_HINT = "somebody holds a lock on the table: look into pg_locks, and end that transaction"
_LOGIN_HINT = "check the sink's user, password, database and tls"
_LOGIN_REFUSED = ("authentication failed", "no pg_hba.conf entry", "does not exist", "permission denied for database")
_KINDS: tuple[tuple[tuple[type[psycopg.Error], ...], type[PenstockError], str, str], ...] = (
    (
        (errors.InvalidPassword, errors.InvalidAuthorizationSpecification, errors.InvalidCatalogName),
        SinkError,
        "does not let us in",
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
        "is away",
        _AWAY_HINT,
    ),
    ((errors.DiskFull,), SinkError, "has a full disk", "free some space there; a rerun goes on from here"),
    (
        (errors.ConfigurationLimitExceeded, errors.InsufficientResources),
        SinkError,
        "has reached a limit that is set for us",
        "raise the limit that it names (such as temp_file_limit), or make room; a rerun goes on from here",
    ),
    (
        (errors.InsufficientPrivilege,),
        RefusedStatementError,
        "does not permit it",
        "grant it: our user must own its tables, and needs CREATE on the database",
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
        f"did not give us a lock within {_LOCK_SECONDS} s",
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
        "ended a statement of ours",
        "see who cancelled it, or which limit of the server",
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
    """Connect, in autocommit mode, reading and writing times in UTC.

    A lock that another session holds is waited for a minute. Raises
    UnavailableError and SinkError as `explain` says.
    """
    try:
        connection = psycopg.connect(_conninfo(server), autocommit=True)
    except psycopg.Error as error:
        raise explain(server, error) from error
    # Each statement is planned for the rows that are there now.
    connection.prepare_threshold = None
    return connection


def _conninfo(server: PostgresServer) -> str:
    settings = {
        "timezone": "UTC",
        "datestyle": "ISO",
        "lock_timeout": f"{_LOCK_SECONDS}s",
        "synchronous_commit": "on",
        # Sorting and joining staged rows: one connection at a time does it.
        "work_mem": "64MB",
        # Of what we ANALYZE, which are staged rows, PostgreSQL has to know how many keys there are, and no more.
        "default_statistics_target": "1",
        # Statements are of many rows and little arithmetic: to compile them takes longer than it saves.
        "jit": "off",
    }
    return make_conninfo(
        host=server.host,
        port=server.port,
        dbname=server.database,
        user=server.user,
        password=server.password,
        connect_timeout=_CONNECT_SECONDS,
        application_name="penstock",
        options=" ".join(f"-c {name}={value}" for name, value in settings.items()),
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
            return SinkError(f"{server} does not let us in: {cause}", _LOGIN_HINT)
        return UnavailableError(f"{server} is away: {cause}", _AWAY_HINT)
    if isinstance(error, _ABOUT_A_TABLE) and not isinstance(error, errors.SyntaxError):
        hint = "somebody altered the table or what depends on it: see the message, put it back as it was, and run again"
        return RefusedStatementError(f"{server} refused a statement: {cause}", hint)
    return SinkError(f"{server} refused a statement: {cause}", "run again; report it if it stays")
