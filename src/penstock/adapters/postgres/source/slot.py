"""Replication slots: made with a snapshot, compared with where the pipeline stands, dropped.

Source: PostgreSQL 18 documentation, "pg_replication_slots" and "CREATE_REPLICATION_SLOT".
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from psycopg import sql

from penstock.adapters.postgres.source.connection import connect_to_log, connected, explained, run_command
from penstock.adapters.postgres.source.identity import read_head
from penstock.core.errors import NEW_SLOT, LogPurgedError, PositionError, UnavailableError, UnfitServerError
from penstock.core.positions import WalPosition, parse_lsn

if TYPE_CHECKING:
    import psycopg

    from penstock.adapters.postgres.connection import PostgresServer

_PLUGIN: Final = "pgoutput"
ANOTHER_SLOT: Final = "give the source another `slot`, which no other reader uses"
FAILOVER_SINCE: Final = 170000
"""Before PostgreSQL 17 no slot is kept on standbys too."""
_ALTER_SECONDS: Final = 60.0
_CREATE_SECONDS: Final = 600.0
"""PostgreSQL waits for every transaction that writes, to its end, before a slot has a first position."""


@dataclass(frozen=True, slots=True)
class SlotState:
    """A slot as the server has it; `confirmed` is what it will send no earlier change than, `retained_bytes` its WAL.

    `wal_status` is reserved, extended, unreserved or lost; `safe_bytes` is what may be written before it is lost, None
    without a limit. `is_failover` says whether standbys that synchronize slots have it too.
    """

    plugin: str
    database: str
    is_active: bool
    confirmed: int
    retained_bytes: int
    wal_status: str
    safe_bytes: int | None
    is_failover: bool = False


def read_slot(connection: psycopg.Connection, name: str) -> SlotState | None:
    """Look a slot up; None if there is none. Raises psycopg.Error."""
    failover = "failover" if connection.info.server_version >= FAILOVER_SINCE else "false"
    row = connection.execute(
        "SELECT coalesce(plugin, ''), coalesce(database, ''), active,"  # noqa: S608 - our own words
        " coalesce(confirmed_flush_lsn, '0/0')::text,"
        " coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()"
        f" ELSE pg_current_wal_lsn() END, restart_lsn), 0)::bigint, coalesce(wal_status, ''), safe_wal_size, {failover}"
        " FROM pg_replication_slots WHERE slot_name = %s",
        (name,),
    ).fetchone()
    if row is None:
        return None
    plugin, database, active, confirmed, retained, status, safe, is_failover = row
    return SlotState(plugin, database, active, parse_lsn(confirmed), retained, status, safe, is_failover)


def require_slot(server: PostgresServer, name: str, position: WalPosition, *, for_good: bool = False) -> None:
    """Raise unless the slot still has the log from `position` on.

    PositionError if it was moved past it, and if the server's log does not come to it. Such a server's log
    comes to that place later, with other transactions behind us: `for_good` drops its slot, so that it is refused then.
    """
    with connected(server) as connection:
        found, head = read_slot(connection, name), read_head(connection)
    if found is None:
        message = f"{server} has no replication slot {name} any more, so the WAL after {position} is lost"
        hint = (
            "it was dropped, or the server restored or exchanged: let `host` and `port` lead to the server that has "
            f"it; if there is none, {NEW_SLOT}"
        )
        raise LogPurgedError(message, hint)
    _require_ours(found, name, server.database)
    if head < position.lsn:
        message = (
            f"the log of {server} ends at {WalPosition(head)}, before {position}, where the pipeline stands: it lacks "
            "transactions that were published"
        )
        hint = (
            "the server was restored from a backup, or it is a standby that was promoted without them: let `host` and "
            f"`port` lead to the server that has them; if there is none, {NEW_SLOT}"
        )
        if for_good:
            drop_slot(server, name)
            message += f". The slot {name} of this server can never serve this pipeline again, and was dropped"
        raise PositionError(message, hint)
    if found.wal_status == "lost":
        message = f"the replication slot {name} has lost log that is needed from {position} on"
        hint = f"max_slot_wal_keep_size was too small for the time that nobody read: raise it; then {NEW_SLOT}"
        raise LogPurgedError(message, hint)
    if found.confirmed > position.lsn:
        message = (
            f"the replication slot {name} is at {WalPosition(found.confirmed)}, past {position}, where the pipeline "
            "stands: what is between them would be missing"
        )
        hint = f"another reader, or pg_replication_slot_advance, has moved it: give it a `slot` of its own; {NEW_SLOT}"
        raise PositionError(message, hint)


def require_no_slot(server: PostgresServer, connection: psycopg.Connection, name: str) -> None:
    """Raise UnfitServerError if there is a slot before we have made one. Raises psycopg.Error."""
    if read_slot(connection, name) is None:
        return
    message = f"{server} has a replication slot {name}, and this pipeline has not made it"
    hint = f"if no other reader needs it, SELECT pg_drop_replication_slot('{name}'); else {ANOTHER_SLOT}"
    raise UnfitServerError(message, hint)


def require_ours(connection: psycopg.Connection, name: str) -> None:
    """Raise UnfitServerError if there is a slot that nobody of us has made. Raises psycopg.Error."""
    found = read_slot(connection, name)
    if found is not None:
        _require_ours(found, name, connection.info.dbname)


def _require_ours(found: SlotState, name: str, database: str) -> None:
    if is_foreign(found, database):
        owner = found.plugin or "a physical standby"
        message = f"the replication slot {name} is another program's: {owner} in the database {found.database or '-'}"
        raise UnfitServerError(message, ANOTHER_SLOT)


def is_foreign(found: SlotState, database: str) -> bool:
    """Whether a slot is of another plugin, or in another database: nobody of us has made it."""
    return found.plugin != _PLUGIN or found.database != database


def create_slot(
    server: PostgresServer, log: psycopg.Connection, name: str, *, failover: bool = False
) -> tuple[int, str]:
    """Make a slot; return its first position and a snapshot as of it, which lasts while `log` is not used.

    With `failover` standbys may have it too: PostgreSQL 17 and later.
    """
    with explained(server):
        result = run_command(log, creation(name, failover=failover), _CREATE_SECONDS)
    point, snapshot = result.get_value(0, 1), result.get_value(0, 2)
    if not point or not snapshot:
        message = f"{server} made the slot {name} without a snapshot"
        raise UnavailableError(message, "it is tried again")
    return parse_lsn(point.decode()), snapshot.decode()


def creation(name: str, *, failover: bool) -> str:
    """The command that makes a slot. PostgreSQL before 15 knows no list of options."""
    options = "(SNAPSHOT 'export', FAILOVER true)" if failover else "EXPORT_SNAPSHOT"
    command = sql.SQL("CREATE_REPLICATION_SLOT {} LOGICAL pgoutput {}")
    return command.format(sql.Identifier(name), sql.SQL(options)).as_string()


def ensure_failover(server: PostgresServer, name: str) -> None:
    """Have standbys keep a slot, too, that was made otherwise. Raises UnavailableError while somebody reads from it."""
    with connected(server) as connection:
        found = read_slot(connection, name)
    if found is None or found.is_failover:
        return
    command = sql.SQL("ALTER_REPLICATION_SLOT {} (FAILOVER true)").format(sql.Identifier(name))
    with closing(connect_to_log(server)) as log, explained(server):
        run_command(log, command.as_string(log), _ALTER_SECONDS)


def drop_slot(server: PostgresServer, name: str) -> None:
    """Drop a slot if it is there. Raises UnavailableError while somebody reads from it."""
    with connected(server) as connection:
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", (name,)
        )
