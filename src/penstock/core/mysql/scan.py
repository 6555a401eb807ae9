"""From the bytes of binlog events to log items: positions, transactions, statements and rows.

Sources: MariaDB Knowledge Base, "2-Binlog Event Header" and the page of each
event; MySQL internals, "Binary log events". Version 4 of the format.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.core.errors import CorruptLogError, LogError
from penstock.core.mysql.bytes_reader import MalformedError
from penstock.core.mysql.described_tables import DescribedTables
from penstock.core.mysql.event_codes import FLAG_IGNORABLE
from penstock.core.mysql.event_codes import EventCode as Code
from penstock.core.mysql.event_frame import FrameReader, Header, parse_rotate, read_inner
from penstock.core.mysql.gtid_events import parse_mariadb_gtid, parse_mysql_gtid, parse_tagged_gtid
from penstock.core.mysql.gtid_sets import GtidSet, MariadbGtids, MysqlGtids, parse_gtids
from penstock.core.mysql.log_items import LogAdvanced, RowsLogged, StatementLogged, TransactionEnded
from penstock.core.mysql.open_transaction import OpenTransaction
from penstock.core.mysql.place import Place
from penstock.core.mysql.query_event import Control, Query, control_of, parse_query
from penstock.core.mysql.rows_event import OPS, rows_payload
from penstock.core.mysql.transaction_payload import INNER, inner_events
from penstock.core.mysql.unreadable import COPY_AGAIN, UNREADABLE, UNREADABLE_ROWS, unknown, unreadable
from penstock.core.positions import BinlogPosition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.core.mysql.log_items import LogItem
    from penstock.core.tables import TableId

_HELD_BYTES_MAX: Final = 8 << 20

_SKIPPED: Final = (
    Code.FORMAT_DESCRIPTION,
    Code.STOP,
    Code.INTVAR,
    Code.RAND,
    Code.USER_VAR,
    Code.IGNORABLE,
    Code.ROWS_QUERY,
    Code.TRANSACTION_CONTEXT,
    Code.VIEW_CHANGE,
    Code.MARIADB_ANNOTATE_ROWS,
    Code.MARIADB_BINLOG_CHECKPOINT,
    Code.MARIADB_START_ENCRYPTION,
)


class EventScanner:
    """Turns events, in log order, into log items. Pure: bytes come in, items go out.

    Rows and statements of a transaction appear when its end does, so that what
    was rolled back never appears; of a transaction over `held_bytes_max` they
    appear in pieces, and a rollback of such a one is a LogError. A transaction in
    which nothing was wanted is only a TransactionEnded.
    """

    def __init__(
        self,
        position: BinlogPosition,
        wanted: Callable[[TableId], bool],
        *,
        one_file: bool = False,
        held_bytes_max: int = _HELD_BYTES_MAX,
    ) -> None:
        """Start at `position`, with its `rows_from` and its GTID set.

        `wanted` is asked at every TABLE_MAP event, so it must be quick; its answer
        may change. With `one_file`, everything behind the first change of file is
        ignored. The first events may be from before `position.offset`, as they
        are when the server was asked for the whole file: they are passed over.
        """
        self.file_ended = False
        self._one_file = one_file
        self._held_bytes_max = held_bytes_max
        self._gtids: GtidSet | None = parse_gtids(position.gtids)
        self._gtids_text = position.gtids
        self._advanced_to: BinlogPosition | None = None
        self._error: LogError | None = None
        self._place = Place(position)
        self._frames = FrameReader()
        self._transaction: OpenTransaction | None = None
        self._compressed: Iterator[tuple[int, memoryview]] | None = None
        self._tables = DescribedTables(wanted)
        self._handlers = self._all_handlers()

    def feed(self, buffer: bytes | bytearray | memoryview, spans: Iterable[tuple[int, int]]) -> list[LogItem]:
        """Read events as `pieces` does and return all their items; an error comes after them, with the next call."""
        items: list[LogItem] = []
        try:
            for piece in self.pieces(buffer, spans):
                items += piece
        except LogError:
            if not items:
                raise
        return items

    def pieces(
        self, buffer: bytes | bytearray | memoryview, spans: Iterable[tuple[int, int]]
    ) -> Iterator[list[LogItem]]:
        """Read the whole events, checksum included, that stand in `buffer` at `spans` ([start, end) each).

        Yields their items, in one piece, or in several where a compressed
        transaction is larger than what is held back, so that its size does not
        matter. `buffer` must stay as it is until the last piece, and is not referred
        to afterwards. Raises CorruptLogError for bytes that are no event or a
        checksum that differs, LogError for an event that this release cannot read,
        both after the items from before it, and at every later call.
        """
        items: list[LogItem] = []
        view = memoryview(buffer)
        try:
            if self._error is None:
                for start, end in spans:
                    if self.file_ended:
                        break
                    self._scan(view[start:end], items)
                    if self._compressed is not None:
                        yield from self._scan_compressed(items)
        except MalformedError as error:
            self._error = self._corrupt(str(error))
        except LogError as error:
            self._error = error
        if items:
            yield items
        if self._error is not None:
            raise self._error

    def advanced(self) -> list[LogItem]:
        """A LogAdvanced to where we are, if that is a boundary which no item has named yet."""
        end = BinlogPosition(self._place.file, self._place.offset, 0, self._gtids_text)
        if self._transaction is not None or end == self._advanced_to:
            return []
        return [LogAdvanced(self._boundary())]

    def _scan(self, event: memoryview, items: list[LogItem]) -> None:
        place = self._place
        place.start = place.offset
        header, body = self._frames.read(event)
        if header.artificial:
            self._artificial(body, header, items)
        elif place.advance(header):
            handler = self._handlers.get(header.code)
            if handler is not None:
                handler(body, header, items)
            elif not header.flags & FLAG_IGNORABLE:
                raise unknown(header, place)

    def _scan_compressed(self, items: list[LogItem]) -> Iterator[list[LogItem]]:
        """Scan the events of a compressed transaction; yield and empty `items` when something was let go of."""
        events, self._compressed = self._compressed or iter(()), None
        ended = False
        for inside, event in events:
            self._place.inside = inside
            header, body = read_inner(event)
            if ended or (header.code not in INNER and not header.flags & FLAG_IGNORABLE):
                message = f"an event of type {header.code} where a compressed transaction has none"
                raise MalformedError(message)
            if header.code in INNER:
                self._handlers[header.code](body, header, items)
            ended = self._transaction is None
            if items:
                yield items[:]
                items.clear()
        if not ended:
            message = "a compressed transaction without its end"
            raise MalformedError(message)

    def _payload(self, body: memoryview, _: Header, __: list[LogItem]) -> None:
        self._compressed = inner_events(body)

    def _all_handlers(self) -> dict[int, Callable[[memoryview, Header, list[LogItem]], None]]:
        return {
            **dict.fromkeys(OPS, self._rows),
            **dict.fromkeys(UNREADABLE_ROWS, self._unreadable_rows),
            **dict.fromkeys(UNREADABLE, self._unreadable),
            **dict.fromkeys(_SKIPPED, _skip),
            Code.TABLE_MAP: self._table_map,
            Code.ROTATE: self._rotate,
            Code.QUERY: self._query,
            Code.MARIADB_QUERY_COMPRESSED: self._query,
            Code.TRANSACTION_PAYLOAD: self._payload,
            Code.XID: self._commit,
            Code.XA_PREPARE: self._commit,
            Code.GTID: self._mysql_gtid,
            Code.ANONYMOUS_GTID: self._mysql_gtid,
            Code.GTID_TAGGED: self._mysql_gtid,
            Code.PREVIOUS_GTIDS: self._previous_gtids,
            Code.MARIADB_GTID: self._mariadb_gtid,
            Code.MARIADB_GTID_LIST: self._gtid_list,
        }

    # Files, and places in them.

    def _artificial(self, body: memoryview, header: Header, items: list[LogItem]) -> None:
        """Read an event that the server made up: a heartbeat, or what it sends first."""
        place = self._place
        if header.code == Code.ROTATE:
            file, offset = parse_rotate(body)
            if place.entered and file != place.file:
                self._change_file(file, offset, items)
            elif not place.entered and not place.enter(file, offset):
                message = f"the server sends {file}:{offset} where {place} was asked for"
                raise LogError(message, COPY_AGAIN)
        elif header.code in {Code.HEARTBEAT, Code.HEARTBEAT_V2} and self._transaction is None:
            items.append(LogAdvanced(self._boundary()))

    def _rotate(self, body: memoryview, _: Header, items: list[LogItem]) -> None:
        file, offset = parse_rotate(body)
        self._change_file(file, offset, items)

    def _change_file(self, file: str, offset: int, items: list[LogItem]) -> None:
        """Go to another file. A transaction without an end was cut off by a crash of the server: it never committed."""
        if self._transaction is not None and not self._transaction.roll_back():
            raise self._taken_back(how="was cut off by the end of the file")
        self._transaction = None
        self._tables.forget_numbers()
        self._place.change_file(file, offset)
        self.file_ended = self._one_file
        items.append(LogAdvanced(self._boundary()))

    def _boundary(self) -> BinlogPosition:
        """Where we are, written down as said."""
        self._advanced_to = BinlogPosition(self._place.file, self._place.offset, 0, self._gtids_text)
        return self._advanced_to

    # GTIDs, and the transactions they begin.

    def _gtid_list(self, body: memoryview, _: Header, __: list[LogItem]) -> None:
        self._executed(MariadbGtids.decode_list(body))

    def _previous_gtids(self, body: memoryview, _: Header, __: list[LogItem]) -> None:
        self._executed(MysqlGtids.decode_previous(body))

    def _executed(self, gtids: GtidSet) -> None:
        self._gtids = gtids
        self._gtids_text = str(gtids)

    def _mariadb_gtid(self, body: memoryview, header: Header, _: list[LogItem]) -> None:
        found = parse_mariadb_gtid(body, header.server_id)
        transaction = self._begin(found.gtid, header.timestamp * 1000, explicit=not found.standalone)
        transaction.prepared_xa = found.prepared_xa
        transaction.alter_undecided = found.alter_undecided

    def _mysql_gtid(self, body: memoryview, header: Header, _: list[LogItem]) -> None:
        gtid, commit_ms = parse_tagged_gtid(body) if header.code == Code.GTID_TAGGED else parse_mysql_gtid(body)
        if header.code == Code.ANONYMOUS_GTID:
            gtid = ""
        self._begin(gtid, header.timestamp * 1000 if commit_ms is None else commit_ms, explicit=False)

    def _begin(self, gtid: str, timestamp_ms: int, *, explicit: bool) -> OpenTransaction:
        place = self._place
        if self._transaction is not None:
            message = f"a transaction begins inside of the one from {self._transaction.begin}"
            raise MalformedError(message)
        # With rows_from something of this transaction was published before, and cannot be taken back.
        shown = int(place.rows_from > 0)
        self._transaction = OpenTransaction(place.file, place.start, gtid, timestamp_ms, explicit, shown)
        return self._transaction

    def _end(self) -> BinlogPosition:
        """Close the transaction, or the lone statement, and return the boundary behind it."""
        transaction, self._transaction = self._transaction, None
        self._place.rows_from = 0
        if transaction is not None and transaction.gtid and self._gtids is not None:
            self._gtids.add(transaction.gtid)
            self._gtids_text = str(self._gtids)
        return self._boundary()

    def _commit(self, _: memoryview, __: Header, items: list[LogItem]) -> None:
        transaction = self._opened()
        items.extend(transaction.release())
        items.append(TransactionEnded(self._end(), transaction.timestamp_ms))

    def _roll_back(self, items: list[LogItem]) -> None:
        transaction = self._opened()
        if not transaction.roll_back():
            raise self._taken_back(how="was rolled back")
        items.append(TransactionEnded(self._end(), transaction.timestamp_ms))

    def _opened(self) -> OpenTransaction:
        """Return the open transaction; without one we were started in its middle, or the log lacks something."""
        transaction = self._transaction
        if transaction is None or not transaction.explicit:
            message = "a part of a transaction without its beginning"
            raise MalformedError(message)
        return transaction

    # What transactions consist of.

    def _query(self, body: memoryview, header: Header, items: list[LogItem]) -> None:
        query = parse_query(body, compressed=header.code == Code.MARIADB_QUERY_COMPRESSED)
        control = control_of(query.sql)
        match control:
            case Control.BEGIN | Control.XA_START:
                transaction = self._transaction or self._begin("", header.timestamp * 1000, explicit=True)
                transaction.explicit = True
                transaction.prepared_xa = control is Control.XA_START
            case Control.COMMIT:
                self._commit(body, header, items)
            case Control.ROLLBACK:
                self._roll_back(items)
            case Control.XA_FINISH:
                items.append(TransactionEnded(self._end(), header.timestamp * 1000))
            case Control.SAVEPOINT:
                self._opened().set_savepoint(_savepoint_name(query.sql))
            case Control.ROLLBACK_TO:
                if not self._opened().roll_back_to(_savepoint_name(query.sql)):
                    raise self._taken_back(how="was rolled back to a savepoint")
            case Control.NONE:
                self._statement(query, header, items)
            case Control.XA_END:
                pass

    def _statement(self, query: Query, header: Header, items: list[LogItem]) -> None:
        place, transaction, timestamp_ms = self._place, self._transaction, header.timestamp * 1000
        if transaction is not None and transaction.explicit:
            begin = BinlogPosition(place.file, transaction.begin, place.rows_place, self._gtids_text)
            end = replace(begin, rows_from=place.rows_place + header.length)
            statement = StatementLogged(query.sql, query.default_schema, begin, end, timestamp_ms)
            self._hold(transaction, statement, max(header.length, len(query.sql)), items)
            return
        start = place.start if transaction is None else transaction.begin
        begin = BinlogPosition(place.file, start, 0, self._gtids_text)
        if transaction is not None and transaction.alter_undecided:
            items.append(TransactionEnded(self._end(), timestamp_ms))
        else:
            items.append(StatementLogged(query.sql, query.default_schema, begin, self._end(), timestamp_ms))

    def _table_map(self, body: memoryview, _: Header, __: list[LogItem]) -> None:
        self._tables.describe(body, is_mariadb=self._frames.is_mariadb)

    def _rows(self, body: memoryview, header: Header, items: list[LogItem]) -> None:
        table_map = self._tables.table_of(body)
        if table_map is None:
            return
        transaction = self._opened()
        if transaction.prepared_xa:
            message = f"rows of {table_map.table} in a prepared XA transaction at {self._place}"
            raise LogError(message, f"this release cannot read XA PREPARE on captured tables; {COPY_AGAIN}")
        rows = RowsLogged(
            table_map,
            OPS[header.code],
            rows_payload(header.code, body),
            self._place.file,
            self._place.start,
            transaction.timestamp_ms,
            transaction.gtid,
            header.server_id,
            self._place.inside,
        )
        self._hold(transaction, rows, max(header.length, len(rows.payload)), items)

    def _hold(self, transaction: OpenTransaction, item: LogItem, size_bytes: int, items: list[LogItem]) -> None:
        """Keep `item`, unless an earlier reader has it, and let go of what has become too much."""
        if self._place.rows_place < self._place.rows_from:
            transaction.shown += 1
            return
        transaction.hold(item, size_bytes)
        if transaction.held_bytes > self._held_bytes_max:
            items.extend(transaction.release())

    # What cannot be read.

    def _unreadable_rows(self, body: memoryview, header: Header, _: list[LogItem]) -> None:
        if self._tables.table_of(body) is not None:
            raise unreadable(header, self._place)

    def _unreadable(self, _: memoryview, header: Header, __: list[LogItem]) -> None:
        raise unreadable(header, self._place)

    def _taken_back(self, *, how: str) -> LogError:
        begin = self._transaction.begin if self._transaction else self._place.start
        message = f"the transaction at {self._place.file}:{begin} {how} at {self._place}, after a part of it was read"
        return LogError(message, f"it was too large to be held back until its end: {COPY_AGAIN}")

    def _corrupt(self, reason: str) -> CorruptLogError:
        return CorruptLogError(
            f"the binlog cannot be read at {self._place}: {reason}",
            "read again from the start of a transaction; if that does not help, check the server's disk "
            f"(mysqlbinlog --verify-binlog-checksum), and {COPY_AGAIN}",
        )


def _skip(_: memoryview, __: Header, ___: list[LogItem]) -> None:
    """Pass over an event that says nothing about tables or positions."""


def _savepoint_name(sql: str) -> str:
    """Return the name, as the server quotes it, that ends SAVEPOINT and ROLLBACK TO."""
    return sql[sql.find("`") :]
