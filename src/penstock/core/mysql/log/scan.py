"""From the bytes of binlog events to log items: positions, transactions, statements and rows.

Sources: MariaDB Knowledge Base, "2-Binlog Event Header" and the page of each
event; MySQL internals, "Binary log events". Version 4 of the format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.core.errors import START_ANEW, CorruptLogError, LogError
from penstock.core.mysql.events.described_tables import DescribedTables
from penstock.core.mysql.events.event_codes import FLAG_IGNORABLE, PASSED_OVER
from penstock.core.mysql.events.event_codes import EventCode as Code
from penstock.core.mysql.events.event_frame import FrameReader, Header, parse_rotate, read_inner
from penstock.core.mysql.events.gtid_events import parse_mariadb_gtid, parse_mysql_gtid, parse_tagged_gtid
from penstock.core.mysql.events.gtid_sets import MariadbGtids, MysqlGtids
from penstock.core.mysql.events.plain_events import PlainStretch, plain_stretches
from penstock.core.mysql.events.query_event import STATEMENTS
from penstock.core.mysql.events.rows_event import OPS
from penstock.core.mysql.events.transaction_payload import INNER, inner_events
from penstock.core.mysql.log.executed import Executed
from penstock.core.mysql.log.few_transactions import FewReader
from penstock.core.mysql.log.log_cursor import LogCursor
from penstock.core.mysql.log.log_items import LogAdvanced, StatementLogged
from penstock.core.mysql.log.transaction_runs import RunReader
from penstock.core.mysql.log.transactions import TransactionReader
from penstock.core.mysql.log.unreadable import begun_anew, incident, rows_in_parts, unknown
from penstock.core.mysql.types.bytes_reader import MalformedError
from penstock.core.positions import BinlogPosition, file_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.core.mysql.events.packets import Spans
    from penstock.core.mysql.log.log_items import LogItem
    from penstock.core.tables import TableId

_HELD_BYTES_MAX: Final = 8 << 20
PREPARED_BYTES_MAX: Final = 256 << 20
"""How many bytes of rows of prepared XA transactions are held if nothing else is said."""
_FORMAT_DESCRIPTION: Final = int(Code.FORMAT_DESCRIPTION)
_RUN_EVENTS_MIN: Final = 256
"""Fewer events than this are read faster without columns (measured)."""
_RUN_BYTES_MAX: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Grouping:
    """How whole transactions of the usual events are read together.

    At least `run_events_min` events become one TransactionsLogged, fewer, with `few`, one FewTransactions.
    """

    run_events_min: int = _RUN_EVENTS_MIN
    few: bool = False


_GROUPING: Final = Grouping()


class EventScanner:
    """Turns events, in log order, into log items. Pure: bytes come in, items go out.

    Rows and statements of a transaction appear when its end does, so that what
    was rolled back never appears; of a transaction over `held_bytes_max` they
    appear in pieces, and a rollback of such a one is a LogError. Rows of an XA
    transaction appear with its XA COMMIT. A transaction in which nothing was
    wanted is only a TransactionEnded.
    """

    def __init__(
        self,
        position: BinlogPosition,
        wanted: Callable[[TableId], bool],
        *,
        one_file: bool = False,
        held_bytes_max: int = _HELD_BYTES_MAX,
        prepared_bytes_max: int = PREPARED_BYTES_MAX,
        grouping: Grouping = _GROUPING,
    ) -> None:
        """Start at `position`, with its `rows_from`, its GTID set and what is prepared at it.

        `wanted` is asked at every TABLE_MAP event, so it must be quick; its answer
        may change. With `one_file`, everything behind the next change of file is
        ignored. The first events must be those at `position.read_from`, or
        earlier ones of that file, as they are when the server was asked for the
        whole file: what is before `position` gives no items.
        """
        self.file_ended = False
        self._one_file = one_file
        self._start = position
        self._error: LogError | None = None
        gathering = position.read_from != (position.file, position.offset)
        self._place = LogCursor(BinlogPosition(*position.read_from, 0 if gathering else position.rows_from))
        self._frames = FrameReader()
        self._compressed: Iterator[tuple[int, memoryview]] | None = None
        self._tables = DescribedTables(wanted)
        self._executed = Executed(position.gtids)
        self._transactions = TransactionReader(
            self._place,
            self._tables,
            self._executed,
            held_bytes_max=held_bytes_max,
            prepared_bytes_max=prepared_bytes_max,
        )
        self._run_events_min = grouping.run_events_min
        self._runs = RunReader(self._place, self._tables, self._executed, self._transactions)
        self._few = None
        if grouping.few:
            self._few = FewReader(self._place, self._frames, self._tables, self._executed, self._transactions)
        self._handlers = self._all_handlers()
        self._transactions.gathering = gathering
        if not gathering:
            self._transactions.prepared.complete(position)

    def feed(self, buffer: bytes | bytearray | memoryview, spans: Spans) -> list[LogItem]:
        """Read events as `pieces` does and return all their items; an error comes after them, with the next call."""
        items: list[LogItem] = []
        try:
            for piece in self.pieces(buffer, spans):
                items += piece
        except LogError:
            if not items:
                raise
        return items

    def pieces(self, buffer: bytes | bytearray | memoryview, spans: Spans) -> Iterator[list[LogItem]]:
        """Read the whole events, checksum included, that stand in `buffer` at `spans` ([start, end) each).

        Yields their items, in one piece, or in several: one ends with each statement,
        or its transaction, since what is wanted behind it may depend on it, so whoever
        asks for the next piece has taken the one before; and a compressed transaction
        larger than what is held back comes in pieces, so that its size does not
        matter. `buffer` must stay as it is until the last piece, and is not referred
        to afterwards. Raises CorruptLogError for bytes that are no event or a
        checksum that differs, LogError for an event that this release cannot read,
        both after the items from before it, and at every later call.
        """
        items: list[LogItem] = []
        view = memoryview(buffer)
        try:
            if self._error is None:
                for part in _bounded(spans):
                    yield from self._scan_part(view, part, items)
        except MalformedError as error:
            self._error = self._corrupt(str(error))
        except LogError as error:
            self._error = error
        if items:
            yield items
        self.require_readable()

    def require_readable(self) -> None:
        """Raise again what has ended reading, if anything has."""
        if self._error is not None:
            raise self._error

    def advanced(self) -> list[LogItem]:
        """A LogAdvanced to where we are, if that is a boundary which no item has named yet.

        To be asked at the end of the log: raises LogError if that lies before where we were to begin.
        """
        transactions = self._transactions
        if transactions.open is not None:
            return []
        self._arrive(self._place.offset)
        self._check_arrived()
        said = transactions.said
        return [] if transactions.boundary() == said else [LogAdvanced(transactions.boundary())]

    def _scan_part(self, view: memoryview, spans: Spans, items: list[LogItem]) -> Iterator[list[LogItem]]:
        """Scan events, usual ones in runs; yield what ends a piece."""
        if len(spans) < self._run_events_min:
            yield from self._scan_each(view, spans, items)
            return
        at, places, checksums = 0, np.asarray(spans, np.int64), self._frames.checksums
        for first, stretch in plain_stretches(view, places, self._run_events_min, checksums=checksums):
            yield from self._scan_each(view, places[at:first], items)
            at = first + self._scan_run(stretch, items)
        yield from self._scan_each(view, places[at:], items)

    def _scan_run(self, stretch: PlainStretch, items: list[LogItem]) -> int:
        """Read what is usual of a stretch, if that is what is to be read now; return how many events that was."""
        checksums, is_mariadb = self._frames.checksums, self._frames.is_mariadb
        if self.file_ended or not self._transactions.between or stretch.events.checksums != checksums:
            return 0
        run, count = self._runs.read(stretch, is_mariadb=is_mariadb)
        items.extend([run] if run else [])
        return count

    def _scan_each(self, view: memoryview, spans: Spans, items: list[LogItem]) -> Iterator[list[LogItem]]:
        """Scan events one by one, or by transactions; yield what ends a piece."""
        places = spans.tolist() if isinstance(spans, np.ndarray) else spans
        at = 0
        while at < len(places) and not self.file_ended:
            if self._few is not None and self._transactions.between:
                few, count = self._few.read(view, places, at)
                if few is not None:
                    items.append(few)
                    at += count
                    continue
            start, end = places[at]
            at, known = at + 1, len(items)
            self._scan(view[start:end], items)
            if self._compressed is not None:
                yield from self._scan_compressed(items)
            if self._transactions.gathering:
                items.clear()
            elif any(isinstance(item, StatementLogged) for item in items[known:]):
                yield items[:]
                items.clear()

    def _scan(self, event: memoryview, items: list[LogItem]) -> None:
        place = self._place
        place.start = place.offset
        header, body = self._frames.read(event)
        if header.code == _FORMAT_DESCRIPTION:
            self._begin_file(header)
        if header.artificial:
            self._artificial(body, header, items)
        elif place.advance(header):
            self._arrive(place.start)
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
            ended = self._transactions.open is None
            if items and not self._transactions.gathering:
                yield items[:]
            items.clear()
        if not ended:
            message = "a compressed transaction without its end"
            raise MalformedError(message)

    def _payload(self, body: memoryview, _: Header, __: list[LogItem]) -> None:
        self._compressed = inner_events(body)

    def _all_handlers(self) -> dict[int, Callable[[memoryview, Header, list[LogItem]], None]]:
        transactions = self._transactions
        return {
            **dict.fromkeys(OPS, transactions.rows),
            **dict.fromkeys(STATEMENTS, transactions.query),
            **dict.fromkeys(PASSED_OVER, _skip),
            Code.INCIDENT: self._incident,
            Code.MARIADB_PARTIAL_ROW_DATA: self._rows_in_parts,
            Code.TABLE_MAP: self._table_map,
            Code.ROTATE: self._rotate,
            Code.TRANSACTION_PAYLOAD: self._payload,
            Code.XID: transactions.commit,
            Code.XA_PREPARE: transactions.xa_prepare,
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
                raise LogError(message, START_ANEW)
        elif header.code in {Code.HEARTBEAT, Code.HEARTBEAT_V2} and self._transactions.open is None:
            self._arrive(place.offset)
            self._check_arrived()
            items.append(LogAdvanced(self._transactions.boundary()))

    def _begin_file(self, header: Header) -> None:
        """Take the time of the event that every file begins with, and that is sent first wherever we begin in it.

        Raises LogError if we have been in a file of this name that was begun at another time.
        """
        place, start = self._place, self._start
        place.file_created = header.timestamp
        if start.file_created and place.file == start.file and header.timestamp != start.file_created:
            raise begun_anew(start, header.timestamp)

    def _rotate(self, body: memoryview, _: Header, items: list[LogItem]) -> None:
        file, offset = parse_rotate(body)
        self._change_file(file, offset, items)

    def _change_file(self, file: str, offset: int, items: list[LogItem]) -> None:
        self._transactions.cut_off()
        self._tables.forget_numbers()
        self._place.change_file(file, offset)
        if self._transactions.gathering:
            self._arrive(offset)
            # Behind the last event of a file that a crash ended, only the next file tells that we were there.
            if file_number(file) <= file_number(self._start.file):
                return
        self.file_ended = self._one_file
        items.append(LogAdvanced(self._transactions.boundary()))

    def _arrive(self, offset: int) -> None:
        """Stop gathering once `offset` is where we were to begin: from here on items count."""
        start, transactions = self._start, self._transactions
        if not transactions.gathering or (file_number(self._place.file), offset) < start.order[:2]:
            return
        if transactions.open is not None:
            message = f"{start} is in the middle of a transaction"
            raise MalformedError(message)
        transactions.gathering = False
        transactions.said = None
        transactions.prepared.complete(start)
        self._place.rows_from = start.rows_from

    def _check_arrived(self) -> None:
        """Raise LogError at the end of a log that does not have the position where we were to begin."""
        if self._transactions.gathering:
            message = f"the log ends at {self._place.file}:{self._place.offset}, before {self._start}"
            raise LogError(message, f"the log is not the one that was read before: {START_ANEW}")

    # GTIDs, and the transactions they begin.

    def _gtid_list(self, body: memoryview, _: Header, __: list[LogItem]) -> None:
        self._executed.replace(MariadbGtids.decode_list(body))

    def _previous_gtids(self, body: memoryview, _: Header, __: list[LogItem]) -> None:
        self._executed.include(MysqlGtids.decode_previous(body))

    def _mariadb_gtid(self, body: memoryview, header: Header, _: list[LogItem]) -> None:
        found = parse_mariadb_gtid(body, header.server_id)
        transaction = self._transactions.begin(found.gtid, header.timestamp * 1000, explicit=not found.standalone)
        transaction.prepared_xa = found.prepared_xa
        transaction.alter_undecided = found.alter_undecided

    def _mysql_gtid(self, body: memoryview, header: Header, _: list[LogItem]) -> None:
        is_anonymous = header.code == Code.ANONYMOUS_GTID
        is_tagged = header.code == Code.GTID_TAGGED
        gtid, commit_ms = parse_tagged_gtid(body) if is_tagged else parse_mysql_gtid(body, anonymous=is_anonymous)
        timestamp_ms = header.timestamp * 1000 if commit_ms is None else commit_ms
        self._transactions.begin(gtid, timestamp_ms, explicit=False)

    # Tables, and what cannot be read.

    def _table_map(self, body: memoryview, _: Header, __: list[LogItem]) -> None:
        self._tables.describe(body, is_mariadb=self._frames.is_mariadb)

    def _incident(self, body: memoryview, _: Header, __: list[LogItem]) -> None:
        if not self._transactions.gathering:
            raise incident(body, self._place)

    def _rows_in_parts(self, _: memoryview, __: Header, ___: list[LogItem]) -> None:
        raise rows_in_parts(self._place)

    def _corrupt(self, reason: str) -> CorruptLogError:
        return CorruptLogError(
            f"the binlog cannot be read at {self._place}: {reason}",
            "read again from the start of a transaction; if that does not help, check the server's disk "
            f"(mysqlbinlog --verify-binlog-checksum), and {START_ANEW}",
        )


def _bounded(spans: Spans) -> Sequence[Spans]:
    """Split events into parts of a bounded size, which is that of the runs that are found in them."""
    if not len(spans) or spans[-1][1] - spans[0][0] <= _RUN_BYTES_MAX:
        return [spans]
    places = np.asarray(spans, np.int64)
    parts = (places[:, 1] - places[0, 0]) // _RUN_BYTES_MAX
    return np.split(places, np.flatnonzero(np.diff(parts)) + 1)


def _skip(_: memoryview, __: Header, ___: list[LogItem]) -> None:
    """Pass over an event that says nothing about tables or positions."""
