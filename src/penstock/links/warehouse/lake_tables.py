"""The tables of a lake, each with how far it is: what a load of one needs, commit by commit."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.config.crash_points import CrashPoint
from penstock.core.errors import ConflictError, TableStoppedError, UnavailableError
from penstock.core.warehouse.columns import REFRESH_OR_ANEW
from penstock.links.warehouse.lake_state import TableProgress

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.tables import TableId
    from penstock.links.warehouse.lake_state import LakeState
    from penstock.ports.lake import Lake

_RECORDED = CrashPoint("lake.recorded", "what a commit makes true is written, the commit is not")
_COMMITTED = CrashPoint("lake.committed", "a table is committed, what was known of it before is not forgotten yet")
_LEFT = CrashPoint("lake.left", "a table's last commit says that it goes, and its files are there")

_CLAIM_STEP = 1 << 24
_CLAIM_ABOVE_MAX = 1 << 16
_PAUSES_SECONDS = (0.2, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True)
class _Claim:
    """The number of our newest commit of a table, and what it made true."""

    number: int
    progress: TableProgress


class LakeTables:
    """One owner's tables in a lake, whom no other instance of it can overtake unseen.

    The first thing that is done to a table is to claim it: a commit with a number
    high above the last one. From then on commits of whoever claimed it before have
    no effect, and the numbers of ours follow each other. A number is a claim's, in
    its upper bits, and the place of the commit within it.
    """

    def __init__(self, lake: Lake, lake_state: LakeState) -> None:
        """Work on the tables of `lake`; `lake_state` has what is known of them."""
        self._lake = lake
        self._lake_state = lake_state
        self._claims: dict[TableId, _Claim] = {}

    def look(self, table: TableId) -> TableProgress | None:
        """Return how far the table is, by its own log; None for one that is not here. Claims nothing."""
        if self._lake.exists(table):
            number = self._lake.number(table)
            try:
                return None if number is None else self._lake_state.read(table, number)
            except TableStoppedError:
                if self._lake.number(table) == number:
                    raise
            # It was committed in between, which deletes what was said of the commit before.
            return self.look(table)
        left = self._lake_state.life(table)
        return left if isinstance(left, TableProgress) else None

    def open(self, table: TableId) -> TableProgress | None:
        """Claim the table and return how far it is; None for one that is not here.

        Raises TableStoppedError for one of somebody else's and one that somebody
        deleted, UnavailableError if another instance has claimed it since we did.
        """
        if not self._lake.exists(table):
            self._claims.pop(table, None)
            return self._without_table(table)
        number = self._lake.number(table)
        if number is None:
            reason = f"the lake has a table of this name that Penstock did not make, at {self._lake.path(table)}"
            hint = "delete or move that table, or load this one into another folder"
            raise TableStoppedError(str(table), "", "the target's table", reason, hint)
        claim = self._claims.get(table)
        if claim is None:
            claim = self._claim(table, number)
        elif claim.number != number:
            raise self._overtaken(table)
        if claim.progress.leaving:
            self._finish_leaving(table, claim.progress)
            return claim.progress
        return claim.progress

    def commit(self, table: TableId, progress: TableProgress, write: Callable[[int], None]) -> None:
        """Do `write`, which commits the table with the number it is given, so that `progress` is true from then on.

        What another writer of the table, such as an OPTIMIZE, was in the way of is
        tried again, some times.
        """
        claim = self._claims.get(table)
        before = claim.number if claim else 0
        number = before + 1 if claim else _first_number(0)
        self._lake_state.write(table, number, progress)
        _RECORDED.maybe_crash()
        self._commit(table, before, number, write)
        _COMMITTED.maybe_crash()
        self._claims[table] = _Claim(number, progress)
        if claim is None:
            self._lake_state.set_life(table)
            # What is said of a table of this name that left may have a higher number, and would pass for newer.
            self._lake_state.forget_others(table, number)
        else:
            self._lake_state.forget(table, before)

    def forget_positions(self, table: TableId, *, ends: bool) -> None:
        """Let the table begin anew with the next batch, whatever is loaded of it, or deleted by somebody.

        If it `ends`, that is also the end of the rows that it has.
        """
        if not self._lake.exists(table):
            self._lake_state.forget_life(table)
            return
        known = None if self._lake.number(table) is None else self.open(table)
        if known is not None:
            state = replace(known.state, ended=ends or known.state.ended)
            self.commit(table, replace(known, state=state, positions={}), lambda number: self._lake.note(table, number))

    def leave(self, table: TableId, progress: TableProgress) -> None:
        """Delete the table; what `progress` says of it is kept."""
        left = replace(progress, leaving=True)
        if self._lake.exists(table):
            self.commit(table, left, lambda number: self._lake.note(table, number))
            _LEFT.maybe_crash()
        self._finish_leaving(table, left)

    def _finish_leaving(self, table: TableId, left: TableProgress) -> None:
        self._lake_state.set_life(table, left)
        self._lake.remove(table)
        self._claims.pop(table, None)

    def _without_table(self, table: TableId) -> TableProgress | None:
        left = self._lake_state.life(table)
        if left is True:
            reason = "somebody dropped it from the lake"
            raise TableStoppedError(str(table), "", "the target's table", reason, REFRESH_OR_ANEW)
        return left if isinstance(left, TableProgress) else None

    def _claim(self, table: TableId, before: int) -> _Claim:
        progress = self._lake_state.read(table, before)
        number = _first_number(before)
        self._lake_state.write(table, number, progress)
        self._commit(table, before, number, lambda number: self._lake.note(table, number, before))
        self._lake_state.set_life(table)
        self._lake_state.forget_others(table, number)
        self._claims[table] = _Claim(number, progress)
        return self._claims[table]

    def _commit(self, table: TableId, before: int, number: int, write: Callable[[int], None]) -> None:
        for pause in (*_PAUSES_SECONDS, None):
            try:
                write(number)
                if self._lake.number(table) == before:
                    # There was nothing to do, so nothing was committed, the number neither.
                    self._lake.note(table, number, before)
            except ConflictError:
                if pause is None:
                    raise
                time.sleep(pause)
            reached = self._number(table)
            if reached == number:
                return
            if reached != before:
                raise self._overtaken(table)
        message = f"{table}: the lake did not keep commit {number}"
        raise UnavailableError(message, "it is tried again; look into the table's history if it stays")

    def _number(self, table: TableId) -> int:
        return (self._lake.number(table) or 0) if self._lake.exists(table) else 0

    def _overtaken(self, table: TableId) -> UnavailableError:
        self._claims.pop(table, None)
        message = f"another instance of this pipeline has written {table} to the lake"
        return UnavailableError(message, "stop one of the two instances; this one goes on where the table stands")


def _first_number(before: int) -> int:
    """A claim above that of `before`, by chance one that no other instance takes at the same time."""
    return (before // _CLAIM_STEP + 1 + secrets.randbelow(_CLAIM_ABOVE_MAX)) * _CLAIM_STEP
