"""Whether a server continues the log that was read: asked over the very connection that the log comes from.

Source: PostgreSQL 18 documentation, "Streaming Replication Protocol", IDENTIFY_SYSTEM and TIMELINE_HISTORY.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.adapters.postgres.source.connection import run_command
from penstock.core.errors import NEW_SLOT, PositionError
from penstock.core.postgres.server_timelines import end_of_timeline

if TYPE_CHECKING:
    import psycopg

    from penstock.adapters.postgres.connection import PostgresServer
    from penstock.core.positions import WalPosition

_ANSWER_SECONDS: Final = 60.0
_FIRST: Final = 1
"""The timeline of a server that was never promoted: it has no history file."""


def read_timeline(log: psycopg.Connection) -> int:
    """Return the server's own timeline. Raises psycopg.Error."""
    return int(run_command(log, "IDENTIFY_SYSTEM", _ANSWER_SECONDS).get_value(0, 1) or 0)


def require_same_log(server: PostgresServer, log: psycopg.Connection, position: WalPosition) -> int:
    """Return the server's timeline. Raises PositionError if it left ours before `position`, psycopg.Error."""
    timeline, ours = read_timeline(log), position.server_timeline
    if ours in {0, timeline}:
        return timeline
    end = end_of_timeline("" if timeline == _FIRST else _read_history(log, timeline), ours)
    # Within a transaction the position is where its COMMIT begins, which the server must have.
    if end is not None and position.lsn + bool(position.rows_from) <= end:
        return timeline
    message = (
        f"{server} is in timeline {timeline} and does not have the log of timeline {ours} up to {position}, where the "
        "pipeline stands: it lacks transactions that were published"
    )
    hint = (
        "it was promoted, or restored from a backup, without them: let `host` and `port` lead to the server that has "
        f"them; if there is none, {NEW_SLOT}"
    )
    raise PositionError(message, hint)


def _read_history(log: psycopg.Connection, timeline: int) -> str:
    content = run_command(log, f"TIMELINE_HISTORY {timeline}", _ANSWER_SECONDS).get_value(0, 1)
    return (content or b"").decode(errors="replace")
