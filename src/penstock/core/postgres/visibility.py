"""Which transactions a snapshot of PostgreSQL sees.

Source: PostgreSQL 18 documentation, "Transaction ID and Snapshot Information Functions".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_XID_BITS: Final = 32
_XIDS: Final = 1 << _XID_BITS


@dataclass(frozen=True, slots=True)
class VisibleTransactions:
    """What a snapshot sees: all transactions before `xmax` (64 bits, with the epoch) but those `in_progress`."""

    xmax: int
    in_progress: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> VisibleTransactions:
        """Read it as the server prints it, `xmin:xmax:xip,...`; ValueError if it is none."""
        _, xmax, listed = text.split(":")
        return cls(int(xmax), frozenset(int(each) % _XIDS for each in listed.split(",") if each))

    def has(self, xid: int) -> bool:
        """Whether it sees a transaction that was committed lately, given its number in the log, of 32 bits."""
        ahead = (xid - self.xmax) % _XIDS
        return ahead >= _XIDS // 2 and xid not in self.in_progress
