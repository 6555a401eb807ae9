"""Which server and database this is, and how far its log is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.positions import parse_lsn

if TYPE_CHECKING:
    import psycopg


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
