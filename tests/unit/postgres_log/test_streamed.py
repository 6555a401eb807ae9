"""Transactions that come while they run are read as if they had come at their COMMIT."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.postgres_log import pgoutput_encoding as encoding

from penstock.core.positions import WalPosition
from penstock.core.postgres.log_items import PostgresItem, RelationSeen
from penstock.core.postgres.network_reader import MalformedError
from penstock.core.postgres.scan import PgoutputScanner
from penstock.core.postgres.streamed import StreamedTransactions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.postgres.messages import Relation

_COLUMNS: Final = [("id", encoding.INT4), ("name", encoding.TEXT)]
_TABLES: Final = tuple(encoding.relation(_COLUMNS, oid=oid) for oid in (16400, 16401))
_BEGINNING: Final = WalPosition(0)
_WIDER: Final = encoding.relation([*_COLUMNS, ("more", encoding.TEXT)], oid=16400)


def _start(xid: int, *, first: bool) -> bytes:
    return b"S" + struct.pack(">IB", xid, first)


def _inside(message: bytes, xid: int) -> bytes:
    return message[:1] + struct.pack(">I", xid) + message[1:]


def _abort(xid: int, subtransaction: int) -> bytes:
    return b"A" + struct.pack(">II", xid, subtransaction)


def _commit(xid: int, lsn: int) -> bytes:
    return b"c" + struct.pack(">IBQQq", xid, 0, lsn, lsn + 50, 1_000_000)


@dataclass
class _Written:
    """A transaction: messages by (sub)transaction, in order. Those of `rolled_back` are no changes."""

    xid: int
    changes: list[tuple[int, bytes]]
    rolled_back: set[int]
    sent: int = 0
    described: set[int] = field(default_factory=set)

    def whole(self, lsn: int) -> list[bytes]:
        changes = [message for xid, message in self.changes if xid not in self.rolled_back]
        return [encoding.encode_begin(lsn, self.xid), *changes, encoding.encode_commit(lsn, lsn + 50)]

    def block(self, count: int) -> Iterator[bytes]:
        """The next changes, ahead of each table's first its description, whatever subtransaction that is of."""
        yield _start(self.xid, first=not self.sent)
        for xid, message in self.changes[self.sent : self.sent + count]:
            oid = int.from_bytes(message[1:5], "big")
            if oid not in self.described:
                self.described.add(oid)
                table = next(table for table in _TABLES if table.oid == oid)
                yield _inside(encoding.encode_relation(table), xid)
            yield _inside(message, xid)
        yield b"E"
        self.sent += count


def _row(draw: st.DrawFn) -> bytes:
    oid, name = draw(st.sampled_from(_TABLES)).oid, b"x" * draw(st.integers(0, 9))
    kind = draw(st.sampled_from("IUD"))
    if kind == "I":
        return encoding.encode_insert(oid, (b"1", name))
    return encoding.encode_update(oid, None, (b"1", name)) if kind == "U" else encoding.encode_delete(oid, (b"1", None))


@st.composite
def _logs(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    """Return a log in which transactions come whole, and the same where they come in blocks, among each other."""
    written = []
    for number in range(draw(st.integers(1, 3))):
        xid = 700 + 10 * number
        subtransactions = draw(st.lists(st.sampled_from([xid, xid + 1, xid + 2]), min_size=1, max_size=12))
        rolled_back = draw(st.sets(st.sampled_from([xid + 1, xid + 2])))
        written.append(_Written(xid, [(each, _row(draw)) for each in subtransactions], rolled_back))
    describe = [encoding.encode_begin(50), *map(encoding.encode_relation, _TABLES), encoding.encode_commit(50, 60)]
    whole, streamed, lsn = [*describe], [*describe], 100
    while written:
        each = draw(st.sampled_from(written))
        if each.sent < len(each.changes):
            streamed += each.block(draw(st.integers(1, 5)))
            continue
        streamed += [_abort(each.xid, subtransaction) for subtransaction in sorted(each.rolled_back)]
        written.remove(each)
        if draw(st.integers(0, 4)) == 0:
            streamed.append(_abort(each.xid, each.xid))
            continue
        streamed.append(_commit(each.xid, lsn))
        whole += each.whole(lsn)
        lsn += 100
        short = [encoding.encode_begin(lsn), _row(draw), encoding.encode_commit(lsn, lsn + 50)]
        whole, streamed, lsn = whole + short, streamed + short, lsn + 100
    return whole, streamed


def _sorted_out(messages: Sequence[bytes]) -> list[bytes]:
    """What a connection hands to the scanner."""
    streamed, plain = StreamedTransactions(BytesIO), list[bytes]()
    for message in messages:
        if not streamed.concern(message):
            plain.append(message)
            if message[:1] == b"R":
                streamed.described(message)
            continue
        for committed in streamed.take(message) or ():
            plain += committed
    return plain


def _scanned(messages: Sequence[bytes], start: WalPosition = _BEGINNING) -> list[PostgresItem]:
    scanner = PgoutputScanner(start)
    return [item for message in messages for item in scanner.take(message)]


def _without_descriptions(items: Sequence[PostgresItem]) -> list[PostgresItem]:
    return [item for item in items if not isinstance(item, RelationSeen)]


@given(_logs())
def test_what_came_in_blocks_is_what_comes_at_once(logs: tuple[list[bytes], list[bytes]]) -> None:
    whole, streamed = logs

    assert _without_descriptions(_scanned(_sorted_out(streamed))) == _without_descriptions(_scanned(whole))


@given(_logs(), st.integers(0, 60))
def test_a_start_inside_of_a_transaction_is_at_the_same_row(
    logs: tuple[list[bytes], list[bytes]], rows_from: int
) -> None:
    whole, streamed = logs
    start = WalPosition(100, rows_from)

    again = _without_descriptions(_scanned(_sorted_out(streamed), start))

    assert again == _without_descriptions(_scanned(whole, start))


def _rows_of(table: Relation, *names: bytes) -> list[bytes]:
    width = len(table.columns) - 1
    return [encoding.encode_insert(table.oid, (b"1", *[name] * width)) for name in names]


def test_a_table_that_was_described_anew_meanwhile_stays_so_behind_the_commit() -> None:
    old, new = _TABLES[0], _WIDER
    described = [encoding.encode_relation(each) for each in (old, new)]
    running = [_start(700, first=True), _inside(described[0], 700), _inside(_rows_of(old, b"a")[0], 700), b"E"]
    other = [encoding.encode_begin(100), described[1], *_rows_of(new, b"b"), encoding.encode_commit(100, 150)]
    behind = [encoding.encode_begin(300), *_rows_of(new, b"c"), encoding.encode_commit(300, 350)]

    items = _scanned(_sorted_out([*running, *other, _commit(700, 200), *behind]))

    widths = [len(item.relation.columns) for item in items if isinstance(item, RelationSeen)]
    assert widths == [3, 2, 3]


def test_what_cannot_stand_where_it_is_is_malformed() -> None:
    for messages in (
        [_commit(700, 100)],
        [_start(700, first=False)],
        [_start(700, first=True), b"E", _start(700, first=True)],
        [_start(700, first=True), b"C"],
        [b"S"],
    ):
        with pytest.raises(MalformedError):
            _sorted_out(messages)


def test_a_transaction_that_was_rolled_back_unseen_is_nothing() -> None:
    assert _sorted_out([_abort(700, 701), _abort(700, 700)]) == []
