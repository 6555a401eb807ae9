"""A few whole transactions of the usual events, read in one loop.

The live tail reads a few small transactions many times a second, and what that
costs is mostly how much code it comes by. The usual events are those of
`plain_events`. What they mean is written down in `scan` and `transactions`, which
read whatever is unusual here and are the reference.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias
from zlib import crc32

from penstock.core.mysql.events.event_codes import CHECKSUM_BYTES, HEADER_BYTES
from penstock.core.mysql.events.event_frame import CHECKSUM, HEADER
from penstock.core.mysql.events.gtid_events import MARIADB_FIELDS, MARIADB_UNUSUAL, parse_mysql_gtid
from penstock.core.mysql.events.plain_events import KINDS, MAY_FOLLOW, THREAD_AND_TIME_BYTES, ItemKind, is_begin
from penstock.core.mysql.events.rows_event import (
    FLAG_CASCADES_LOGGED,
    FLAGS_AT,
    HAVE_EXTRA_DATA,
    OPS,
    POST_HEADER_BYTES,
)
from penstock.core.mysql.log.log_cursor import OFFSET_MASK
from penstock.core.mysql.log.log_items import FewTransactions
from penstock.core.mysql.types.bytes_reader import MalformedError
from penstock.core.mysql.types.logged_rows import RowsLogged

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.core.mysql.events.described_tables import DescribedTables
    from penstock.core.mysql.events.event_frame import FrameReader
    from penstock.core.mysql.log.executed import Executed
    from penstock.core.mysql.log.log_cursor import LogCursor
    from penstock.core.mysql.log.transactions import TransactionReader

_BYTES_MAX: Final = 64 << 10
"""A transaction with more is left out: it would be read here and again one by one, as it rarely comes as a whole."""
_EVENT_BYTES_MIN: Final = HEADER_BYTES + CHECKSUM_BYTES
_EXTRA_DATA_BYTES: Final = struct.Struct("<H")

_Followers: TypeAlias = dict[int, tuple[ItemKind, int]]
"""The kind, and the least size of the body, by code."""


def _events_of(kinds: Collection[ItemKind]) -> _Followers:
    return {int(code): (kind, size) for code, (kind, size) in KINDS.items() if kind in kinds}


_OTHER, _BEGIN, _COMMENT = ItemKind.OTHER, ItemKind.BEGIN, ItemKind.COMMENT
_TABLE_MAP, _ROWS, _COMMIT = ItemKind.TABLE_MAP, ItemKind.ROWS, ItemKind.COMMIT
_NOTHING: Final = (_OTHER, 0)
_FIRST: Final = _events_of(MAY_FOLLOW[ItemKind.COMMIT])
_FOLLOWERS: Final = {kind: _events_of(MAY_FOLLOW[kind]) for kind in MAY_FOLLOW}


@dataclass(slots=True)
class _Found:
    """What was read so far, up to `offset` of the file; the last event begins at `start`."""

    start: int
    offset: int
    places: list[tuple[int, int, str, int]] = field(default_factory=list)
    stretches: list[tuple[str, int, int]] = field(default_factory=list)
    rows: list[RowsLogged] = field(default_factory=list)

    def end_transaction(self, start: int, end: int, begun: _Begun, rows: Sequence[RowsLogged]) -> None:
        """Add a transaction whose commit stands from `start` to `end`."""
        self.places.append((begun.offset, end, begun.gtid, begun.timestamp_ms))
        self.start, self.offset = start, end
        self.rows += rows
        if begun.gtid:
            origin, low, high = self.stretches[-1] if self.stretches else ("", 0, 0)
            if origin == begun.origin and high + 1 == begun.number:
                self.stretches[-1] = (origin, low, begun.number)
            else:
                self.stretches.append((begun.origin, begun.number, begun.number))


class _Begun(NamedTuple):
    """Where a transaction begins, its GTID, which is `origin` and `number` ("" and 0 for none), and its commit time."""

    offset: int
    origin: str
    number: int
    gtid: str
    timestamp_ms: int


_NOT_BEGUN: Final = _Begun(0, "", 0, "", 0)


class FewReader:
    """Reads transactions, and leaves its parts as if their events had been read one by one."""

    def __init__(
        self,
        place: LogCursor,
        frames: FrameReader,
        tables: DescribedTables,
        executed: Executed,
        transactions: TransactionReader,
    ) -> None:
        """Share its parts with the reader of single events."""
        self._place = place
        self._frames = frames
        self._tables = tables
        self._executed = executed
        self._transactions = transactions

    def read(
        self, view: memoryview, spans: Sequence[tuple[int, int]], first: int
    ) -> tuple[FewTransactions | None, int]:
        """Read the whole transactions from event `first` on, up to one in which something is unusual.

        Where we are must be a boundary. Returns them, and how many events that was;
        None and 0 if it is already the first.
        """
        found, at = _Found(self._place.start, self._place.offset), first
        while at < len(spans):
            count = self._read_one(view, spans, at, found)
            if not count:
                break
            at += count
        if at == first:
            return None, 0
        begin = self._transactions.boundary()
        self._executed.add_all(found.stretches)
        self._place.move(found.start, found.offset)
        end = self._transactions.boundary()
        return FewTransactions(begin, end, tuple(found.places), tuple(found.stretches), tuple(found.rows)), at - first

    def _read_one(  # noqa: C901, PLR0911 - calls for each event would cost more than what they do
        self, view: memoryview, spans: Sequence[tuple[int, int]], first: int, found: _Found
    ) -> int:
        """Read a transaction; return how many events it has, 0 if it is left to the reader of single events."""
        offset, followers, begun, file = found.offset, _FIRST, _NOT_BEGUN, self._place.file
        checksum_bytes = CHECKSUM_BYTES if self._frames.checksums else 0
        rows: list[RowsLogged] = []
        for index in range(first, len(spans)):
            at, end = spans[index]
            if end - at < _EVENT_BYTES_MIN:
                return 0
            timestamp, code, server_id, length, log_end, _ = HEADER.unpack_from(view, at)
            kind, bytes_min = followers.get(code, _NOTHING)
            body, body_end = at + HEADER_BYTES, end - checksum_bytes
            offset += length
            # As Place.advance does it; a log that goes back has left out more than is read here.
            offset += (log_end - offset) & OFFSET_MASK if log_end else 0
            if (
                kind is _OTHER
                or length != end - at
                or body_end - body < bytes_min
                or offset - found.offset > _BYTES_MAX
                or (checksum_bytes and crc32(view[at:body_end]) != CHECKSUM.unpack_from(view, body_end)[0])
            ):
                return 0
            followers = _FOLLOWERS[kind]
            try:
                if kind is _ROWS:
                    table_map = self._tables.table_of(view[body:body_end])
                    if table_map is not None:
                        payload = _payload(view, code, body, body_end)
                        logged = bool(view[body + FLAGS_AT] & FLAG_CASCADES_LOGGED)
                        place = (file, offset - length, begun.timestamp_ms, begun.gtid, server_id, 0, False, logged)
                        rows.append(RowsLogged(table_map, OPS[code], payload, *place))
                elif kind is _TABLE_MAP:
                    self._tables.describe(view[body:body_end], is_mariadb=self._frames.is_mariadb)
                elif kind is _COMMIT:
                    found.end_transaction(offset - length, offset, begun, rows)
                    return index + 1 - first
                elif kind is _BEGIN:
                    if not is_begin(bytes(view[body + THREAD_AND_TIME_BYTES : body_end])):
                        return 0
                elif kind is not _COMMENT:
                    begun = _begin(kind, view[body:body_end], offset - length, server_id, timestamp * 1000)
                    if begun is _NOT_BEGUN or not self._executed.takes(begun.gtid):
                        return 0
            except MalformedError:
                return 0
        return 0


def _payload(view: memoryview, code: int, body: int, end: int) -> bytes:
    """`rows_payload` of an event that is not compressed, and has its fixed parts."""
    at = body + POST_HEADER_BYTES
    if code in HAVE_EXTRA_DATA:
        at += _EXTRA_DATA_BYTES.unpack_from(view, at)[0]
    return bytes(view[at:end])


def _begin(kind: ItemKind, body: memoryview, offset: int, server_id: int, timestamp_ms: int) -> _Begun:
    """Read a GTID event; _NOT_BEGUN if it begins something else than a transaction with a commit of its own."""
    if kind is ItemKind.MARIADB_GTID:
        number, domain, flags = MARIADB_FIELDS.unpack_from(body)
        if flags & MARIADB_UNUSUAL:
            return _NOT_BEGUN
        origin = f"{domain}-{server_id}-"
        return _Begun(offset, origin, number, f"{origin}{number}", timestamp_ms)
    gtid, commit_ms = parse_mysql_gtid(body, anonymous=kind is ItemKind.ANONYMOUS_GTID)
    origin, colon, digits = gtid.rpartition(":")
    return _Begun(offset, origin + colon, int(digits or 0), gtid, timestamp_ms if commit_ms is None else commit_ms)
