"""Who alone changes the schema tracker: whoever holds a lock of its server, which goes with the holder's connection."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from pymysql.constants import ER

from penstock.adapters.mysql.connection import ask, error_code, server_of
from penstock.core.errors import STOP_ONE, DisplacedError, UnavailableError, UnfitServerError

if TYPE_CHECKING:
    import pymysql

_LOCK: Final = "penstock.writer"
_TRY_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.05


def take_lock(connection: pymysql.Connection, before: int | None = None) -> int:
    """Hold the lock, end the connection that held it, and return the number of ours.

    The server lets go of the lock with the last of what it did for that connection.
    With `before`, the number of a connection of ours that was lost, no other one is
    ended: DisplacedError if another one holds the lock. UnavailableError if a holder
    does not end.
    """
    deadline = time.monotonic() + _TRY_SECONDS
    while time.monotonic() < deadline:
        asked = f"SELECT GET_LOCK('{_LOCK}', 0), IS_USED_LOCK('{_LOCK}'), CONNECTION_ID()"
        got, holder, own = ask(connection, asked)[0]
        if got:
            return int(own)
        if holder is not None:
            if before not in {None, int(holder)}:
                message = f"somebody else has taken over the schema tracker {server_of(connection)}"
                raise DisplacedError(message, f"{STOP_ONE}; this one has published nothing since")
            _end(connection, int(holder))
        time.sleep(_PAUSE_SECONDS)
    message = f"{server_of(connection)} does not end the connection that changed the schema tracker before"
    raise UnavailableError(message, "end long statements there (SHOW PROCESSLIST, KILL)")


def _end(connection: pymysql.Connection, number: int) -> None:
    try:
        ask(connection, f"KILL {number}")
    except UnfitServerError as error:
        # It may have ended by itself.
        if error_code(error) != ER.NO_SUCH_THREAD:
            raise
