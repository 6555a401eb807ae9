"""Which tables of a link do not go on with the others: from where on they are read again, and when."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock.core.tables import TableId

_FIRST_PAUSE_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 300.0
_NOW = float("-inf")

DROPPED = -1
"""The offset of a table that the link has forgotten: nothing of it is needed, from nowhere on, until it begins anew."""
UNFILLED = -2
"""The same of one that waits for a snapshot, with which it begins: files that its target has not loaded are gone."""


class Waited(Enum):
    """Why a table waited."""

    NOT = "it did not"
    PAUSED = "somebody paused it"
    STOPPED = "its target refused it, or it was yet to catch up"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A table that waits: every batch of it before `offset` of the batch topic is in, and none behind it.

    `try_at` is when it is tried again, None for not before the next start. With `ties`, tables
    that one statement renames together with it, it goes on when one of them does; if its rows
    are `kept`, another one of them needs these. One that `is_paused` waits until somebody lets
    it go on, over starts too.
    """

    offset: int
    try_at: float | None
    pause_seconds: float = 0.0
    ties: frozenset[TableId] = frozenset()
    is_paused: bool = False
    kept: bool = False


class SetAside:
    """The tables that wait. Times are those of one clock, in seconds."""

    def __init__(self, offsets: Mapping[TableId, int] | None = None) -> None:
        """Begin with tables that wait at these offsets, and may be tried at once unless they are forgotten."""
        given = offsets or {}
        self._tables = {table: Waiting(offset, _NOW) for table, offset in given.items() if offset >= 0}
        self._forgotten = {table: offset for table, offset in given.items() if offset < 0}

    def __contains__(self, table: TableId) -> bool:
        """Whether the table does not go on with the others."""
        return table in self._tables or table in self._forgotten

    def offsets(self) -> dict[TableId, int]:
        """Where each table waits, or DROPPED, or UNFILLED."""
        waiting = {table: waiting.offset for table, waiting in self._tables.items()}
        return {**waiting, **self._forgotten}

    def lacks(self, table: TableId, offset: int) -> bool:
        """Whether the table waits, and what is at `offset` is not in it."""
        return table in self._tables and self._tables[table].offset <= offset

    def put(self, table: TableId, offset: int, try_from: float | None, ties: Collection[TableId] = ()) -> float:
        """Let a table wait at `offset`, and try it again some time after `try_from`; return how long after it.

        The pause doubles each time that the table comes no further.
        """
        before = self._tables.get(table)
        pause = _FIRST_PAUSE_SECONDS
        if before is not None and before.pause_seconds and before.offset >= offset:
            pause = min(2 * before.pause_seconds, _LONGEST_PAUSE_SECONDS)
        try_at = None if try_from is None else try_from + pause
        self._tables[table] = Waiting(offset, try_at, pause, frozenset(ties))
        return pause

    def keep(self, tables: Collection[TableId]) -> None:
        """Let those of `tables` that wait keep their rows until they go on, also where they begin anew later."""
        for table in self._tables.keys() & set(tables):
            self._tables[table] = replace(self._tables[table], kept=True)

    def is_refused(self, table: TableId) -> bool:
        """Whether the table waits for the next start, and nobody needs the rows that it has."""
        waiting = self._tables.get(table)
        return waiting is not None and waiting.try_at is None and not waiting.kept and not waiting.is_paused

    def pause(self, table: TableId, offset: int) -> None:
        """Let a table wait until `skip` lets it go on: where it waits already, else at `offset`."""
        before = self._tables.get(table)
        self._tables[table] = Waiting(offset if before is None else before.offset, None, is_paused=True)

    def try_now(self, table: TableId) -> Waited:
        """Let a table go on at once from where it waits; return why it waited."""
        before = self._tables.get(table)
        if before is None:
            return Waited.NOT
        self.skip(table, before.offset)
        return Waited.PAUSED if before.is_paused else Waited.STOPPED

    def forget(self, table: TableId, how: int) -> None:
        """Forget a table, as DROPPED or UNFILLED, until `skip` says where it begins anew."""
        self._tables.pop(table, None)
        self._forgotten[table] = how

    def is_forgotten(self, table: TableId) -> bool:
        """Whether the table is forgotten."""
        return table in self._forgotten

    def forgotten(self, how: int) -> set[TableId]:
        """Return the tables that are forgotten as DROPPED, or as UNFILLED."""
        return {table for table, offset in self._forgotten.items() if offset == how}

    def move_unfilled(self, unfilled: Collection[TableId], moves: Collection[tuple[TableId, TableId]]) -> set[TableId]:
        """Let these UNFILLED tables get the names that their rows get, by (old, new); return those with another name.

        A name that nobody has any more has nothing to wait for.
        """
        named = {new for _, new in moves}
        found = {new for old, new in moves if old in unfilled and new not in self._forgotten}
        for table in {old for old, _ in moves if old in unfilled} - named:
            del self._forgotten[table]
        for table in found:
            self.forget(table, UNFILLED)
        return found

    def end_unfilled(self, table: TableId) -> bool:
        """Let a table wait for nothing any more, as its source has dropped it; return whether it was UNFILLED."""
        is_mine = self._forgotten.get(table) == UNFILLED
        if is_mine:
            del self._forgotten[table]
        return is_mine

    def skip(self, table: TableId, offset: int) -> None:
        """Let a table that waits or is forgotten go on at `offset` at once, without what lies before it."""
        self._forgotten.pop(table, None)
        self._tables[table] = Waiting(offset, _NOW)

    def due(self, now: float) -> set[TableId]:
        """Return the tables whose time has come, and those that are tied to them."""
        found = {
            table for table, waiting in self._tables.items() if waiting.try_at is not None and waiting.try_at <= now
        }
        while True:
            tied = {
                table
                for table, waiting in self._tables.items()
                if table not in found and self._is_drawn(waiting, found)
            }
            if not tied:
                return found
            found |= tied

    def advance(self, tables: Collection[TableId], offset: int) -> None:
        """Remember that all before `offset` is in these tables."""
        for table in tables:
            if self._tables[table].offset < offset:
                self._tables[table] = Waiting(offset, _NOW)

    def release(self, offset: int) -> set[TableId]:
        """Forget, and return, the tables that have caught up with `offset`, where the others are."""
        free = {table for table, waiting in self._tables.items() if waiting.offset >= offset and waiting.try_at == _NOW}
        for table in free:
            del self._tables[table]
        return free

    def _is_drawn(self, waiting: Waiting, found: Collection[TableId]) -> bool:
        """Whether a table that has no time of its own goes with those of `found`, or with nobody that waits."""
        if not waiting.ties:
            return False
        return not waiting.ties.isdisjoint(found) or waiting.ties.isdisjoint(self._tables)
