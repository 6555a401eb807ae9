"""The timelines of a PostgreSQL server: each promotion begins one, where the log of the one before ends for it.

Source: PostgreSQL's `src/backend/access/transam/timeline.c`, "readTimeLineHistory".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.core.positions import parse_lsn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.positions import WalPosition

_LINE: Final = re.compile(r"^\s*(\d+)\s+([0-9A-Fa-f]+/[0-9A-Fa-f]+)", re.MULTILINE)


def end_of_timeline(history: str, timeline: int) -> int | None:
    """Return where a server left `timeline`, by its history file: an LSN; None if it never was in it."""
    return dict(_ends(history)).get(timeline)


def begin_of_timeline(history: str, timeline: int) -> int:
    """Return where `timeline` began, which a server was in or is in: an LSN; 0 for the first, or without a history."""
    begin = 0
    for number, end in _ends(history):
        if number == timeline:
            break
        begin = end
    return begin


def has_log_before(history: str, position: WalPosition) -> bool:
    """Whether a server that is in a later timeline than `position` by now has the log before it; so if nobody knows."""
    if not position.server_timeline:
        return True
    end = end_of_timeline(history, position.server_timeline)
    # Within a transaction the position is where its COMMIT begins, which the server must have.
    return end is not None and position.lsn + bool(position.rows_from) <= end


def is_another_timeline(history: str, position: WalPosition) -> bool:
    """Whether the server's timeline of the number of ours began elsewhere: each standby that is promoted counts on."""
    begin = begin_of_timeline(history, position.server_timeline)
    return bool(position.server_timeline and begin and position.timeline_from) and begin != position.timeline_from


def _ends(history: str) -> Sequence[tuple[int, int]]:
    """Timelines, oldest first, and where the server left each; its own is not among them."""
    return [(int(number), parse_lsn(lsn)) for number, lsn in _LINE.findall(history)]
