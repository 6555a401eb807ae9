"""What a server says of how long it keeps its binlogs, and when what is in them was written.

SHOW BINARY LOGS knows no times, so those are read from the headers of events.
"""

from __future__ import annotations

import struct
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pymysql
from pymysql.constants import COMMAND, ER

from penstock.adapters.mysql.binlog_errors import explain_dump
from penstock.adapters.mysql.connection import ask, connect, explain
from penstock.adapters.mysql.history import binlogs, passing_server_id
from penstock.core.errors import CorruptLogError, LogError
from penstock.core.mysql.events.event_codes import EventCode
from penstock.core.mysql.events.event_frame import FrameReader
from penstock.core.mysql.events.packets import ServerMessage
from penstock.core.mysql.log.retention import KeptLog
from penstock.core.mysql.types.bytes_reader import MalformedError
from penstock.core.positions import BinlogPosition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.adapters.mysql.connection import MysqlServer

_DAY_SECONDS: Final = 86_400
_FIRST_OFFSET: Final = 4
_OFFSET_MAX: Final = 0xFFFF_FFFF
_NON_BLOCKING: Final = 1
_EOF: Final = 0xFE
_EVENTS_MAX: Final = 100
_SESSION: Final = (
    "SET @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32', @mariadb_slave_capability = 4"
)
_NO_CHANGES: Final = frozenset(
    {
        EventCode.ROTATE,
        EventCode.FORMAT_DESCRIPTION,
        EventCode.PREVIOUS_GTIDS,
        EventCode.STOP,
        EventCode.HEARTBEAT,
        EventCode.HEARTBEAT_V2,
        EventCode.MARIADB_GTID_LIST,
        EventCode.MARIADB_BINLOG_CHECKPOINT,
        EventCode.MARIADB_START_ENCRYPTION,
    }
)


def read_kept_log(connection: pymysql.Connection, server: MysqlServer, position: BinlogPosition) -> KeptLog:
    """Ask which binlogs there are, and how long that is so for the one that `position` needs.

    Raises UnfitServerError when there is no log or we may not ask, LogError for a
    log without files, and UnavailableError.
    """
    files = tuple(binlogs(connection))
    if not files:
        message = f"{server} has no binlog file"
        raise LogError(message, "start the server with log_bin")
    needed = position.read_from[0]
    names = [name for name, _ in files]
    behind = names[names.index(needed) + 1 :] if needed in names else []
    # The next file begins when this one is closed.
    closed_at_ms = _begun_ms(server, behind[0]) if behind else None
    return KeptLog(files, _expire_seconds(connection), closed_at_ms)


def oldest_ahead_ms(server: MysqlServer, position: BinlogPosition) -> int | None:
    """When the first change behind `position` was logged, Unix ms, of whatever table.

    0 if there is none; None if that takes reading too far, and behind 4 GiB of one
    file, where no server can be asked to send from. Raises UnavailableError, and what `explain_dump`
    returns where the log cannot be read from there.
    """
    if position.offset > _OFFSET_MAX:
        return None
    seen = 0
    for header_code, timestamp_ms in _headers(server, position.file, position.offset):
        seen += 1
        if header_code not in _NO_CHANGES:
            return timestamp_ms
    return 0 if seen < _EVENTS_MAX else None


def _begun_ms(server: MysqlServer, file: str) -> int | None:
    for header_code, timestamp_ms in _headers(server, file, _FIRST_OFFSET):
        if header_code == EventCode.FORMAT_DESCRIPTION and timestamp_ms:
            return timestamp_ms
    return None


def _expire_seconds(connection: pymysql.Connection) -> float | None:
    names = "('expire_logs_days', 'binlog_expire_logs_seconds', 'binlog_expire_logs_auto_purge')"
    found = {
        str(name).lower(): str(value)
        for name, value in ask(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN {names}")
    }
    seconds = float(found.get("binlog_expire_logs_seconds") or 0)
    seconds = seconds or float(found.get("expire_logs_days") or 0) * _DAY_SECONDS
    return None if not seconds or found.get("binlog_expire_logs_auto_purge") == "OFF" else seconds


def _headers(server: MysqlServer, file: str, offset: int) -> Iterator[tuple[int, int]]:
    """Yield code and time of the first events of a file from `offset` on, over a connection of its own."""
    frames = FrameReader()
    with closing(connect(server)) as connection:
        payload = struct.pack("<IHI", offset, _NON_BLOCKING, passing_server_id(connection)) + file.encode()
        ask(connection, _SESSION)
        try:
            # pymysql has no public way to speak the replication protocol.
            connection._execute_command(COMMAND.COM_BINLOG_DUMP, payload)  # type: ignore[attr-defined]  # noqa: SLF001
            for _ in range(_EVENTS_MAX):
                packet = connection._read_packet().get_all_data()  # type: ignore[no-untyped-call]  # noqa: SLF001
                if packet[0] == _EOF:
                    return
                header, _body = frames.read(memoryview(packet)[1:])
                yield header.code, header.timestamp * 1000
        except pymysql.err.MySQLError as error:
            if error.args and error.args[0] == ER.MASTER_FATAL_ERROR_READING_BINLOG:
                place = BinlogPosition(file, offset)
                raise explain_dump(ServerMessage(error.args[0], str(error.args[-1])), server, place) from error
            raise explain(error, server) from error
        except MalformedError as error:
            message = f"{server} sent a damaged event of {file}: {error}"
            raise CorruptLogError(
                message, "check the network between Penstock and the server, and try again"
            ) from error
