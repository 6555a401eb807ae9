"""Places in PostgreSQL's log, and their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_OFFSET_BITS: Final = 32
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1
_FILE: Final = "wal."
STEPS_PER_ROW: Final = 4
"""Row k of a transaction has the number 4k + 3; what comes to light ahead of it has the three numbers before."""


def print_lsn(lsn: int) -> str:
    """Return an LSN as PostgreSQL prints it: 16/B374D848."""
    return f"{lsn >> _OFFSET_BITS:X}/{lsn & _OFFSET_MASK:X}"


def parse_lsn(text: str) -> int:
    """Read an LSN as PostgreSQL prints it; ValueError if it is none."""
    high, slash, low = text.partition("/")
    if not slash:
        message = f"{text!r} is no LSN"
        raise ValueError(message)
    return (int(high, 16) << _OFFSET_BITS) + int(low, 16)


def lsn_file(lsn: int) -> str:
    """Return what stands for the log's file in messages: a name with the LSN's upper half as its number."""
    return f"{_FILE}{lsn >> _OFFSET_BITS:06d}"


def lsn_offset(lsn: int) -> int:
    """Return what stands for the offset in the file: the LSN's lower half."""
    return lsn & _OFFSET_MASK


@dataclass(frozen=True, slots=True)
class PostgresPosition:
    """A place between two changes of the log, in the order in which they are committed.

    With `rows_from` 0 it is a boundary between transactions: all that were committed
    before `lsn` are behind us. In a transaction that is published in pieces, `lsn` is
    where its COMMIT begins, and the rows with numbers from `rows_from` on are not yet
    published. `tables_from` is the first OID that no table had when the slot was made:
    all rows of tables with that OID or a higher one are in the log.
    """

    lsn: int
    rows_from: int = 0
    tables_from: int = 0
    era: int = 0

    @property
    def order(self) -> tuple[int, int, int]:
        """Sorts positions; see `penstock.core.positions.in_era`."""
        return self.lsn >> _OFFSET_BITS, lsn_offset(self.lsn), self.rows_from

    @property
    def file(self) -> str:
        """The name that stands for the log's file."""
        return lsn_file(self.lsn)

    def __str__(self) -> str:
        """The LSN, as operators write it."""
        return print_lsn(self.lsn)
