"""Which server and database this is, and how far its log is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from penstock.core.positions import WalPosition, parse_lsn
from penstock.core.postgres.log_pages import end_of_records

if TYPE_CHECKING:
    import psycopg

_POLL_SECONDS: Final = 0.02
_FLUSH_DELAYS: Final = 3
"""An asynchronous commit is flushed after three times wal_writer_delay at most ("Asynchronous Commit")."""
_FLUSH_MARGIN_SECONDS: Final = 0.3


def read_identity(connection: psycopg.Connection) -> str:
    """Return what no other database has: the cluster's number, which a standby shares, and the database's."""
    row = connection.execute(
        "SELECT system_identifier || '/' || (SELECT oid FROM pg_database WHERE datname = current_database())"
        " FROM pg_control_system()"
    ).fetchone()
    return str(row[0]) if row else ""


def read_head(connection: psycopg.Connection) -> int:
    """Return the LSN behind everything that is committed now."""
    row = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
    return parse_lsn(row[0]) if row else 0


def write_mark(connection: psycopg.Connection) -> WalPosition:
    """Write an empty message into the log, and return a place before its commit, with the server's own timeline.

    It is behind all that was committed before, and the log's readers come past it though nobody else writes.
    Raises psycopg.Error.
    """
    # A synchronous standby that is away holds nobody up.
    connection.execute("SET synchronous_commit = local")
    row = connection.execute(
        "SELECT lsn::text, ('x' || left(pg_walfile_name(lsn), 8))::bit(32)::int"
        " FROM pg_logical_emit_message(true, 'penstock', '') AS lsn"
    ).fetchone()
    lsn, timeline = row or ("0/0", 0)
    return WalPosition(parse_lsn(lsn), server_timeline=timeline)


def read_end_of_seen(connection: psycopg.Connection) -> int:
    """Return an LSN behind the commit of all that the open transaction sees, which the log's readers come to.

    The transaction has its snapshot already. Commits are seen a moment after they are in the log, and, where nobody
    waits for them (synchronous_commit = off), a moment before they are flushed. What else was written and is not
    flushed belongs to transactions that are open, for which nobody may wait. Raises psycopg.Error.
    """
    row = connection.execute(
        "SELECT pg_current_wal_insert_lsn()::text, current_setting('wal_block_size')::int,"
        " pg_size_bytes(current_setting('wal_segment_size')),"
        " extract(epoch FROM current_setting('wal_writer_delay')::interval)::float8"
    ).fetchone()
    inserted, block_bytes, segment_bytes, delay_seconds = row or ("0/0", 1, 1, 0.0)
    end = end_of_records(parse_lsn(inserted), block_bytes, segment_bytes)
    deadline = time.monotonic() + _FLUSH_DELAYS * delay_seconds + _FLUSH_MARGIN_SECONDS
    while True:
        row = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        flushed = parse_lsn(row[0]) if row else 0
        if flushed >= end or time.monotonic() >= deadline:
            return min(end, flushed)
        time.sleep(_POLL_SECONDS)
