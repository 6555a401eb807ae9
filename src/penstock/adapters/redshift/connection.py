"""Connecting to Amazon Redshift, and saying in our words what it refuses."""

from __future__ import annotations

import re
import struct
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import redshift_connector
from redshift_connector.core import Connection
from redshift_connector.error import Error as DriverError

from penstock.core.errors import PenstockError, RefusedStatementError, SinkError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redshift_connector.cursor import Cursor

_KEEPALIVE_SECONDS = 30
_CONNECT_SECONDS = 30
DRIVER_ERRORS: Final = (DriverError, OSError, struct.error, AttributeError, LookupError, ValueError)
"""What the driver raises: where a connection ends in mid-answer, also what it stumbles over then."""

_AWAY_HINT = "check that the cluster runs (is it paused?) and can be reached"
_LOGIN_HINT = "check the sink's user, password and database"
LOCK_HINT = "somebody holds a lock on the table: look into svv_transactions, and end that transaction"
_CONFLICT_HINT = "see in svv_transactions what else writes to the tables, and run again"
_MADE_BEFORE = ("42P06", "42P07")
_CONFLICTS = ("40001", "40P01", *_MADE_BEFORE)
_CONFLICT_WORDS = ("conflict with concurrent transaction", "deadlock detected", 'unique constraint "pg_')
# What is wrong with a value, by the numbers of "Load error reference". All else that is internal can be anybody's.
_OF_A_VALUE = re.compile(r"\bcode:\s+12\d\d\b")
# All others are about what a statement does, and so about its tables.
_OF_THE_SERVER = ("08", "25", "28", "3D", "53", "57", "58", "F0", "XX")
_KINDS: Final[Sequence[tuple[tuple[str, ...], type[PenstockError], str, str]]] = (
    (("28000", "28P01", "3D000"), SinkError, "refused the login", _LOGIN_HINT),
    (("08", "57P01", "57P02", "57P03", "53300"), UnavailableError, "cannot be reached", _AWAY_HINT),
    (("53100",), SinkError, "has a full disk", "free some space there, or resize it; a rerun goes on from here"),
    (
        ("42501",),
        RefusedStatementError,
        "does not permit it",
        "grant it: the `user` of the sink must own its tables, and needs CREATE and TEMP on the database",
    ),
    (("25001",), RefusedStatementError, "runs it in no transaction", "leave the statement out, and run it by hand"),
    (("25006",), UnavailableError, "is read-only", "point the sink at the producer, or make the database writable"),
    (
        ("57014",),
        UnavailableError,
        "ended a statement of Penstock's",
        "somebody cancelled it, or a limit of its workload management (WLM) did",
    ),
    (
        ("2BP01",),
        RefusedStatementError,
        "cannot change what others depend on",
        "drop what is named above, and make it again when the table has gone on",
    ),
)

# Whatever ALTER USER ... SET or a parameter group says.
_SESSION = (
    "client_encoding TO 'UTF8'",
    "datestyle TO 'ISO, MDY'",
    "timezone TO 'UTC'",
    # Names are lower case in quotes too, and in what a query's columns are called.
    "enable_case_sensitive_identifier TO false",
    "describe_field_name_in_uppercase TO off",
)


@dataclass(frozen=True, slots=True)
class RedshiftCluster:
    """A database of a cluster or a workgroup, and our login to it."""

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
    sslmode: Literal["verify-full", "verify-ca", "disable"] = "verify-full"

    def __str__(self) -> str:
        """Where it is, without the password."""
        return f"redshift://{self.user}@{self.host}:{self.port}/{self.database}"


def connect(cluster: RedshiftCluster) -> Connection:
    """Connect, without a transaction, with the session settings that we depend on.

    Raises UnavailableError and SinkError as `explain` says.
    """
    is_encrypted = cluster.sslmode != "disable"
    try:
        connection = redshift_connector.connect(
            host=cluster.host,
            port=cluster.port,
            database=cluster.database,
            user=cluster.user,
            password=cluster.password,
            ssl=is_encrypted,
            sslmode=cluster.sslmode if is_encrypted else None,
            application_name="penstock",
            timeout=_CONNECT_SECONDS,
            tcp_keepalive=True,
            tcp_keepalive_idle=_KEEPALIVE_SECONDS,
            tcp_keepalive_interval=_KEEPALIVE_SECONDS // 3,
            tcp_keepalive_count=3,
        )
        # From here on statements take as long as they take; keepalive notices who is gone.
        connection._usock.settimeout(None)  # noqa: SLF001 - there is no other way to tell connecting from waiting
        connection.autocommit = True
        for setting in _SESSION:
            execute(connection, f"SET {setting}")
    except DRIVER_ERRORS as error:
        _abandon(error)
        raise explain(cluster, error) from error
    return connection


def _abandon(error: BaseException) -> None:
    """Close the socket of a connection that did not come about; the driver leaves it open and gives it to nobody."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        half = frame.f_locals.get("self")
        if isinstance(half, Connection) and hasattr(half, "_usock"):
            half._usock.close()  # noqa: SLF001 - as above


def execute(connection: Connection, statement: str, values: Sequence[object] = ()) -> Cursor:
    """Run one statement; each `?` in it takes the next of `values`. Raises what the driver does (DRIVER_ERRORS)."""
    cursor = connection.cursor()
    cursor.paramstyle = "qmark"
    try:
        return cursor.execute(statement, list(values) or None)
    finally:
        # The driver keeps the text of every statement for as long as it is connected; ours differ each time.
        for kept in connection._caches.get(cursor.paramstyle, {}).values():  # noqa: SLF001 - nothing else frees them
            kept["statement"].clear()


def close(connection: Connection) -> None:
    """Let go of the connection, broken or not."""
    with suppress(*DRIVER_ERRORS):
        connection.close()


def told(error: BaseException | None) -> Mapping[str, str]:
    """Return the fields of what the server said (C, M, D: its code, message, detail); nothing if it said nothing."""
    first: Any = error.args[0] if isinstance(error, DriverError) and error.args else None
    return first if isinstance(first, Mapping) else {}


def is_conflict(error: BaseException | None) -> bool:
    """Whether another writer is to blame: error 1023, a deadlock, or somebody who made the same thing just now."""
    said = told(error)
    message = said.get("M", "")
    words = any(word in message for word in _CONFLICT_WORDS)
    return said.get("C") in _CONFLICTS or message.strip() == "1023" or words


def explain(cluster: RedshiftCluster, error: BaseException) -> PenstockError:
    """Turn a driver's error into ours: UnavailableError where trying again may help, else SinkError."""
    said = told(error)
    code = said.get("C", "")
    if not code:
        return UnavailableError(f"{cluster} cannot be reached: {error}", _AWAY_HINT)
    cause = " ".join(part.strip() for part in (said.get("M", ""), said.get("D", "")) if part)
    for codes, class_, what, hint in _KINDS:
        if code.startswith(codes) or ("53100" in codes and "Disk Full" in cause):
            return class_(f"{cluster} {what}: {cause}", hint)
    if is_conflict(error) and not code.startswith(_MADE_BEFORE):
        return SinkError(f"{cluster} ended a transaction that another one was in the way of: {cause}", _CONFLICT_HINT)
    if not code.startswith(_OF_THE_SERVER) or _OF_A_VALUE.search(cause):
        hint = "somebody altered the table or what depends on it: see the message, put it back as it was, and run again"
        hint = "this is a mistake in Penstock: report it" if code == "42601" else hint
        return RefusedStatementError(f"{cluster} refused a statement: {cause}", hint)
    return SinkError(f"{cluster} refused a statement: {cause}", "run again; report it if it stays")
