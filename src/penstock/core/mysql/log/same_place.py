"""Finds in the log of another server, which has the same transactions, the place where we stand in the first one's.

By GTIDs: the boundary behind the last transaction of ours. By a heartbeat: the
boundary with as much behind that heartbeat as we have counted. A finder takes the
items of a log from its beginning on, and when it has `found` the place goes on to
count what lies behind it. What cannot be proven is a LogError, never a guess.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.core.errors import START_ANEW, LogError
from penstock.core.mysql.events.gtid_sets import MariadbGtids, parse_gtids
from penstock.core.mysql.log.log_items import StatementLogged, TransactionBegan, TransactionEnded, TransactionsLogged
from penstock.core.mysql.statements.ddl import RowStatement, TableDdl, classify
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.mysql.events.gtid_sets import GtidSet
    from penstock.core.mysql.log.heartbeats import HeartbeatWatch
    from penstock.core.mysql.log.log_items import LogItem
    from penstock.core.positions import BinlogPosition, Heartbeat

COPY_OR_WAIT: Final = (
    "Nothing was changed. Fail over to a server that has every published transaction, or let the old master come back; "
    f"where neither can be, {START_ANEW}"
)


@dataclass(slots=True)
class Behind:
    """What lies behind the place: transactions, lone statements too, and how many of these change tables."""

    transactions: int = 0
    table_statements: int = 0

    def take(self, item: LogItem) -> None:
        """Count an item."""
        match item:
            case TransactionEnded():
                self.transactions += 1
            case TransactionsLogged():
                self.transactions += len(item.ends)
            case StatementLogged():
                self.transactions += not item.end.rows_from
                self.table_statements += isinstance(classify(item.sql, item.session.sql_mode), TableDdl)
            case _:
                pass


@dataclass(slots=True)
class GtidPlace:
    """Finds the place with everything of `ours` before it, and nothing else that is wanted.

    `start` is where the log is read from, with the GTIDs before it. Rows come of
    tables that are `wanted` only.
    """

    ours: GtidSet
    start: BinlogPosition
    wanted: Callable[[TableId], bool]
    found: BinlogPosition | None = None
    behind: Behind = field(default_factory=Behind)
    _gtid: str = ""
    _strange: str = ""

    def __post_init__(self) -> None:
        """Look whether the place is where the log begins."""
        self._arrive(self.start)

    def take(self, item: LogItem) -> None:
        """Look at an item. Raises LogError where the place cannot be one: ours and others are mixed before it."""
        if self.found is not None:
            self.behind.take(item)
            return
        match item:
            case TransactionBegan(gtid=gtid):
                self._gtid = gtid
            case RowsLogged():
                self._look_at(self._gtid, f"rows of {item.table_map.table}")
            case StatementLogged():
                if _concerns(item, self.wanted):
                    self._look_at(item.gtid, item.sql[:100])
                if not item.end.rows_from:
                    self._arrive(item.end)
            case TransactionEnded(end):
                self._arrive(end)
            case TransactionsLogged():
                self._take_run(item)
            case _:
                pass

    def _take_run(self, run: TransactionsLogged) -> None:
        count = len(run.ends)
        if self._is_reached(run.end):
            count = 1 + bisect_left(range(1, count), 1, key=lambda n: int(self._is_reached(run.first(n).end)))
        part = run.first(count)
        for block in part.blocks:
            for rows in block:
                self._look_at(rows.gtid, f"rows of {rows.table_map.table}")
        self._arrive(part.end)
        if self.found is not None:
            self.behind.transactions += len(run.ends) - count

    def _is_reached(self, place: BinlogPosition) -> bool:
        return _reaches(parse_gtids(place.gtids), self.ours)

    def _look_at(self, gtid: str, what: str) -> None:
        if not self._strange and (not gtid or gtid not in self.ours):
            self._strange = f"{gtid or 'a transaction without a GTID'} ({what})"

    def _arrive(self, place: BinlogPosition) -> None:
        if not self._is_reached(place):
            return
        if self._strange:
            message = (
                f"before {place}, where the new master's log has the last transaction that the pipeline published, "
                f"it has one that the old master's log did not have: {self._strange}"
            )
            hint = (
                "it was written there before the promotion, or the replica wrote transactions in another order: "
                f"no position of this log has all that was published before it, and nothing else. {COPY_OR_WAIT}"
            )
            raise LogError(message, hint)
        gtids = parse_gtids(place.gtids)
        if isinstance(gtids, MariadbGtids) and isinstance(self.ours, MariadbGtids):
            self._require_same_history(gtids, self.ours, place)
        self.found = place

    def _require_same_history(self, gtids: MariadbGtids, ours: MariadbGtids, place: BinlogPosition) -> None:
        """Numbers of a domain are given by every server: the newest of ours must be there with the same server."""
        if not gtids.has_at_their_ends(ours):
            message = f"at {place} the new master is at {gtids}, and the pipeline is after {ours}, not in its log"
            hint = f"its history is another one, or its log begins too late. {COPY_OR_WAIT}"
            raise LogError(message, hint)


@dataclass(slots=True)
class HeartbeatPlace:
    """Finds the place with as much behind the heartbeat of `ours` as was counted; `watch` reads the log from anew."""

    ours: Heartbeat
    watch: HeartbeatWatch
    found: BinlogPosition | None = None
    behind: Behind = field(default_factory=Behind)

    def take(self, item: LogItem) -> None:
        """Look at an item. Raises LogError where what comes behind the heartbeat is not what we have counted."""
        if self.found is not None:
            self.behind.take(item)
            return
        if isinstance(item, TransactionsLogged):
            self._take_run(item)
            return
        self.watch.take(item)
        if isinstance(item, TransactionEnded) or (isinstance(item, StatementLogged) and not item.end.rows_from):
            self._arrive(item.end)

    def _take_run(self, run: TransactionsLogged) -> None:
        count = self.watch.place_in(run, self.ours)
        part = run.first(count) if count else run
        self.watch.take(part)
        self._arrive(part.end)
        if self.found is not None:
            self.behind.transactions += len(run.ends) - count

    def _arrive(self, place: BinlogPosition) -> None:
        mark, ours = self.watch.mark, self.ours
        if mark.serial > ours.serial:
            message = (
                f"the log of the new master has heartbeat {mark.serial} at {place}, but not {ours.serial} with "
                f"{ours.transactions} transactions after it, where the pipeline stands"
            )
            hint = f"its log begins too late, or has another history. {COPY_OR_WAIT}"
            raise LogError(message, hint)
        if (mark.serial, mark.transactions) != (ours.serial, ours.transactions):
            return
        if not mark.counts_as(ours):
            message = (
                f"{ours.transactions} transactions after heartbeat {ours.serial} the new master is at {place}, but "
                f"they are not those that were read: {mark.row_bytes:,} bytes of rows, and {ours.row_bytes:,}"
            )
            hint = (
                "its log has other transactions or another order, or its binlog_row_image, binlog_row_event_max_size "
                f"or `tables` of the source has changed. {COPY_OR_WAIT}"
            )
            raise LogError(message, hint)
        self.found = place


def _concerns(statement: StatementLogged, wanted: Callable[[TableId], bool]) -> bool:
    """Whether a statement may change tables that are wanted, or their rows."""
    found = classify(statement.sql, statement.session.sql_mode)
    if not isinstance(found, TableDdl | RowStatement):
        return False
    if not found.tables:
        return not (isinstance(found, TableDdl) and found.action == "create_schema")
    return any(wanted(TableId(schema or statement.default_schema, name)) for schema, name in found.tables)


def _reaches(gtids: GtidSet | None, ours: GtidSet) -> bool:
    if gtids is None:
        return False
    if isinstance(gtids, MariadbGtids):
        return isinstance(ours, MariadbGtids) and gtids.reaches(ours)
    return not isinstance(ours, MariadbGtids) and gtids.reaches(ours)
