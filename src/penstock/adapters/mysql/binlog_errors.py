"""What a server means when it refuses to send its binlog."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from pymysql.constants import ER

from penstock.adapters.mysql.connection import ask, connect
from penstock.core.errors import START_ANEW, LogError, LogPurgedError, PenstockError, UnavailableError, UnfitServerError
from penstock.core.positions import BinlogPosition, file_number

if TYPE_CHECKING:
    from penstock.adapters.mysql.connection import MysqlServer
    from penstock.core.mysql.events.packets import ServerMessage

_READING_FAILED: Final = ER.MASTER_FATAL_ERROR_READING_BINLOG
_REFUSED: Final = frozenset({ER.ACCESS_DENIED_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR})
_KEEP_LONGER: Final = f"{START_ANEW}; and keep binlogs for longer (binlog_expire_logs_seconds)"
_BY_WORDS: Final = (
    (
        "same server_uuid/server_id",
        LogError,
        "give this pipeline a server_id that no replica and no other pipeline has",
    ),
    ("could not find next log", LogError, f"the log was reset while it was read: {START_ANEW}"),
    ("binary log is not open", UnfitServerError, "start the server with log_bin"),
)


def explain_dump(message: ServerMessage, server: MysqlServer, position: BinlogPosition) -> PenstockError:
    """Turn the error that ended a dump into ours; asks the server which files it has if ours is not there.

    Most reasons can only be told apart by their text: they come as error 1236
    (`mysql_binlog_send` in MariaDB, `Binlog_sender` in MySQL).
    """
    begin = BinlogPosition(*position.read_from)
    since = ", where the oldest of the XA transactions begins that are still prepared" if position.prepared else ""
    said = f"{server} does not send its binlog from {begin}{since}: {message.text}"
    text = message.text.lower()
    for words, kind, hint in _BY_WORDS:
        if words in text:
            return kind(said, hint)
    if message.code in _REFUSED:
        return UnfitServerError(said, "GRANT REPLICATION SLAVE ON *.* to this user")
    if message.code != _READING_FAILED:
        return UnavailableError(said, "check the server's error log, and try again")
    if "could not find first log" in text or "purged" in text:
        return _explain_missing(said, server, position)
    hint = "this position is not between two events of the server's log, which may have been reset"
    return LogError(said, f"{hint}: {START_ANEW}")


def _explain_missing(said: str, server: MysqlServer, position: BinlogPosition) -> PenstockError:
    """Find out whether our file was purged or this is another log."""
    try:
        with closing(connect(server)) as connection:
            files = [str(row[0]) for row in ask(connection, "SHOW BINARY LOGS")]
    except PenstockError:
        files = []
    if not files:
        return LogPurgedError(said, _KEEP_LONGER)
    oldest, newest, ours = (file_number(name) for name in (files[0], files[-1], position.file))
    has = f"it has {files[0]} to {files[-1]}"
    if ours > newest:
        hint = f"the log was reset, or another server answers: {START_ANEW}"
        return LogError(f"{said}; {has}, all of them older", hint)
    stem = position.file.rpartition(".")[0]
    last = f"{stem}.{oldest - 1:0{len(files[0].rpartition('.')[2])}}"
    gone = position.file if last == position.file else f"{position.file} to {last}"
    return LogPurgedError(f"{said}; {has}, {gone} are gone" if ours < oldest else f"{said}; {has}", _KEEP_LONGER)
