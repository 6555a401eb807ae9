"""Transactions that the server sends while they run: kept in files until they are committed, in a form read as others.

Sources: PostgreSQL 18 documentation, "Streaming of Large Transactions for Logical Decoding" and "Logical Replication
Message Formats", of protocol 2. The server sends a large transaction in blocks, among which others are committed; each
message of a block says which (sub)transaction it is of. One that was rolled back is told, and what came of it is no
change. Then there is one message for COMMIT, or for ROLLBACK of all.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Final

from penstock.core.postgres.network_reader import MalformedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_START: Final = struct.Struct(">cIB")
_ABORT: Final = struct.Struct(">cII")
_COMMIT: Final = struct.Struct(">cIBQQq")
_PLAIN_BEGIN: Final = struct.Struct(">cQqI")
_PLAIN_COMMIT: Final = struct.Struct(">cBQQq")
_FRAME: Final = struct.Struct(">II")
"""Ahead of each kept message: its bytes, and its (sub)transaction."""
_OID: Final = slice(1, 5)
"""Where a plain description of a table has its OID; in blocks the transaction is there."""
_OID_BYTES: Final = 4
_ALWAYS: Final = 0
"""In place of a transaction: described tables stay when a subtransaction is rolled back, as they come but once."""
_KEPT: Final = frozenset(b"RIUDT")
_WRITE_BYTES: Final = 1 << 20
_READ_BYTES: Final = 4 << 20


@dataclass(slots=True)
class _Streamed:
    """One transaction. `described` are tables that were described elsewhere since they were described here, by OID."""

    file: BinaryIO
    waiting: list[bytes] = field(default_factory=list)
    waiting_bytes: int = 0
    rolled_back: set[int] = field(default_factory=set)
    described: dict[bytes, bytes] = field(default_factory=dict)

    def keep(self, message: bytes, xid: int) -> None:
        """Write a message down. Raises OSError."""
        self.waiting += (_FRAME.pack(len(message), xid), message)
        self.waiting_bytes += len(message)
        if self.waiting_bytes >= _WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Let nothing wait. Raises OSError."""
        self.file.write(b"".join(self.waiting))
        self.waiting.clear()
        self.waiting_bytes = 0

    def messages(self) -> Iterator[Sequence[bytes]]:
        """Yield what was kept and not rolled back, some megabytes at a time."""
        self.file.seek(0)
        left, wanted = b"", _READ_BYTES
        while data := self.file.read(wanted):
            data, at, found = left + data, 0, list[bytes]()
            wanted = _READ_BYTES
            while at + _FRAME.size <= len(data):
                size, xid = _FRAME.unpack_from(data, at)
                end = at + _FRAME.size + size
                if end > len(data):
                    # The rest of a large one comes at once: to put it together bit by bit takes the square of its size.
                    wanted = max(wanted, end - len(data))
                    break
                if xid not in self.rolled_back:
                    found.append(data[at + _FRAME.size : end])
                at = end
            left = data[at:]
            yield found


class StreamedTransactions:
    """The transactions of one connection that have not ended: another connection is sent all of them again."""

    def __init__(self, open_file: Callable[[], BinaryIO]) -> None:
        """Keep each transaction in a file of its own, which is gone when it is closed."""
        self._open_file = open_file
        self._running: dict[int, _Streamed] = {}
        self._block: _Streamed | None = None

    def concern(self, message: bytes) -> bool:
        """Whether a message is to be taken here. Others are changes of transactions that come whole."""
        return self._block is not None or message[0] in b"SAc"

    def take(self, message: bytes) -> Iterator[Sequence[bytes]] | None:
        """Take a message; return what it commits, if it is COMMIT: the messages of a transaction that came whole.

        Raises MalformedError where it cannot stand where it is, and OSError where it cannot be written down.
        """
        kind = message[:1]
        try:
            if self._block is not None:
                self._take_inside(self._block, message)
            elif kind == b"S":
                _, xid, is_first = _START.unpack(message)
                self._block = self._begin(xid) if is_first else self._known(xid)
            elif kind == b"A":
                _, xid, subtransaction = _ABORT.unpack(message)
                self._roll_back(xid, subtransaction)
            else:
                _, xid, _, lsn, end_lsn, timestamp_us = _COMMIT.unpack(message)
                begin = _PLAIN_BEGIN.pack(b"B", lsn, timestamp_us, xid)
                commit = _PLAIN_COMMIT.pack(b"C", 0, lsn, end_lsn, timestamp_us)
                self._known(xid)
                return _committed(begin, self._running.pop(xid), commit)
        except struct.error as error:
            what = f"a message {message[:_OID_BYTES]!r} of {len(message)} bytes"
            raise MalformedError(what) from error
        return None

    def described(self, message: bytes) -> None:
        """Take note of a table that is described for transactions that come whole.

        The server describes a table once, and again when it has changed. What a transaction was told of it before
        must not stay when that is committed.
        """
        for streamed in self._running.values():
            streamed.described[message[_OID]] = message

    def close(self) -> None:
        """Let go of the files."""
        for streamed in self._running.values():
            streamed.file.close()
        self._running.clear()
        self._block = None

    def _take_inside(self, block: _Streamed, message: bytes) -> None:
        kind = message[0]
        if kind == ord("E"):
            block.flush()
            self._block = None
        elif kind in _KEPT:
            (xid,) = struct.unpack_from(">I", message, 1)
            plain = message[:1] + message[1 + _OID_BYTES :]
            if kind == ord("R"):
                self.described(plain)
                block.described.pop(plain[_OID], None)
            block.keep(plain, _ALWAYS if kind == ord("R") else xid)
        elif kind not in b"YMO":
            what = f"a message of kind {chr(kind)!r} in a block of a transaction that is not committed"
            raise MalformedError(what)

    def _begin(self, xid: int) -> _Streamed:
        if xid in self._running:
            what = f"the transaction {xid} begins twice"
            raise MalformedError(what)
        self._running[xid] = _Streamed(self._open_file())
        return self._running[xid]

    def _known(self, xid: int) -> _Streamed:
        if xid not in self._running:
            what = f"more of a transaction {xid} that has not begun"
            raise MalformedError(what)
        return self._running[xid]

    def _roll_back(self, xid: int, subtransaction: int) -> None:
        streamed = self._running.get(xid)
        if streamed is not None and xid == subtransaction:
            streamed.file.close()
            del self._running[xid]
        elif streamed is not None:
            streamed.rolled_back.add(subtransaction)


def _committed(begin: bytes, streamed: _Streamed, commit: bytes) -> Iterator[Sequence[bytes]]:
    with streamed.file:
        yield [begin]
        yield from streamed.messages()
        yield [commit, *streamed.described.values()]
