"""Ids and GUIDs as requests write them: whoever lets a request through and the route behind it read them here."""

from __future__ import annotations

import re
from typing import Final
from uuid import UUID

NO_ID: Final = -1
"""An id that nothing has."""
_ID_MAX: Final = (1 << 63) - 1
_WRITTEN = re.compile(r"0|-?[1-9][0-9]*")


def parse_id(written: object) -> int:
    """Return an id that is a number of JSON, or a text as the registry writes ids. Raises ValueError.

    One id has one form: 12 is not 012, +12, 1_2 or 12.0, so that nobody can read it as another one.
    """
    if isinstance(written, int) and not isinstance(written, bool):
        return written
    if isinstance(written, str) and _WRITTEN.fullmatch(written):
        return int(written)
    message = "write an id as this registry does: in digits alone, without zeros in front"
    raise ValueError(message)


def is_storable(number: int) -> bool:
    """Tell whether anything may have this id: databases refuse to be asked for what is longer than they can keep."""
    return 0 < number <= _ID_MAX


def parse_guid(written: str) -> str:
    """Return the digits of a GUID, with which its schema's fingerprint begins. Raises ValueError."""
    return UUID(written).hex
