"""From messages of pgoutput to items with their places."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from penstock.core.changes import Op
from penstock.core.errors import CorruptLogError
from penstock.core.postgres.catalog import DDL_LOG
from penstock.core.postgres.log_items import (
    STEPS_PER_ROW,
    LogAdvanced,
    PostgresItem,
    RelationSeen,
    RowLogged,
    RowsLogged,
    ShortTransactions,
    TableAltered,
    TablesTruncated,
    Transaction,
    TransactionEnded,
    size_of,
)
from penstock.core.postgres.messages import (
    EPOCH_US,
    Began,
    Committed,
    Deleted,
    Inserted,
    OtherMessage,
    PgoutputMessage,
    Relation,
    Truncated,
    TypeNamed,
    Updated,
)
from penstock.core.postgres.network_reader import MalformedError
from penstock.core.postgres.pgoutput import decode_message
from penstock.core.postgres.runs import HEAD_BYTES, NOTHING_SKIPPED, ROW_KINDS, RUN_ROWS_MIN
from penstock.core.postgres.short_transactions import read_short_transactions
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.positions import WalPosition
    from penstock.core.postgres.messages import Cells

_RUN_BYTES_MAX: Final = 1 << 20
_WRITTEN: Final = "described"
_ROWS_MAX: Final = (1 << 31) // STEPS_PER_ROW - 1


class PgoutputScanner:
    """Reads a stream of messages from `start` on; what its first transaction has before that is passed by."""

    def __init__(self, start: WalPosition) -> None:
        """Know no table yet: each stream describes its tables itself."""
        self._start = start
        self._end = replace(start, rows_from=0)
        self._relations: dict[int, Relation] = {}
        # Those whose rows have not come yet: a partition is described too where its rows arrive as its root's.
        self._described: dict[int, Relation] = {}
        # DDL_LOG is not among the others: its rows are looked into one by one.
        self._ddl_logs: dict[int, Relation] = {}
        self._transaction: Transaction | None = None
        self._rows = self._serial = 0

    @property
    def is_inside(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._transaction is not None

    def take(self, data: bytes) -> Iterator[PostgresItem]:
        """Yield what one message says. Raises CorruptLogError where it does not decode, or cannot stand where it is."""
        try:
            yield from self._items(decode_message(data))
        except MalformedError as error:
            message = f"the log does not decode after {self._end}: {error}"
            raise CorruptLogError(message, NOTHING_SKIPPED) from error

    def take_all(self, messages: Sequence[bytes]) -> Iterator[PostgresItem]:
        """Yield what messages say, which are as `take` wants them: many rows of one kind are one item."""
        at = 0
        while at < len(messages):
            if self._transaction is None:
                short, at = read_short_transactions(messages, at, self._start, self._relations, self._serial + 1)
                if short is not None:
                    yield self._passed(short)
                    continue
            end = self._end_of_run(messages, at)
            if end - at < RUN_ROWS_MIN:
                for message in messages[at:end]:
                    yield from self.take(message)
            else:
                yield self._run(messages[at:end])
            at = end

    def _end_of_run(self, messages: Sequence[bytes], at: int) -> int:
        """Return how far messages go on as the one at `at`, whose rows need not be looked at one by one."""
        head = messages[at][:HEAD_BYTES]
        kind = head[:1] + head[-1:]
        oid = int.from_bytes(head[1:-1], "big")
        is_known = kind in ROW_KINDS and oid in self._relations and self._transaction is not None
        if not is_known or (self._transaction is not None and self._transaction.lsn == self._start.lsn):
            return at + 1
        end, left = at, _RUN_BYTES_MAX
        while end < len(messages) and left > 0 and messages[end].startswith(head):
            left -= len(messages[end])
            end += 1
        return end

    def _run(self, messages: Sequence[bytes]) -> RowsLogged:
        head = messages[0][:HEAD_BYTES]
        relation, op = self._relation(int.from_bytes(head[1:-1], "big")), ROW_KINDS[head[:1] + head[-1:]]
        number, serial, count = self._number(), self._serial + 1, len(messages)
        self._count(count)
        self._serial += count
        numbers = range(number, number + count * STEPS_PER_ROW, STEPS_PER_ROW)
        transactions = (self._inside(),) * count
        return RowsLogged(relation, op, chr(head[-1]), messages, transactions, numbers, range(serial, serial + count))

    def _passed(self, short: ShortTransactions) -> ShortTransactions:
        self._end = short.end
        self._serial += sum(len(run.messages) for run in short.rows)
        return short

    def at_rest(self, lsn: int) -> LogAdvanced | None:
        """Take note that nothing was committed before `lsn` that has not come; None if that is no news."""
        if self._transaction is not None or lsn <= self._end.lsn:
            return None
        self._end = replace(self._end, lsn=lsn)
        return LogAdvanced(self._end)

    def _items(self, message: PgoutputMessage) -> Iterator[PostgresItem]:
        match message:
            case Began(lsn, timestamp_us, xid):
                timeline = self._start.server_timeline, self._start.timeline_from
                self._transaction = Transaction(lsn, xid, (timestamp_us + EPOCH_US) // 1000, *timeline)
                self._rows = 0
            case Committed(_, end_lsn, _):
                ended = self._inside()
                self._transaction = None
                self._end = replace(self._end, lsn=end_lsn)
                yield TransactionEnded(self._end, ended.timestamp_ms)
            case Relation():
                self._describe(message)
            case Inserted(oid, new):
                yield from self._row(oid, Op.CREATE, None, new)
            case Updated(oid, old, is_whole, new):
                yield from self._row(oid, Op.UPDATE, old, new, is_old_whole=is_whole)
            case Deleted(oid, old, is_whole):
                yield from self._row(oid, Op.DELETE, old, None, is_old_whole=is_whole)
            case Truncated(oids):
                yield from self._emptied(oids)
            case OtherMessage() | TypeNamed():
                pass
            case _:
                assert_never(message)

    def _row(
        self, oid: int, op: Op, old: Cells | None, new: Cells | None, *, is_old_whole: bool = False
    ) -> Iterator[PostgresItem]:
        if self._is_before(self._number()):
            self._count()
            self._serial += 1
            return
        if oid in self._ddl_logs:
            yield from self._altered(self._ddl_logs[oid], op, new)
            return
        yield from self._seen(oid, self._number())
        relation = self._relation(oid)
        for cells in (old, new):
            if cells is not None and len(cells) != len(relation.columns):
                message = f"a row of {relation.schema}.{relation.name} has {len(cells)} columns"
                raise MalformedError(message)
        size = size_of(old) + size_of(new)
        number = self._count()
        self._serial += 1
        yield RowLogged(relation, op, old, is_old_whole, new, self._inside(), number, self._serial, size)

    def _describe(self, relation: Relation) -> None:
        for known in (self._relations, self._described, self._ddl_logs):
            known.pop(relation.oid, None)
        is_ddl_log = TableId(relation.schema, relation.name) == DDL_LOG
        (self._ddl_logs if is_ddl_log else self._described)[relation.oid] = relation

    def _altered(self, ddl_log: Relation, op: Op, new: Cells | None) -> Iterator[TableAltered]:
        number = self._count()
        self._serial += 1
        written = {column.name: cell for column, cell in zip(ddl_log.columns, new or (), strict=False)}.get(_WRITTEN)
        if op is Op.CREATE and isinstance(written, bytes):
            yield TableAltered(written, self._inside(), number)

    def _emptied(self, oids: Sequence[int]) -> Iterator[PostgresItem]:
        # As many rows as tables: each of them may have been described, and a description has a place, too.
        number = self._number() + STEPS_PER_ROW * (len(oids) - 1)
        if not self._is_before(number):
            for oid in oids:
                yield from self._seen(oid, number)
            emptied = tuple(self._relation(oid) for oid in oids if oid not in self._ddl_logs)
            yield TablesTruncated(emptied, self._inside(), number)
        self._count(len(oids))

    def _seen(self, oid: int, ahead_of: int) -> Iterator[PostgresItem]:
        """Say what a table looks like from here on, ahead of its first row or its TRUNCATE, which has that number."""
        relation = self._described.pop(oid, None)
        if relation is not None:
            self._relations[oid] = relation
            yield RelationSeen(relation, self._inside(), self._number(), ahead_of)

    def _is_before(self, number: int) -> bool:
        """Whether what has that number is what the first transaction had before the start.

        It is counted and nothing more. What tables looked like for it is no news, and may be old: a description
        is handed out ahead of what is.
        """
        return self._inside().lsn == self._start.lsn and number < self._start.rows_from

    def _number(self) -> int:
        """The number of the row that comes next."""
        return self._rows * STEPS_PER_ROW + STEPS_PER_ROW - 1

    def _count(self, rows: int = 1) -> int:
        """The number of the first of so many rows more than there were."""
        number = self._number()
        self._rows += rows
        if self._rows > _ROWS_MAX:
            message = f"the transaction that ends at {self._inside().place} changes more than {_ROWS_MAX:,} rows"
            raise CorruptLogError(message, "write fewer rows in one transaction; leave the table out, and start anew")
        return number

    def _inside(self) -> Transaction:
        if self._transaction is None:
            message = "a change outside of a transaction"
            raise MalformedError(message)
        return self._transaction

    def _relation(self, oid: int) -> Relation:
        if oid not in self._relations:
            message = f"a row of a table that was not described, with OID {oid}"
            raise MalformedError(message)
        return self._relations[oid]
