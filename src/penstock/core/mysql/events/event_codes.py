"""Codes and flags of binlog events.

Sources: MariaDB Knowledge Base, "2-Binlog Event Header" and "Replication Event
Types"; MySQL internals, "binary log event types" (`libs/mysql/binlog/event`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

HEADER_BYTES: Final = 19
CHECKSUM_BYTES: Final = 4
FLAG_OF_SESSION: Final = 0x04
FLAG_ARTIFICIAL: Final = 0x20
FLAG_IGNORABLE: Final = 0x80


class EventCode(IntEnum):
    """The type byte of an event's header. Codes from 160 on are MariaDB's own."""

    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    APPEND_BLOCK = 9
    DELETE_FILE = 11
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42
    MARIADB_ANNOTATE_ROWS = 160
    MARIADB_BINLOG_CHECKPOINT = 161
    MARIADB_GTID = 162
    MARIADB_GTID_LIST = 163
    MARIADB_START_ENCRYPTION = 164
    MARIADB_QUERY_COMPRESSED = 165
    MARIADB_WRITE_ROWS_COMPRESSED_V1 = 166
    MARIADB_UPDATE_ROWS_COMPRESSED_V1 = 167
    MARIADB_DELETE_ROWS_COMPRESSED_V1 = 168
    MARIADB_WRITE_ROWS_COMPRESSED = 169
    MARIADB_UPDATE_ROWS_COMPRESSED = 170
    MARIADB_DELETE_ROWS_COMPRESSED = 171
    MARIADB_PARTIAL_ROW_DATA = 172


PASSED_OVER: Final = (
    EventCode.FORMAT_DESCRIPTION,
    EventCode.STOP,
    EventCode.INTVAR,
    EventCode.APPEND_BLOCK,
    EventCode.DELETE_FILE,
    EventCode.BEGIN_LOAD_QUERY,
    EventCode.RAND,
    EventCode.USER_VAR,
    EventCode.IGNORABLE,
    EventCode.ROWS_QUERY,
    EventCode.TRANSACTION_CONTEXT,
    EventCode.VIEW_CHANGE,
    EventCode.MARIADB_ANNOTATE_ROWS,
    EventCode.MARIADB_BINLOG_CHECKPOINT,
    EventCode.MARIADB_START_ENCRYPTION,
)
"""The events that say nothing about tables, rows or positions."""
