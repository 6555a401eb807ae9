"""Events that this release does not read, and what the operator can do about each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.errors import LogError
from penstock.core.mysql.event_codes import EventCode

if TYPE_CHECKING:
    from penstock.core.mysql.event_frame import Header
    from penstock.core.mysql.place import Place

COPY_AGAIN: Final = "copy the tables again and go on from the position of that copy"

UNREADABLE_ROWS: Final = {
    EventCode.PARTIAL_UPDATE_ROWS: "set binlog_row_value_options='' on the server",
}
"""They matter only where their table is wanted."""

UNREADABLE: Final = {
    EventCode.INCIDENT: "the server itself lost changes here",
}
"""They may hold anything, so nothing can be read past them."""


def unreadable(header: Header, place: Place) -> LogError:
    """Name an event of `UNREADABLE` or `UNREADABLE_ROWS` with its place and its remedy."""
    code = EventCode(header.code)
    remedy = UNREADABLE.get(code) or UNREADABLE_ROWS[code]
    return LogError(f"a {code.name} event at {place}, which this release cannot read", f"{remedy}; then {COPY_AGAIN}")


def unknown(header: Header, place: Place) -> LogError:
    """Name an event whose type we do not know, and which may not be ignored."""
    return LogError(
        f"an event of the unknown type {header.code} at {place}",
        f"set binlog_format=ROW on the server, then {COPY_AGAIN}; if it is ROW, the server needs a newer release of us",
    )
