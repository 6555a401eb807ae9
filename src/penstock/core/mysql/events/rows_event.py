"""ROWS events: which rows of which table they hold, and how to get at them.

Source: MariaDB Knowledge Base, "Rows_event_v1/v2"; MySQL internals, `Rows_event`; MySQL Reference
Manual, "Replication and Foreign Keys".
MariaDB's compressed events have everything behind the column bitmaps compressed.
"""

from __future__ import annotations

from typing import Final

from penstock.core.changes import Op
from penstock.core.mysql.events.compressed import inflate
from penstock.core.mysql.events.event_codes import EventCode as Code
from penstock.core.mysql.types.bytes_reader import BytesReader

OPS: Final[dict[int, Op]] = {
    Code.WRITE_ROWS_V1: Op.CREATE,
    Code.UPDATE_ROWS_V1: Op.UPDATE,
    Code.DELETE_ROWS_V1: Op.DELETE,
    Code.WRITE_ROWS: Op.CREATE,
    Code.UPDATE_ROWS: Op.UPDATE,
    Code.DELETE_ROWS: Op.DELETE,
    Code.PARTIAL_UPDATE_ROWS: Op.UPDATE,
    Code.MARIADB_WRITE_ROWS_COMPRESSED_V1: Op.CREATE,
    Code.MARIADB_UPDATE_ROWS_COMPRESSED_V1: Op.UPDATE,
    Code.MARIADB_DELETE_ROWS_COMPRESSED_V1: Op.DELETE,
    Code.MARIADB_WRITE_ROWS_COMPRESSED: Op.CREATE,
    Code.MARIADB_UPDATE_ROWS_COMPRESSED: Op.UPDATE,
    Code.MARIADB_DELETE_ROWS_COMPRESSED: Op.DELETE,
}
"""The events with rows, and what happened to them."""

POST_HEADER_BYTES: Final = 8
FLAGS_AT: Final = 6
FLAG_CASCADES_LOGGED: Final = 0x10
"""From MySQL 9.6 on: the server did what foreign keys say, and not InnoDB, whose changes are not logged."""
HAVE_EXTRA_DATA: Final = frozenset(
    {
        Code.WRITE_ROWS,
        Code.UPDATE_ROWS,
        Code.DELETE_ROWS,
        Code.PARTIAL_UPDATE_ROWS,
        Code.MARIADB_WRITE_ROWS_COMPRESSED,
        Code.MARIADB_UPDATE_ROWS_COMPRESSED,
        Code.MARIADB_DELETE_ROWS_COMPRESSED,
    }
)
_COMPRESSED: Final = frozenset(code for code in OPS if code >= Code.MARIADB_WRITE_ROWS_COMPRESSED_V1)


def cascades_logged(body: memoryview) -> bool:
    """Whether rows that foreign keys changed with these are in the log; MalformedError if it is no ROWS event."""
    return bool(BytesReader(body, FLAGS_AT).integer(2) & FLAG_CASCADES_LOGGED)


def rows_payload(code: int, body: memoryview) -> bytes:
    """Return the event from its column count on, nothing of it compressed; MalformedError if it is no ROWS event."""
    at = POST_HEADER_BYTES
    if code in HAVE_EXTRA_DATA:
        at += BytesReader(body, at).integer(2)
    if code not in _COMPRESSED:
        return bytes(body[at:])
    reader = BytesReader(body, at)
    bitmap_bytes = (reader.length() + 7) // 8
    reader.take(bitmap_bytes * (2 if OPS[code] is Op.UPDATE else 1))
    return bytes(body[at : reader.at]) + inflate(body[reader.at :])
