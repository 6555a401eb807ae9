"""What transactions consist of: which items appear, when, and at which positions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.core.errors import START_ANEW, LogError
from penstock.core.mysql.events.event_codes import FLAG_OF_SESSION, EventCode
from penstock.core.mysql.events.query_event import Control, Query, control_of, parse_query
from penstock.core.mysql.events.rows_event import OPS, cascades_logged, rows_payload
from penstock.core.mysql.log.log_items import StatementLogged, TransactionBegan, TransactionEnded
from penstock.core.mysql.log.open_transaction import OpenTransaction
from penstock.core.mysql.log.unreadable import unknown_charset
from penstock.core.mysql.log.xa import PreparedTransactions, parse_xa_prepare, unknown_xa, xid_of
from penstock.core.mysql.statements.ddl import Harmless, TransactionControl, classify
from penstock.core.mysql.statements.savepoints import AmbiguousSavepointError, savepoint_of
from penstock.core.mysql.types.bytes_reader import MalformedError
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.positions import BinlogPosition

if TYPE_CHECKING:
    from penstock.core.mysql.events.described_tables import DescribedTables
    from penstock.core.mysql.events.event_frame import Header
    from penstock.core.mysql.log.executed import Executed
    from penstock.core.mysql.log.log_cursor import LogCursor
    from penstock.core.mysql.log.log_items import LogItem


class TransactionReader:
    """Reads the events of transactions and of lone statements.

    `open` is the transaction that has not ended yet, `said` the last boundary that was asked for.

    Of a transaction over `held_bytes_max` items appear in pieces. The rows of an XA
    transaction appear with its XA COMMIT and are held until then, `prepared_bytes_max`
    at most. While `gathering`, only rows of XA transactions are kept, and what
    appears is of no use.
    """

    def __init__(
        self,
        place: LogCursor,
        tables: DescribedTables,
        executed: Executed,
        *,
        held_bytes_max: int,
        prepared_bytes_max: int,
    ) -> None:
        """Read at `place`, count GTIDs in `executed`, find tables in `tables`; all three are shared."""
        self.open: OpenTransaction | None = None
        self.prepared = PreparedTransactions(prepared_bytes_max)
        self.gathering = False
        self.said: BinlogPosition | None = None
        self._place = place
        self._tables = tables
        self._executed = executed
        self._held_bytes_max = held_bytes_max

    @property
    def between(self) -> bool:
        """Whether we are at a boundary, and what comes next is not known to anybody."""
        return self.open is None and not self.gathering and not self._place.rows_from and self._place.reached

    def position(self, offset: int, rows_from: int = 0) -> BinlogPosition:
        """A position at `offset` of the file, with the GTIDs and the prepared transactions of now."""
        place, prepared = self._place, self.prepared.listed
        return BinlogPosition(
            place.file, offset, rows_from, self._executed.text, prepared, file_created=place.file_created
        )

    def boundary(self) -> BinlogPosition:
        """The position behind the event being read."""
        self.said = self.position(self._place.offset)
        return self.said

    def begin(self, gtid: str, timestamp_ms: int, *, explicit: bool) -> OpenTransaction:
        """Open a transaction, or a lone statement's group, that begins with the event being read."""
        place = self._place
        if self.open is not None:
            message = f"a transaction begins inside of the one from {self.open.begin}"
            raise MalformedError(message)
        self.open = OpenTransaction(place.file, place.start, gtid, timestamp_ms, explicit, place.rows_from)
        return self.open

    def commit(self, _: memoryview, __: Header, items: list[LogItem]) -> None:
        """Let the transaction's items appear."""
        transaction = self._explicit()
        items.extend(transaction.release())
        items.append(TransactionEnded(self._end(), transaction.timestamp_ms))

    def cut_off(self) -> None:
        """End with the file. A transaction without an end was cut off by a crash of the server: it never committed."""
        if self.open is not None and not self.open.roll_back():
            raise self._taken_back(how="was cut off by the end of the file")
        self.open = None

    def query(self, body: memoryview, header: Header, items: list[LogItem]) -> None:
        """Take a statement: one that controls transactions, or any other."""
        try:
            query = parse_query(body, header.code)
        except KeyError as error:
            raise unknown_charset(error.args[0], self._place) from error
        control = control_of(query.sql)
        match control:
            case Control.BEGIN | Control.XA_START:
                transaction = self.open or self.begin("", header.timestamp * 1000, explicit=True)
                transaction.explicit = True
                transaction.prepared_xa = control is Control.XA_START
            case Control.COMMIT:
                self.commit(body, header, items)
            case Control.ROLLBACK:
                self._roll_back(items)
            case Control.XA_COMMIT | Control.XA_ROLLBACK:
                self._finish_xa(query.sql, header, items, commit=control is Control.XA_COMMIT)
            case Control.SAVEPOINT:
                self._explicit().set_savepoint(savepoint_of(query.sql))
            case Control.ROLLBACK_TO:
                self._roll_back_to(query.sql)
            case Control.NONE:
                self._statement(query, header, items)
            case Control.XA_END:
                pass

    def rows(self, body: memoryview, header: Header, items: list[LogItem]) -> None:
        """Take the rows of a table that is wanted. Of an XA transaction all of them are counted."""
        table_map, is_xa = self._tables.table_of(body), self.open is not None and self.open.prepared_xa
        if not is_xa and (self.gathering or table_map is None):
            return
        transaction, payload = self._explicit(), rows_payload(header.code, body)
        if is_xa:
            transaction.count_xa_rows(self._place.rows_place, len(payload), wanted=table_map is not None)
        if table_map is None:
            return
        rows = RowsLogged(
            table_map,
            OPS[header.code],
            payload,
            self._place.file,
            self._place.start,
            transaction.timestamp_ms,
            transaction.gtid,
            header.server_id,
            self._place.inside,
            partial=header.code == EventCode.PARTIAL_UPDATE_ROWS,
            cascades_logged=cascades_logged(body),
        )
        self._hold(transaction, rows, max(header.length, len(payload)), items)

    def xa_prepare(self, body: memoryview, header: Header, items: list[LogItem]) -> None:
        """Keep the transaction for its XA COMMIT, unless this is that too."""
        xid, one_phase = parse_xa_prepare(body)
        transaction = self._explicit()
        if not transaction.prepared_xa:
            message = f"XA PREPARE of {xid} in a transaction that began as another"
            raise MalformedError(message)
        if one_phase:
            self.commit(body, header, items)
            return
        self.prepared.prepare(xid, transaction)
        items.append(TransactionEnded(self._end(), transaction.timestamp_ms))

    def _finish_xa(self, sql: str, header: Header, items: list[LogItem], *, commit: bool) -> None:
        """Let the rows of a prepared transaction appear, here, or never."""
        place, xid = self._place, xid_of(sql)
        transaction = self.open or self.begin("", header.timestamp * 1000, explicit=False)
        rows = self.prepared.commit(xid, transaction, place) if commit else []
        if rows is None and not self.gathering:
            raise unknown_xa(sql, place)
        if not commit:
            self.prepared.forget(xid)
        if rows:
            items.append(TransactionBegan(place.file, transaction.begin, transaction.gtid, transaction.timestamp_ms))
            items.extend(rows)
        items.append(TransactionEnded(self._end(), transaction.timestamp_ms))

    def _end(self) -> BinlogPosition:
        """Close the transaction, or the lone statement, and return the boundary behind it."""
        transaction, self.open = self.open, None
        self._place.rows_from = 0
        if transaction is not None and transaction.gtid:
            self._executed.add(transaction.gtid)
        return self.boundary()

    def _roll_back(self, items: list[LogItem]) -> None:
        transaction = self._explicit()
        begin, outliving = self.position(transaction.begin), transaction.outliving()
        if not transaction.roll_back():
            raise self._taken_back(how="was rolled back")
        end = self._end()
        # Whoever stops at one of them comes by the others again.
        items.extend(replace(each, begin=begin, end=begin, inside=0) for each in outliving[:-1])
        if outliving:
            items.append(replace(outliving[-1], begin=begin, end=end, inside=0))
        else:
            items.append(TransactionEnded(end, transaction.timestamp_ms))

    def _roll_back_to(self, sql: str) -> None:
        try:
            is_hidden = self._explicit().roll_back_to(savepoint_of(sql), self._place.rows_place)
        except KeyError as error:
            message = f"{sql[:200]!r} at {self._place}: the transaction has no such savepoint in the log"
            raise LogError(message, START_ANEW) from error
        except AmbiguousSavepointError as error:
            message = f"{sql[:200]!r} at {self._place}: the transaction has another savepoint that may have been meant"
            hint = "give savepoints of a transaction names that differ in more than case and accents"
            raise LogError(message, f"{hint}; then {START_ANEW}") from error
        if not is_hidden:
            raise self._taken_back(how="was rolled back to a savepoint")

    def _explicit(self) -> OpenTransaction:
        """Return the open transaction; without one we were started in its middle, or the log lacks something."""
        if self.open is None or not self.open.explicit:
            message = "a part of a transaction without its beginning"
            raise MalformedError(message)
        return self.open

    def _statement(self, query: Query, header: Header, items: list[LogItem]) -> None:
        place, transaction, timestamp_ms = self._place, self.open, header.timestamp * 1000
        if transaction is not None and transaction.prepared_xa:
            if isinstance(classify(query.sql, query.session.sql_mode), Harmless | TransactionControl):
                return
            message = f"{query.sql[:200]!r} at {place} is a statement in an XA transaction, to be held until XA COMMIT"
            raise LogError(message, f"set binlog_format=ROW for every session that writes; then {START_ANEW}")
        if transaction is not None and transaction.explicit:
            begin = self.position(transaction.begin, place.rows_place)
            end = replace(begin, rows_from=place.rows_place + header.length)
            inside = place.inside + header.length if place.inside else 0
            statement = _logged(query, (begin, end), header, transaction.gtid, inside)
            self._hold(transaction, statement, max(header.length, len(query.sql)), items)
            return
        begin = self.position(place.start if transaction is None else transaction.begin)
        if transaction is not None and transaction.alter_undecided:
            items.append(TransactionEnded(self._end(), timestamp_ms))
        else:
            gtid = "" if transaction is None else transaction.gtid
            items.append(_logged(query, (begin, self._end()), header, gtid))

    def _hold(self, transaction: OpenTransaction, item: LogItem, size_bytes: int, items: list[LogItem]) -> None:
        """Keep `item`, and let go of what has become too much."""
        transaction.hold(item, size_bytes)
        if transaction.prepared_xa:
            self.prepared.check_room(transaction, self._place)
        elif transaction.held_bytes > self._held_bytes_max:
            items.extend(transaction.release())

    def _taken_back(self, *, how: str) -> LogError:
        begin = self.open.begin if self.open else self._place.start
        message = f"the transaction at {self._place.file}:{begin} {how} at {self._place}, after a part of it was read"
        return LogError(message, f"it was too large to be held back until its end: {START_ANEW}")


def _logged(
    query: Query, place: tuple[BinlogPosition, BinlogPosition], header: Header, gtid: str, inside: int = 0
) -> StatementLogged:
    timestamp_ms, of_session = header.timestamp * 1000, bool(header.flags & FLAG_OF_SESSION)
    return StatementLogged(
        query.sql, query.default_schema, *place, timestamp_ms, inside, gtid, query.session, of_session
    )
