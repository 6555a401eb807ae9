"""What a link has carried, counted for people in the state database, which may be away for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from penstock.core.errors import UnavailableError

if TYPE_CHECKING:
    from penstock.ports.state import Rows, State

_log = structlog.get_logger()


class CarriedRows:
    """Counts rows of one link. What cannot be written down now waits for the next time: nothing stops for it."""

    def __init__(self, link: str, state: State) -> None:
        """Count for `link`."""
        self._link = link
        self._state = state
        self._waiting: dict[str, tuple[int, int]] = {}
        self._offset: int | None = None

    def add(self, rows: Rows, next_offset: int | None = None) -> None:
        """Count `rows`; `next_offset` is the offset of its topic that the link reads next, where it reads one."""
        self.gather(rows)
        self._offset = self._offset if next_offset is None else next_offset
        try:
            self._state.add_rows(self._link, self._waiting)
            self._waiting = {}
            if self._offset is not None:
                self._state.save_place(self._link, self._offset)
        except UnavailableError as error:
            _log.warning("counts wait", link=self._link, error=error.message, hint=error.hint)

    def gather(self, rows: Rows) -> None:
        """Count `rows`, which are written down with the next."""
        for table, (count, timestamp_ms) in rows.items():
            before, newest = self._waiting.get(table, (0, 0))
            self._waiting[table] = (before + count, max(newest, timestamp_ms))
