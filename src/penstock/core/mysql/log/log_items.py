"""What a binlog says, one item per event that matters to us."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from penstock.core.mysql.log.executed import Executed
from penstock.core.mysql.statements.sql_session import UNKNOWN_SESSION, SqlSession
from penstock.core.mysql.types.logged_rows import ROWS_BITS, ROWS_MASK, RowsLogged
from penstock.core.positions import binlog_position, file_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from penstock.core.mysql.events.gtid_columns import GtidColumn
    from penstock.core.mysql.rows.rows_block import RowsBlock
    from penstock.core.positions import BinlogPosition, Position


@dataclass(frozen=True, slots=True)
class TransactionBegan:
    """A GTID event (or BEGIN where there is none): `offset` in `file` is where it starts."""

    file: str
    offset: int
    gtid: str
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class StatementLogged:
    """A QUERY event that is neither BEGIN nor COMMIT: DDL, most of the time.

    `begin` is the position to read from to see it again, `end` the one after it.
    `inside` is where it ends in a compressed transaction, 0 for one on its own.
    `gtid` is that of its transaction, "" where there is none; `session` the one that wrote it.
    `of_session` says that it, or what ran before it in the same procedure, used what that session alone had:
    temporary tables, or its number.
    """

    sql: str
    default_schema: str
    begin: BinlogPosition
    end: BinlogPosition
    timestamp_ms: int
    inside: int = 0
    gtid: str = ""
    session: SqlSession = UNKNOWN_SESSION
    of_session: bool = False

    @property
    def order(self) -> tuple[int, int, int]:
        """(file number, offset, row) behind every row before the statement, at most that of the first row behind it.

        No other statement has it, not even the one right before in the log.
        """
        start = (self.end.rows_from or self.end.offset) - self.inside
        return file_number(self.end.file), start + (self.inside >> ROWS_BITS), self.inside & ROWS_MASK

    def ending_at(self, end: Position) -> StatementLogged:
        """Return it with another `end`, which tells more of the same place."""
        return replace(self, end=binlog_position(end))


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """A commit (XID, COMMIT or ROLLBACK): `end` is the boundary after it."""

    end: BinlogPosition
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class LogAdvanced:
    """Nothing for us up to `end`, a boundary: a new file, a heartbeat, transactions of other tables."""

    end: BinlogPosition


@dataclass(frozen=True, slots=True, eq=False)
class TransactionsLogged:
    """Whole transactions of one file, one behind the other: what stands for all items of theirs.

    `begin` is the boundary before the first, `end` the one behind the last. `ends`
    (int64[t]) is the offset of the boundary behind each of them, `times_ms`
    (int64[t]) its commit time and `gtids` its GTID. `blocks` has those rows that
    are wanted, in no order between blocks: the offsets of their events tell.
    """

    begin: BinlogPosition
    end: BinlogPosition
    ends: npt.NDArray[np.int64]
    times_ms: npt.NDArray[np.int64]
    gtids: GtidColumn
    blocks: tuple[RowsBlock, ...]

    @property
    def stretches(self) -> Iterable[tuple[str, int, int]]:
        """All GTIDs as origins with consecutive numbers, [first, last]."""
        return self.gtids.stretches()

    def first(self, count: int) -> TransactionsLogged:
        """The first `count` transactions, at least one."""
        offset = int(self.ends[count - 1])
        gtids = self.gtids.first(count)
        executed = Executed(self.begin.gtids)
        executed.add_all(gtids.stretches())
        end = replace(self.end, offset=offset, gtids=executed.text)
        counts = ((block, int(np.searchsorted(block.offsets, offset))) for block in self.blocks)
        blocks = tuple(block.first(events) for block, events in counts if events)
        return TransactionsLogged(self.begin, end, self.ends[:count], self.times_ms[:count], gtids, blocks)

    def until(self, stop: BinlogPosition) -> TransactionsLogged:
        """The transactions up to the first that ends at `stop` or behind it, which `end` must do."""
        file, _, rows_from = self.end.order
        count = next(i for i, offset in enumerate(self.ends.tolist(), 1) if (file, offset, rows_from) >= stop.order)
        return self if count == len(self.ends) else self.first(count)


@dataclass(frozen=True, slots=True, eq=False)
class FewTransactions:
    """Whole transactions of one file, one behind the other, as `TransactionsLogged`, but too few for columns.

    `begin` is the boundary before the first, `end` the one behind the last. Each of
    `places` is where a transaction starts and ends in the file, with its GTID and its
    commit time (Unix ms). `stretches` has all GTIDs as origins (`domain-server-` or
    `uuid:`) with consecutive numbers, [first, last]. `rows` has those that are wanted.
    """

    begin: BinlogPosition
    end: BinlogPosition
    places: tuple[tuple[int, int, str, int], ...]
    stretches: tuple[tuple[str, int, int], ...]
    rows: tuple[RowsLogged, ...]

    def singly(self) -> Iterator[TransactionBegan | RowsLogged | TransactionEnded]:
        """The items of each transaction, as they are where transactions are read one by one."""
        executed, at = Executed(self.begin.gtids), 0
        for start, end, gtid, timestamp_ms in self.places:
            first = at
            while at < len(self.rows) and self.rows[at].offset < end:
                at += 1
            if at > first:
                yield TransactionBegan(self.begin.file, start, gtid, timestamp_ms)
                yield from self.rows[first:at]
            if gtid:
                executed.add(gtid)
            yield TransactionEnded(replace(self.end, offset=end, gtids=executed.text), timestamp_ms)


LogItem: TypeAlias = (
    TransactionBegan
    | RowsLogged
    | StatementLogged
    | TransactionEnded
    | LogAdvanced
    | TransactionsLogged
    | FewTransactions
)
