"""Waits until a standby has replayed its primary's log up to a place, and says why it has not.

Source: PostgreSQL 18 documentation, "Recovery Information Functions" and "Control Data Functions".
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.adapters.postgres.source.connection import explained
from penstock.adapters.postgres.source.identity import read_end_of_seen, read_identity
from penstock.core.errors import ReplicaLagError, UnavailableError, UnfitServerError
from penstock.core.positions import parse_lsn

if TYPE_CHECKING:
    import psycopg

    from penstock.adapters.postgres.connection import PostgresServer

_POLL_SECONDS: Final = 0.05
_TIMELINE_DIGITS: Final = 8
"""With which the name of a file of the log begins, in hexadecimal."""
_NAME_ANOTHER: Final = "name a standby of {} as the audit's `replica`, or leave it out"
_LOOK: Final = """
SELECT pg_is_in_recovery(), pg_last_wal_replay_lsn()::text,
       CASE WHEN pg_is_in_recovery() THEN pg_is_wal_replay_paused() ELSE false END,
       greatest((SELECT timeline_id FROM pg_control_checkpoint()),
                (SELECT min_recovery_end_timeline FROM pg_control_recovery())),
       EXISTS (SELECT FROM pg_stat_wal_receiver)
"""


@dataclass(frozen=True, slots=True)
class PrimaryPlace:
    """Where the log of a primary ended, in which of its timelines, and what only it and its standbys are called."""

    server: PostgresServer
    identity: str
    timeline: int
    end: int


class _Standby(NamedTuple):
    is_standby: bool
    replayed: str | None
    is_paused: bool
    timeline: int
    receives: bool


def read_primary(connection: psycopg.Connection, server: PostgresServer) -> PrimaryPlace:
    """Look at a primary. Everything that readers of its log can have is before the place. Raises psycopg.Error."""
    row = connection.execute("SELECT pg_walfile_name(pg_current_wal_insert_lsn())").fetchone()
    timeline = int(row[0][:_TIMELINE_DIGITS], 16) if row else 0
    return PrimaryPlace(server, read_identity(connection), timeline, read_end_of_seen(connection))


def await_replayed(
    connection: psycopg.Connection, server: PostgresServer, primary: PrimaryPlace, seconds: float
) -> None:
    """Return once the standby at `connection` has replayed the log up to the primary's place, after `seconds` at most.

    The connection must be in no transaction: replay could wait for what it sees. Raises ReplicaLagError;
    UnavailableError where replay was paused or the server is away; UnfitServerError for one that is no standby of
    the primary.
    """
    deadline = time.monotonic() + seconds
    with explained(server):
        if read_identity(connection) != primary.identity:
            message = f"{server} is no copy of {primary.server}: it has another system identifier"
            raise UnfitServerError(message, _NAME_ANOTHER.format(primary.server))
        while not _has_replayed(found := _look(connection), server, primary):
            if found.is_paused:
                message = f"{server} does not replay its primary's log: it was paused"
                raise UnavailableError(message, "type on it: SELECT pg_wal_replay_resume()")
            if time.monotonic() >= deadline:
                raise _lag(found, server, primary, seconds)
            time.sleep(_POLL_SECONDS)


def _look(connection: psycopg.Connection) -> _Standby:
    row = connection.execute(_LOOK).fetchone()
    return _Standby(*row) if row else _Standby(False, None, False, 0, False)  # noqa: FBT003 - as the query has them


def _has_replayed(found: _Standby, server: PostgresServer, primary: PrimaryPlace) -> bool:
    """Of a standby in an older timeline nobody knows whether it has the log that the primary has."""
    if not found.is_standby:
        message = f"{server} is no standby"
        raise UnfitServerError(message, _NAME_ANOTHER.format(primary.server))
    if found.timeline > primary.timeline:
        message = f"{server} follows timeline {found.timeline}, and {primary.server} is in {primary.timeline}"
        raise UnfitServerError(message, _NAME_ANOTHER.format(primary.server))
    return found.timeline == primary.timeline and parse_lsn(found.replayed or "0/0") >= primary.end


def _lag(found: _Standby, server: PostgresServer, primary: PrimaryPlace, seconds: float) -> ReplicaLagError:
    end = f"{primary.end >> 32:X}/{primary.end & 0xFFFFFFFF:X}"
    where = f"it is at {found.replayed} of timeline {found.timeline}"
    receives = "" if found.receives else ", and receives nothing from its primary"
    message = (
        f"{server} has not replayed what {primary.server} had at {end} of timeline {primary.timeline} in "
        f"{seconds:g} s: {where}{receives}"
    )
    hint = "see pg_stat_wal_receiver there; audit again when it has caught up, or give the audit more `wait_seconds`"
    return ReplicaLagError(message, hint)
