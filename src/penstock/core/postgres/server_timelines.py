"""The timelines of a PostgreSQL server: each promotion begins one, where the log of the one before ends for it.

Source: PostgreSQL's `src/backend/access/transam/timeline.c`, "readTimeLineHistory".
"""

from __future__ import annotations

import re
from typing import Final

from penstock.core.positions import parse_lsn

_LINE: Final = re.compile(r"^\s*(\d+)\s+([0-9A-Fa-f]+/[0-9A-Fa-f]+)", re.MULTILINE)


def end_of_timeline(history: str, timeline: int) -> int | None:
    """Return where a server left `timeline`, by its history file: an LSN; None if it never was in it."""
    ends = {int(number): parse_lsn(lsn) for number, lsn in _LINE.findall(history)}
    return ends.get(timeline)
