"""Events that this release does not read, and what the operator can do about each."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from penstock.core.errors import START_ANEW, LogError
from penstock.core.mysql.events.event_codes import EventCode
from penstock.core.mysql.types.bytes_reader import BytesReader

if TYPE_CHECKING:
    from penstock.core.mysql.events.event_frame import Header
    from penstock.core.mysql.log.log_cursor import LogCursor
    from penstock.core.positions import BinlogPosition


_INCIDENT_NUMBER_BYTES: Final = 2


def incident(body: memoryview, place: LogCursor) -> LogError:
    """Name an INCIDENT event, by which the server says that its log lacks changes, and what it says about it.

    Source: MySQL internals, `Incident_event`.
    """
    reader = BytesReader(body, _INCIDENT_NUMBER_BYTES)
    said = reader.take(min(reader.integer(1), reader.left)).decode(errors="replace") if reader.left > 0 else ""
    message = (
        f"an INCIDENT event at {place}, by which the server says that it lost changes: {said or 'no reason given'}"
    )
    return LogError(message, f"see the server's error log for why; then {START_ANEW}")


def begun_anew(position: BinlogPosition, created: int) -> LogError:
    """Say that the file of `position` is another one of its name, begun at `created` (Unix seconds)."""
    now, before = (datetime.fromtimestamp(seconds, UTC).isoformat() for seconds in (created, position.file_created))
    begun = f"that file was begun at {before}, this at {now}"
    message = f"the log is not the one in which the capture stood at {position}: {begun}"
    return LogError(message, f"the log was reset, or another server answers: {START_ANEW}")


def rows_in_parts(place: LogCursor) -> LogError:
    """Name an event that holds a part of a ROWS event which was too large for the server.

    Source: MariaDB Server documentation, "PARTIAL_ROW_DATA_EVENT" and "binlog_row_event_fragment_threshold".
    """
    message = (
        f"a part of a ROWS event, of the type {EventCode.MARIADB_PARTIAL_ROW_DATA:d} (PARTIAL_ROW_DATA), at {place}: "
        "this release does not read parts"
    )
    hint = (
        "set binlog_row_event_fragment_threshold on the server to 1 GB, as it is by default, and "
        f"write no row that is larger; then {START_ANEW}"
    )
    return LogError(message, hint)


def unknown(header: Header, place: LogCursor) -> LogError:
    """Name an event whose type we do not know, and which may not be ignored."""
    return LogError(
        f"an event of the unknown type {header.code} at {place}",
        f"set binlog_format=ROW on the server, then {START_ANEW}; "
        "if it is ROW, the server needs a newer release of Penstock",
    )


def unknown_charset(client: int, place: LogCursor) -> LogError:
    """Name a statement of a client whose collation we do not know, and that is not all ASCII."""
    message = f"a statement at {place} of a client with the collation {client}, whose character set this release lacks"
    hint = f"have clients SET NAMES utf8mb4 before they write; then {START_ANEW}; or take a newer release of Penstock"
    return LogError(message, hint)
