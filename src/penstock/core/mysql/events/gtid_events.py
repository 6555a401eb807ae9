"""GTID events: the start of a transaction or of a statement outside of one.

Sources: MariaDB Knowledge Base, "Gtid_event" (and `Gtid_log_event::write` for the
optional fields); MySQL internals, `Gtid_event`, and for tagged GTIDs "Library
Serialization" (`mysql::serialization`).
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from uuid import UUID

from penstock.core.mysql.events.gtid_sets import MYSQL_NUMBER_MAX
from penstock.core.mysql.types.bytes_reader import BytesReader, MalformedError

MARIADB_FIELDS: Final = struct.Struct("<QIB")
_STANDALONE: Final = 0x01
_GROUP_COMMIT_ID: Final = 0x02
_PREPARED_XA: Final = 0x40
_COMPLETED_XA: Final = 0x80
MARIADB_UNUSUAL: Final = _STANDALONE | _PREPARED_XA | _COMPLETED_XA
"""The flags of a lone statement, and of what belongs to XA."""
_START_ALTER: Final = 0x02
_ROLLBACK_ALTER: Final = 0x08
_MYSQL_FIXED_BYTES: Final = 42
_MYSQL_COMMIT_TIME_BYTES: Final = 7
_COMMIT_TIME_MASK: Final = (1 << 55) - 1
_SERIALIZATION_VERSION: Final = 1
_WIDE_INTEGER: Final = 8
_FLAGS_FIELD, _UUID_FIELD, _NUMBER_FIELD, _TAG_FIELD = 0, 1, 2, 3
_LAST_COMMITTED_FIELD, _SEQUENCE_FIELD, _COMMIT_TIME_FIELD = 4, 5, 6
_LAST_KNOWN_FIELD: Final = 11
_BYTE_MAX: Final = 0xFF
_TAG: Final = re.compile("([a-z_][a-z0-9_]{0,31})?")


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
    if len(body) < MARIADB_FIELDS.size:
        message = f"a GTID event of {len(body)} bytes"
        raise MalformedError(message)
    sequence, domain, flags = MARIADB_FIELDS.unpack_from(body)
    return MariadbGtid(
        f"{domain}-{server_id}-{sequence}",
        bool(flags & _STANDALONE),
        bool(flags & _PREPARED_XA),
        bool(flags & _STANDALONE) and bool(_extra_flags(body, flags) & (_START_ALTER | _ROLLBACK_ALTER)),
    )


def parse_mysql_gtid(body: bytes | memoryview, *, anonymous: bool = False) -> tuple[str, int | None]:
    """Read a MySQL GTID event after its header: the GTID, and its commit time in Unix ms where it has one.

    That of an ANONYMOUS_GTID event is "".
    """
    reader = BytesReader(body, 1)
    uuid, number = _uuid_text(reader.take(16)), reader.integer(8)
    gtid = "" if anonymous else f"{uuid}:{_checked(number)}"
    if len(body) < _MYSQL_FIXED_BYTES + _MYSQL_COMMIT_TIME_BYTES:
        return gtid, None
    commit_time = BytesReader(body, _MYSQL_FIXED_BYTES).integer(_MYSQL_COMMIT_TIME_BYTES)
    return gtid, (commit_time & _COMMIT_TIME_MASK) // 1000


def parse_tagged_gtid(body: bytes | memoryview) -> tuple[str, int]:
    """Read a GTID_TAGGED event after its header: the GTID, `uuid:tag:number`, and its commit time in Unix ms."""
    reader = BytesReader(body)
    version, size, must_know = _serialized(reader), _serialized(reader), _serialized(reader)
    if version != _SERIALIZATION_VERSION or size != len(body) or must_know > _LAST_KNOWN_FIELD:
        message = f"a tagged GTID of version {version}, {size} bytes and fields up to {must_know}"
        raise MalformedError(message)
    found: dict[int, int] = {}
    uuid, tag = b"", ""
    while _COMMIT_TIME_FIELD not in found:
        field = _serialized(reader)
        if field == _UUID_FIELD:
            uuid = bytes(_byte(reader) for _ in range(16))
        elif field == _TAG_FIELD:
            tag = reader.text(_serialized(reader))
        elif field in {_FLAGS_FIELD, _COMMIT_TIME_FIELD}:
            found[field] = _serialized(reader)
        elif field in {_NUMBER_FIELD, _LAST_COMMITTED_FIELD, _SEQUENCE_FIELD}:
            found[field] = _serialized(reader) >> 1  # the lowest bit is the sign
        else:
            message = f"field {field} in a tagged GTID before its commit time"
            raise MalformedError(message)
    if not uuid or not _TAG.fullmatch(tag):
        message = "a tagged GTID without server or a tag that may be one"
        raise MalformedError(message)
    gtid = ":".join([_uuid_text(uuid), *([tag] if tag else []), str(_checked(found.get(_NUMBER_FIELD, 0)))])
    return gtid, found[_COMMIT_TIME_FIELD] // 1000


@lru_cache
def _uuid_text(octets: bytes) -> str:
    return str(UUID(bytes=octets))


def _checked(number: int) -> int:
    """A number that a set of GTIDs can hold."""
    if not 0 < number <= MYSQL_NUMBER_MAX:
        message = f"a GTID with the number {number}"
        raise MalformedError(message)
    return number


def _serialized(reader: BytesReader) -> int:
    """An integer whose first byte ends in as many 1 bits as there are bytes behind it; 64 bits where all 8 are 1."""
    first = reader.integer(1)
    behind = (~first & first + 1).bit_length() - 1
    if behind == _WIDE_INTEGER:
        return reader.integer(_WIDE_INTEGER)
    return (reader.integer(behind) << 8 | first) >> behind + 1


def _byte(reader: BytesReader) -> int:
    value = _serialized(reader)
    if value > _BYTE_MAX:
        message = f"a byte of {value}"
        raise MalformedError(message)
    return value


def _extra_flags(body: bytes | memoryview, flags: int) -> int:
    """The second byte of flags, which stands behind two optional fields and may be missing."""
    reader = BytesReader(body, MARIADB_FIELDS.size)
    if flags & _GROUP_COMMIT_ID:
        reader.take(8)
    if flags & (_PREPARED_XA | _COMPLETED_XA):
        reader.take(4)
        reader.take(reader.integer(1) + reader.integer(1))
    return reader.integer(1) if reader.left else 0
