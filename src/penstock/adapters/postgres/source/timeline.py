"""Whether a server continues the log that was read: asked over the very connection that the log comes from.

Source: PostgreSQL 18 documentation, "Streaming Replication Protocol", IDENTIFY_SYSTEM and TIMELINE_HISTORY.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from psycopg import errors

from penstock.adapters.postgres.source.connection import run_command
from penstock.core.errors import NEW_SLOT, PositionError
from penstock.core.positions import WalPosition
from penstock.core.postgres.server_timelines import begin_of_timeline, has_log_before, is_another_timeline

if TYPE_CHECKING:
    import psycopg

    from penstock.adapters.postgres.connection import PostgresServer

_ANSWER_SECONDS: Final = 60.0
_FIRST: Final = 1
"""The timeline of a server that was never promoted: it has no history file."""


def read_timeline(log: psycopg.Connection) -> tuple[int, int]:
    """Return the server's own timeline, and the LSN at which it began, 0 if nobody knows. Raises psycopg.Error."""
    timeline, history = _read_history(log)
    return timeline, begin_of_timeline(history, timeline)


def require_same_log(server: PostgresServer, log: psycopg.Connection, position: WalPosition) -> WalPosition:
    """Return `position` in the server's timeline.

    Raises PositionError if the server left ours before `position`, or has another one of that number; psycopg.Error.
    """
    timeline, history = _read_history(log)
    ours, is_another = position.server_timeline, is_another_timeline(history, position)
    if not is_another and (ours == timeline or has_log_before(history, position)):
        return replace(position, server_timeline=timeline, timeline_from=begin_of_timeline(history, timeline))
    message = (
        f"{server} is in timeline {timeline} and does not have the log of timeline {ours} up to {position}, where the "
        "pipeline stands: it lacks transactions that were published"
    )
    if is_another and ours <= timeline:
        begin = WalPosition(begin_of_timeline(history, ours))
        message += f". Its timeline {ours} began at {begin}, ours at {WalPosition(position.timeline_from)}"
    hint = (
        "it was promoted, or restored from a backup, without them: let `host` and `port` lead to the server that has "
        f"them; if there is none, {NEW_SLOT}"
    )
    raise PositionError(message, hint)


def _read_history(log: psycopg.Connection) -> tuple[int, str]:
    """Return the server's own timeline, and its history file, "" where there is none."""
    timeline = int(run_command(log, "IDENTIFY_SYSTEM", _ANSWER_SECONDS).get_value(0, 1) or 0)
    if timeline == _FIRST:
        return timeline, ""
    try:
        content = run_command(log, f"TIMELINE_HISTORY {timeline}", _ANSWER_SECONDS).get_value(0, 1)
    except errors.UndefinedFile:
        while log.pgconn.get_result() is not None:
            pass
        content = b""
    return timeline, (content or b"").decode(errors="replace")
