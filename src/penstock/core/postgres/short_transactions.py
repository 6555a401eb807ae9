"""Many short transactions at once: whose rows are where, without a look into them.

To read a BEGIN, a row and a COMMIT one by one costs more than to decode the row with many others.
Source: PostgreSQL 18 documentation, "Logical Replication Message Formats".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from penstock.core.postgres.log_items import STEPS_PER_ROW, RowsLogged, ShortTransactions, Transaction
from penstock.core.postgres.messages import EPOCH_US
from penstock.core.postgres.runs import HEAD_BYTES, ROW_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.positions import WalPosition
    from penstock.core.postgres.messages import Relation

_ROWS_MAX: Final = 256
"""A transaction with more rows is read as it comes."""
_BYTES_MAX: Final = 1 << 20
_BEGIN: Final = struct.Struct(">cQqI")
_COMMIT: Final = struct.Struct(">cBQQq")
_FILE_BITS: Final = 32


@dataclass(slots=True)
class _Rows:
    """Of one table and kind: see RowsLogged."""

    relation: Relation
    messages: list[bytes] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    serials: list[int] = field(default_factory=list)


def read_short_transactions(
    messages: Sequence[bytes], at: int, start: WalPosition, relations: Mapping[int, Relation], serial: int
) -> tuple[ShortTransactions | None, int]:
    """Read transactions from the BEGIN at `at` on, of a stream from `start` on; say where the next message is.

    `serial` is that of the first row. Ends before whatever is no row of a table in `relations` or does not decode,
    which is left to others, and with about 1 MiB.
    """
    found: dict[bytes, _Rows] = {}
    transactions: list[Transaction] = []
    ends: list[int] = []
    left = _BYTES_MAX
    while left > 0 and (end := _end_of(messages, at, found, relations)):
        _, lsn, timestamp_us, xid = _BEGIN.unpack(messages[at])
        # A stream that begins inside of a transaction passes by some of its rows.
        if lsn == start.lsn or (transactions and lsn >> _FILE_BITS != transactions[0].lsn >> _FILE_BITS):
            break
        transaction = Transaction(lsn, xid, (timestamp_us + EPOCH_US) // 1000)
        for index in range(at + 1, end):
            message = messages[index]
            rows = found[message[:HEAD_BYTES]]
            rows.messages.append(message)
            rows.transactions.append(transaction)
            rows.numbers.append((index - at) * STEPS_PER_ROW - 1)
            rows.serials.append(serial)
            serial += 1
            left -= len(message)
        transactions.append(transaction)
        ends.append(_COMMIT.unpack(messages[end])[3])
        at = end + 1
    if not transactions:
        return None, at
    logged = tuple(_logged(head, rows) for head, rows in found.items() if rows.messages)
    return ShortTransactions(transactions, ends, logged, replace(start, lsn=ends[-1], rows_from=0)), at


def _end_of(
    messages: Sequence[bytes], at: int, found: dict[bytes, _Rows], relations: Mapping[int, Relation]
) -> int | None:
    """Return where the COMMIT of a short transaction is, if it is here; take the tables of its rows into `found`."""
    if at >= len(messages) or messages[at][:1] != b"B" or len(messages[at]) != _BEGIN.size:
        return None
    for index in range(at + 1, min(len(messages), at + 2 + _ROWS_MAX)):
        head = messages[index][:HEAD_BYTES]
        if head in found:
            continue
        if head[:1] == b"C":
            return index if len(messages[index]) == _COMMIT.size else None
        relation = relations.get(int.from_bytes(head[1:-1], "big"))
        if relation is None or head[:1] + head[-1:] not in ROW_KINDS:
            return None
        found[head] = _Rows(relation)
    return None


def _logged(head: bytes, rows: _Rows) -> RowsLogged:
    op, image = ROW_KINDS[head[:1] + head[-1:]], chr(head[-1])
    return RowsLogged(rows.relation, op, image, rows.messages, rows.transactions, rows.numbers, rows.serials)
