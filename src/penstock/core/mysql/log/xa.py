"""XA transactions between XA PREPARE, where the log has their rows, and XA COMMIT, where they take effect.

Sources: MySQL manual 15.3.8.1 "XA Transaction SQL Statements" and internals,
`XA_prepare_log_event`; MariaDB Knowledge Base, "XA Transactions" and "XA_prepare_log_event".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock.core.errors import START_ANEW, LogError
from penstock.core.mysql.types.bytes_reader import BytesReader, MalformedError
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.positions import PreparedXa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.mysql.log.log_cursor import LogCursor
    from penstock.core.mysql.log.open_transaction import OpenTransaction
    from penstock.core.positions import BinlogPosition

_XID: Final = re.compile(r"X'([0-9a-fA-F]*)',X'([0-9a-fA-F]*)',(-?[0-9]{1,10})(?: ONE PHASE)?", re.ASCII)
_FORMAT_MASK: Final = 0xFFFF_FFFF
_PART_BYTES_MAX: Final = 64
_COMMITTED_BYTES_MAX: Final = 1 << 30
"""See docs/decisions/0009-xa-rows-at-their-commit.md."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    xa: PreparedXa
    rows: Sequence[RowsLogged]
    size_bytes: int


class PreparedTransactions:
    """What is prepared at our place of the log, with its wanted rows, up to `bytes_max` of them."""

    __slots__ = ("_by_xid", "_bytes_max", "held_bytes", "listed")

    def __init__(self, bytes_max: int) -> None:
        """Begin with none."""
        self._bytes_max = bytes_max
        self._by_xid: dict[str, _Prepared] = {}
        self.held_bytes = 0
        self.listed: tuple[PreparedXa, ...] = ()

    def check_room(self, transaction: OpenTransaction, place: LogCursor) -> None:
        """Raise LogError when the rows of `transaction`, with those prepared before, are too many to be held."""
        if self.held_bytes + transaction.held_bytes > self._bytes_max:
            message = (
                f"the XA transaction at {place.file}:{transaction.begin} and those prepared before it have over "
                f"{self._bytes_max >> 20} MiB of rows at {place}, which are held until XA COMMIT"
            )
            hint = (
                "give the source a larger prepared_xa_mebibytes_max and run again; or make XA transactions smaller, or"
            )
            raise LogError(message, f"{hint} fewer at once, and then {START_ANEW}")

    def prepare(self, xid: str, transaction: OpenTransaction) -> None:
        """Keep what `transaction` holds. An older one of that name is gone: the server would not have let it be."""
        size_bytes, held, places = transaction.held_bytes, transaction.release(), transaction.xa_places
        rows = [replace(item, inside=places[item.rows_from]) for item in held if isinstance(item, RowsLogged)]
        if rows and rows[-1].inside + rows[-1].size_bytes > _COMMITTED_BYTES_MAX:
            message = f"the XA transaction at {transaction.file}:{transaction.begin} has over a GiB of rows"
            raise LogError(message, f"make XA transactions smaller, and then {START_ANEW}")
        self.forget(xid)
        xa = PreparedXa(xid, transaction.file, transaction.begin) if rows else PreparedXa(xid)
        self._by_xid[xid] = _Prepared(xa, rows, size_bytes)
        self._count()

    def forget(self, xid: str) -> bool:
        """Let go of a transaction that was rolled back; False if it is not known."""
        known = self._by_xid.pop(xid, None) is not None
        self._count()
        return known

    def commit(self, xid: str, transaction: OpenTransaction, place: LogCursor) -> list[RowsLogged] | None:
        """Let go of the rows, as rows of the XA COMMIT at `place` that `transaction` is; None if it is not known.

        Rows that an earlier reader has, as `place.rows_from` says, are left out. What
        places they have does not depend on what is wanted: that reader may have wanted others.
        """
        prepared = self._by_xid.get(xid)
        if prepared is None:
            return None
        self.forget(xid)
        gtid, timestamp_ms = transaction.gtid, transaction.timestamp_ms
        committed = (
            replace(rows, file=place.file, offset=place.start, timestamp_ms=timestamp_ms, gtid=gtid)
            for rows in prepared.rows
        )
        return [rows for rows in committed if rows.rows_from >= place.rows_from]

    def complete(self, position: BinlogPosition) -> None:
        """Compare what was found on the way to `position` with what it lists, and add those without rows.

        Raises LogError for one that is not where it was.
        """
        for xa in position.prepared:
            if xa.file and xa.xid and xa.xid not in self._by_xid:
                message = f"the XA transaction {xa.xid}, prepared before {position}, is not at {xa.file}:{xa.offset}"
                raise LogError(message, f"the log is not the one that was read before: {START_ANEW}")
        listed = {xa.xid: _Prepared(xa, (), 0) for xa in position.prepared if xa.xid}
        self._by_xid = {xid: self._by_xid.get(xid, prepared) for xid, prepared in listed.items()} | self._by_xid
        self._count()

    def _count(self) -> None:
        self.held_bytes = sum(prepared.size_bytes for prepared in self._by_xid.values())
        self.listed = tuple(prepared.xa for prepared in self._by_xid.values())


def parse_xa_prepare(body: memoryview) -> tuple[str, bool]:
    """Read an XA_PREPARE event after its header: the transaction's name, and whether it is committed at once."""
    reader = BytesReader(body)
    one_phase = reader.integer(1) != 0
    format_id, global_bytes, branch_bytes = reader.integer(4), reader.integer(4), reader.integer(4)
    if max(global_bytes, branch_bytes) > _PART_BYTES_MAX:
        message = f"the name of an XA transaction with parts of {global_bytes} and {branch_bytes} bytes"
        raise MalformedError(message)
    return _xid(reader.take(global_bytes), reader.take(branch_bytes), format_id), one_phase


def xid_of(sql: str) -> str:
    """Return the transaction's name in XA COMMIT or XA ROLLBACK, as the server writes them."""
    found = _XID.fullmatch(sql.split(" ", 2)[-1].strip())
    if found is None or len(found[1]) % 2 or len(found[2]) % 2:
        message = f"the name of an XA transaction in {sql[:200]!r}"
        raise MalformedError(message)
    return _xid(bytes.fromhex(found[1]), bytes.fromhex(found[2]), int(found[3]))


def unknown_xa(sql: str, place: LogCursor) -> LogError:
    """Name an XA COMMIT of which nothing is known."""
    message = f"{sql[:200]} at {place} commits what was prepared before the position at which the pipeline began"
    return LogError(message, f"its rows, if they are of captured tables, are missing: {START_ANEW}")


def _xid(global_part: bytes, branch: bytes, format_id: int) -> str:
    return f"X'{global_part.hex()}',X'{branch.hex()}',{format_id & _FORMAT_MASK}"
