"""What the items of PostgreSQL's log say, in the words that every capture understands."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, assert_never, cast

from penstock.core.errors import READ_AGAIN, TableStoppedError
from penstock.core.log_items import LogPassed, RowsRead, StatementRead, TransactionsRead
from penstock.core.positions import wal_position
from penstock.core.postgres.catalog import written_table
from penstock.core.postgres.evolution import UNLOGGED, keeps_key
from penstock.core.postgres.log_items import (
    STEPS_PER_ROW,
    LogAdvanced,
    RelationSeen,
    RowLogged,
    RowsLogged,
    ShortTransactions,
    TableAltered,
    TablesTruncated,
    TransactionEnded,
    items_until,
)
from penstock.core.postgres.rows import RowDecoder
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.core.avro.envelope_encode import EncodableTable
    from penstock.core.changes import Messages, RowBatch
    from penstock.core.log_items import LoggedRows, LoggedStatement, LogStep
    from penstock.core.positions import Order, Position, WalPosition
    from penstock.core.postgres.catalog import SourceTable
    from penstock.core.postgres.log_items import PostgresItem, Transaction
    from penstock.core.postgres.messages import Relation
    from penstock.core.refusals import Refusal
    from penstock.core.tables import TableSchema
    from penstock.links.capture.postgres.registered_catalog import RegisteredCatalog


@dataclass(frozen=True, slots=True)
class TablesChanged:
    """In place of a statement: the transaction `xid` emptied tables, or one has the shape `after` for what follows.

    `refused` says why changed rows of it are not known, however it was before. `as_new` is in place of `after` if it is
    a new table that only has the number of one that had another name. See core/log_items.LoggedStatement.
    """

    relations: tuple[Relation, ...]
    after: TableSchema | None
    begin: WalPosition
    end: WalPosition
    order: Order
    timestamp_ms: int
    xid: int
    refused: Refusal | None = None
    as_new: TableSchema | None = None

    def ending_at(self, end: Position) -> Self:
        """See LoggedStatement."""
        return replace(self, end=wal_position(end))


def tables_changed(statement: LoggedStatement) -> TablesChanged:
    """Return a statement that the reading of PostgreSQL's log handed out."""
    return cast("TablesChanged", statement)


class PostgresReading:
    """Reads items of a stream that begins at a position: see ports/log.LogReading."""

    def __init__(
        self,
        begin: WalPosition,
        catalog: RegisteredCatalog,
        wanted: Callable[[TableId], bool],
        *,
        reads_ddl_log: bool = False,
    ) -> None:
        """Begin at `begin`; a table that `catalog` knows in the shape that the log has is no news.

        `reads_ddl_log`: what event triggers wrote of altered tables is told where they were altered.
        """
        self._reached = begin
        self._catalog = catalog
        self._wanted = wanted
        self._reads_ddl_log = reads_ddl_log
        self._last: RowLogged | RowsLogged | None = None
        self._decoders: dict[tuple[int, int], tuple[TableSchema, Relation, RowDecoder]] = {}

    def steps(self, items: Sequence[object]) -> Iterator[LogStep]:
        """See LogReading."""
        for item in cast("Sequence[PostgresItem]", items):
            match item:
                case RowLogged() | RowsLogged():
                    if self._last is None or self._last.transaction is not item.transaction:
                        self._catalog.saw_commits([item.transaction.xid])
                    self._last = item
                    yield RowsRead(item)
                case TransactionEnded(end):
                    self._last = None
                    self._reached = self._stamped(end)
                    yield TransactionsRead(self._reached)
                case ShortTransactions(transactions, _, rows, end):
                    self._catalog.saw_commits(transaction.xid for transaction in transactions)
                    self._last = None
                    self._reached = self._stamped(end)
                    yield TransactionsRead(self._reached, rows)
                case LogAdvanced(end):
                    self._reached = self._stamped(end)
                    yield LogPassed(self._reached)
                case RelationSeen():
                    yield from self._described(item)
                case TableAltered():
                    yield from self._altered(item)
                case TablesTruncated():
                    yield from self._truncated(item)
                case _:
                    assert_never(item)

    def until(self, items: Sequence[object], stop: Position | None) -> Sequence[object]:
        """See LogReading."""
        return items_until(cast("Sequence[PostgresItem]", items), stop)

    def behind_rows(self, boundary: Position) -> WalPosition | None:
        """See LogReading."""
        del boundary
        return None if self._last is None else self._inside(self._last.transaction, self._last.last_number + 1)

    def decode(self, schema: TableSchema, rows: Sequence[LoggedRows]) -> Iterator[RowBatch]:
        """See LogReading."""
        groups: dict[int, list[RowLogged | RowsLogged]] = defaultdict(list)
        for row in cast("Sequence[RowLogged | RowsLogged]", rows):
            groups[id(row.relation)].append(row)
        for group in groups.values():
            yield from self._decoder(schema, group[0]).decode(group)

    def encode_few(
        self, table: EncodableTable, topic: str, rows: Sequence[LoggedRows], processed_at_ms: int
    ) -> Messages | None:
        """See LogReading: there is no shorter way."""
        del table, topic, rows, processed_at_ms
        return None

    def _decoder(self, schema: TableSchema, row: RowLogged | RowsLogged) -> RowDecoder:
        """Plan once per pair of objects: to compare wide tables for each publication would cost too much."""
        key = (id(schema), id(row.relation))
        known = self._decoders.get(key)
        if known is None or known[0] is not schema or known[1] is not row.relation:
            names = [column.name for column in row.relation.columns]
            if names != [column.name for column in schema.columns]:
                reason = f"its rows have the columns {', '.join(names)}, which were not announced"
                raise TableStoppedError(str(schema.table), "", str(row.transaction.place), reason, READ_AGAIN)
            if len(self._decoders) >= _DECODERS_MAX:
                self._decoders.clear()
            decoder = RowDecoder.of(schema, row.relation, self._catalog.types(row.relation))
            known = self._decoders[key] = (schema, row.relation, decoder)
        return known[2]

    def _described(self, item: RelationSeen) -> Iterator[LogStep]:
        """A table whose shape was announced is no news."""
        table = TableId(item.relation.schema, item.relation.name)
        if not self._wanted(table):
            self._reached = self._reached.passing_by(item.relation.oid)
            if not self._catalog.is_announced(item.relation.oid):
                return
        announced, after = self._catalog.table_schema(table), self._catalog.shape(item.relation, item.transaction.xid)
        refused = self._catalog.refused(item.relation, after) if self._wanted(table) else None
        if after == announced and refused is None:
            return
        if announced is not None and announced.number != after.number:
            # If the table that was called so has another name now, its older rows went with the name.
            self._reached = self._reached.passing_by(announced.number)
        begin = self._inside(item.transaction, item.number - STEPS_PER_ROW + 1)
        if begin.order < self._reached.order:
            timeline = begin.server_timeline, begin.timeline_from
            begin = replace(self._reached, server_timeline=timeline[0], timeline_from=timeline[1])
        # Never behind what it stands ahead of: a stopped table is described anew by each start within its transaction.
        rows_from = max(begin.rows_from, min(begin.rows_from + 1, item.ahead_of))
        step = self._statement((item.relation,), after, begin, replace(begin, rows_from=rows_from), item.transaction)
        before = self._catalog.known(item.relation)
        has_new_name = before is not None and before.table != after.table
        as_new = self._catalog.shape_of_new(item.relation, item.transaction.xid) if has_new_name else None
        yield replace(step, statement=replace(tables_changed(step.statement), refused=refused, as_new=as_new))

    def _altered(self, item: TableAltered) -> Iterator[LogStep]:
        """Tell a table that is carried as it was written down; what is not told here, its next row brings to light."""
        written = written_table(item.written) if self._reads_ddl_log else None
        if written is not None and written.is_switched:
            yield from self._switched(item, written)
            return
        if written is None or not self._wanted(written.table.id):
            return
        before, after = self._catalog.known(written.relation), self._catalog.written_shape(written)
        named_so = self._catalog.table_schema(written.table.id)
        if before is None or before == after or (named_so is not None and named_so.number != after.number):
            return
        if not keeps_key(before, after):
            # It may have its key again before there is a row.
            return
        yield self._at(item, (written.relation,), after)

    def _switched(self, item: TableAltered, written: SourceTable) -> Iterator[LogStep]:
        """Tell that rows of a table are not in the log; one that nobody knows yet has older ones when it comes."""
        before = self._catalog.known(written.relation)
        if before is None:
            self._reached = self._reached.passing_by(written.table.oid)
            return
        if not self._wanted(before.table):
            return
        step = self._at(item, (written.relation,), before)
        yield replace(step, statement=replace(tables_changed(step.statement), refused=UNLOGGED))

    def _truncated(self, item: TablesTruncated) -> Iterator[LogStep]:
        """Tables that are not carried are left to themselves."""
        relations = tuple(r for r in item.relations if self._wanted(TableId(r.schema, r.name)))
        if relations:
            yield self._at(item, relations, None)

    def _at(
        self, item: TableAltered | TablesTruncated, relations: tuple[Relation, ...], after: TableSchema | None
    ) -> StatementRead:
        """A statement in place of what has the number of a row."""
        begin = self._inside(item.transaction, item.number)
        return self._statement(relations, after, begin, replace(begin, rows_from=item.number + 1), item.transaction)

    def _statement(
        self,
        relations: tuple[Relation, ...],
        after: TableSchema | None,
        begin: WalPosition,
        end: WalPosition,
        transaction: Transaction,
    ) -> StatementRead:
        self._reached = end
        stamp = transaction.timestamp_ms, transaction.xid
        return StatementRead(begin, TablesChanged(relations, after, begin, end, begin.order, *stamp))

    def _inside(self, transaction: Transaction, number: int) -> WalPosition:
        # A place in a timeline that ended before it could never be gone on from.
        known = transaction if transaction.server_timeline else self._reached
        return replace(
            self._reached,
            lsn=transaction.lsn,
            rows_from=number,
            server_timeline=known.server_timeline,
            timeline_from=known.timeline_from,
        )

    def _stamped(self, position: WalPosition) -> WalPosition:
        """What nobody can tell who only reads the log."""
        reached = self._reached
        return replace(
            position,
            timeline=reached.timeline,
            tables_from=reached.tables_from,
            passed_by=reached.passed_by,
            publication=reached.publication,
        )


_DECODERS_MAX = 1000
