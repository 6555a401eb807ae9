"""GTID events: the start of a transaction or of a statement outside of one.

Sources: MariaDB Knowledge Base, "Gtid_event" (and `Gtid_log_event::write` for the
optional fields); MySQL internals, `Gtid_event`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from penstock.core.mysql.bytes_reader import BytesReader, MalformedError

_MARIADB_FIELDS: Final = struct.Struct("<QIB")
_STANDALONE: Final = 0x01
_GROUP_COMMIT_ID: Final = 0x02
_PREPARED_XA: Final = 0x40
_COMPLETED_XA: Final = 0x80
_START_ALTER: Final = 0x02
_ROLLBACK_ALTER: Final = 0x08
_MYSQL_FIXED_BYTES: Final = 42
_MYSQL_COMMIT_TIME_BYTES: Final = 7
_COMMIT_TIME_MASK: Final = (1 << 55) - 1


@dataclass(frozen=True, slots=True)
class MariadbGtid:
    """What MariaDB says about the group of events that follows.

    `standalone`: one statement follows, and no commit. `prepared_xa`: it ends in
    XA PREPARE and takes effect only with a later XA COMMIT. `alter_undecided`:
    the statement that follows began, or gave up, an ALTER in two phases
    (binlog_alter_two_phase); only a later one, the commit, changes a table.
    """

    gtid: str
    standalone: bool
    prepared_xa: bool
    alter_undecided: bool


def parse_mariadb_gtid(body: bytes | memoryview, server_id: int) -> MariadbGtid:
    """Read a MariaDB GTID event after its header; its server is the header's."""
    if len(body) < _MARIADB_FIELDS.size:
        message = f"a GTID event of {len(body)} bytes"
        raise MalformedError(message)
    sequence, domain, flags = _MARIADB_FIELDS.unpack_from(body)
    return MariadbGtid(
        f"{domain}-{server_id}-{sequence}",
        bool(flags & _STANDALONE),
        bool(flags & _PREPARED_XA),
        bool(flags & _STANDALONE) and bool(_extra_flags(body, flags) & (_START_ALTER | _ROLLBACK_ALTER)),
    )


def parse_mysql_gtid(body: bytes | memoryview) -> tuple[str, int | None]:
    """Read a MySQL GTID event after its header: the GTID, and its commit time in Unix ms where it has one."""
    reader = BytesReader(body, 1)
    uuid = UUID(bytes=reader.take(16))
    gtid = f"{uuid}:{reader.integer(8)}"
    if len(body) < _MYSQL_FIXED_BYTES + _MYSQL_COMMIT_TIME_BYTES:
        return gtid, None
    commit_time = BytesReader(body, _MYSQL_FIXED_BYTES).integer(_MYSQL_COMMIT_TIME_BYTES)
    return gtid, (commit_time & _COMMIT_TIME_MASK) // 1000


def _extra_flags(body: bytes | memoryview, flags: int) -> int:
    """The second byte of flags, which stands behind two optional fields and may be missing."""
    reader = BytesReader(body, _MARIADB_FIELDS.size)
    if flags & _GROUP_COMMIT_ID:
        reader.take(8)
    if flags & (_PREPARED_XA | _COMPLETED_XA):
        reader.take(4)
        reader.take(reader.integer(1) + reader.integer(1))
    return reader.integer(1) if reader.left else 0
