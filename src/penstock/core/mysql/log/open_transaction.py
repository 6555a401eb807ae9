"""The transaction that is being read: what of it may be shown before its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.mysql.log.log_items import StatementLogged, TransactionBegan
from penstock.core.mysql.statements.ddl import RowStatement, TableDdl, classify
from penstock.core.mysql.statements.savepoints import Savepoints
from penstock.core.mysql.types.logged_rows import RowsLogged

if TYPE_CHECKING:
    from penstock.core.mysql.log.log_items import LogItem


@dataclass(slots=True)
class OpenTransaction:
    """One group of events, from its GTID (or BEGIN) at `begin` on.

    A binlog can hold rows that were rolled back, behind SAVEPOINT or before
    ROLLBACK, when a transaction also touched a temporary or a non-transactional
    table. So items are held until the end is known, up to a number of bytes; a
    larger transaction is released in pieces. `shown` counts the items that can
    no longer be taken back, as they were released.

    What stands before `rows_from` was passed by an earlier reader. It is held and let
    go of all the same, but not handed out: so we know what that reader had released,
    and what it had hidden.

    `explicit` tells a transaction, which has a commit, from a lone statement. `xa_places`
    has where rows that are held stand among those of an XA transaction, by where they are in the log.
    """

    file: str
    begin: int
    gtid: str
    timestamp_ms: int
    explicit: bool
    rows_from: int = 0
    shown: int = 0
    prepared_xa: bool = False
    alter_undecided: bool = False
    held_bytes: int = 0
    xa_places: dict[int, int] = field(default_factory=dict)
    _xa_bytes: int = 0
    _announced: bool = False
    _held: list[LogItem] = field(default_factory=list)
    _savepoints: Savepoints = field(default_factory=Savepoints)

    def hold(self, item: LogItem, size_bytes: int) -> None:
        """Keep `item` until the end, or until there is too much."""
        self._held.append(item)
        self.held_bytes += size_bytes

    def count_xa_rows(self, rows_from: int, size_bytes: int, *, wanted: bool) -> None:
        """Give a ROWS event at `rows_from` its place: how many bytes all those before it have, wanted or not."""
        if wanted:
            self.xa_places[rows_from] = self._xa_bytes
        self._xa_bytes += size_bytes

    def release(self) -> list[LogItem]:
        """Hand out what is held and new, with the transaction's beginning before the first of it."""
        items, self._held = self._held, []
        self.held_bytes = 0
        self.shown += len(items)
        if self.rows_from:
            items = [item for item in items if not self._was_passed(item)]
        if items and not self._announced:
            self._announced = True
            items.insert(0, TransactionBegan(self.file, self.begin, self.gtid, self.timestamp_ms))
        return items

    def outliving(self, since: int = 0) -> list[StatementLogged]:
        """Return what no rollback takes back, of that which is held behind the first `since`.

        A DROP of a table, as MariaDB logs for a CREATE OR REPLACE that failed; and what
        changed rows as a statement, for a server logs a rollback where there is a table
        without transactions in it (MySQL and MariaDB, sql/binlog.cc and sql/log.cc).
        """
        held = self._held[since:]
        return [item for item in held if isinstance(item, StatementLogged) and _outlives_rollback(item)]

    def set_savepoint(self, name: str) -> None:
        """Remember how many items there are when `name` is set, and what is held; an older one of that name is gone."""
        self._savepoints.set(name, self.shown + len(self._held), self.held_bytes)

    def roll_back_to(self, name: str, rows_place: int) -> bool:
        """Forget what came after savepoint `name`; False if some of it was shown. Errors as of `Savepoints`."""
        count, held_bytes = self._savepoints.roll_back_to(name)
        if rows_place < self.rows_from:
            # An earlier reader that passed this had released nothing of it, even if we, who may want more tables, have.
            self.shown = min(self.shown, count)
        elif count < self.shown or self._were_published(count - self.shown):
            return False
        since = count - self.shown
        self._held[since:] = self.outliving(since)
        self.held_bytes = held_bytes
        return True

    def roll_back(self) -> bool:
        """Forget everything; False if some of it was shown."""
        self._held.clear()
        return not self.shown and not self.rows_from

    def _were_published(self, since: int) -> bool:
        """Whether rows that are held behind the first `since` were published by one who wanted more tables.

        Who reads up to rows has released them. Up to a statement: perhaps at the end, without rows taken back.
        """
        passed = [item for item in self._held[since:] if self._was_passed(item)]
        return bool(passed) and isinstance(passed[-1], RowsLogged)

    def _was_passed(self, item: LogItem) -> bool:
        if isinstance(item, StatementLogged):
            return item.end.rows_from <= self.rows_from
        return isinstance(item, RowsLogged) and item.rows_from < self.rows_from


def _outlives_rollback(statement: StatementLogged) -> bool:
    read = classify(statement.sql, statement.session.sql_mode)
    return isinstance(read, RowStatement) or (isinstance(read, TableDdl) and read.action == "drop")
