"""What a server means when it refuses to send its binlog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pymysql.constants import ER

from penstock.core.errors import LogError, LogPurgedError, PenstockError, UnavailableError, UnfitServerError
from penstock.core.positions import BinlogPosition

if TYPE_CHECKING:
    from penstock.adapters.mysql.connection import MysqlServer
    from penstock.core.mysql.packets import ServerMessage

_READING_FAILED: Final = ER.MASTER_FATAL_ERROR_READING_BINLOG
_REFUSED: Final = frozenset({ER.ACCESS_DENIED_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR})
_COPY_AGAIN: Final = "copy the tables again and go on from the position of that copy"


def explain_dump(message: ServerMessage, server: MysqlServer, position: BinlogPosition) -> PenstockError:
    """Turn the error that ended a dump into ours.

    Most reasons can only be told apart by their text: they come as error 1236
    (`mysql_binlog_send` in MariaDB, `Binlog_sender` in MySQL).
    """
    begin = BinlogPosition(*position.read_from)
    since = ", where the oldest of the XA transactions begins that are still prepared" if position.prepared else ""
    said = f"{server} does not send its binlog from {begin}{since}: {message.text}"
    text = message.text.lower()
    if "same server_uuid/server_id" in text:
        return LogError(said, "give this pipeline a server_id that no replica and no other pipeline has")
    if message.code in _REFUSED:
        return UnfitServerError(said, "GRANT REPLICATION SLAVE ON *.* to this user")
    if message.code != _READING_FAILED:
        return UnavailableError(said, "check the server's error log, and try again")
    if "could not find first log" in text or "purged" in text:
        return LogPurgedError(said, f"{_COPY_AGAIN}; keep binlogs for longer (binlog_expire_logs_seconds)")
    if "binary log is not open" in text:
        return UnfitServerError(said, "start the server with log_bin")
    return LogError(said, f"this is no place between two events of the server's log: {_COPY_AGAIN}")
