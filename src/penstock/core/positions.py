"""Places in a binlog, and their order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.core.mysql.gtid_sets import add_known

if TYPE_CHECKING:
    from collections.abc import Sequence

Order: TypeAlias = tuple[int, int, int]
"""(file number, offset, row): sorts places in the log of one server, and with `in_era` in those of several."""

FILE_BITS: Final = 32
"""How many bits of an order's first number are the file's; above them is the era."""


def file_number(file: str) -> int:
    """The number that a binlog's name ends in: 17 for `mysql-bin.000017`."""
    return int(file.rpartition(".")[2])


def in_era(order: Order, era: int) -> Order:
    """Return a place in a log, as its order, so that it is behind all places of earlier eras: in era 0 as it is.

    Servers number their files from 1 to 2,147,483,647.
    """
    file, offset, row = order
    return (era << FILE_BITS) + file, offset, row


def era_of(order: Order) -> int:
    """The era that `in_era` put an order into."""
    return order[0] >> FILE_BITS


@dataclass(frozen=True, slots=True)
class PreparedXa:
    """A transaction that is prepared (XA PREPARE) at a position, and neither committed nor rolled back by then.

    `xid` is its name in the server's notation, `X'67',X'62',1`. It begins at
    `offset` of `file`; `file` is "" if it has no rows that anybody wants. With an
    `xid` of "" it stands for all that began from that place on.
    """

    xid: str
    file: str = ""
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The newest heartbeat before a position, and what was counted in the log between the two.

    `serial` and `timestamp_ms` (Unix milliseconds) are what the heartbeat's row
    says; it ends at `offset` of `file`. Then came `transactions` (lone statements
    too), with `row_bytes` of rows and a `checksum` over those and the statements.
    With a `serial` of 0 there was none yet, and counted is what came since the
    reader began.
    """

    serial: int = 0
    timestamp_ms: int = 0
    file: str = ""
    offset: int = 0
    transactions: int = 0
    row_bytes: int = 0
    checksum: int = 0

    def counts_as(self, other: Heartbeat) -> bool:
        """Whether `other` is the same heartbeat with the same behind it, in another server's log perhaps."""
        return self.counted == other.counted

    @property
    def counted(self) -> tuple[int, int, int, int]:
        """What is the same in the logs of all servers that have the same transactions."""
        return self.serial, self.transactions, self.row_bytes, self.checksum

    def with_counts(self, transactions: int, row_bytes: int, checksum: int) -> Heartbeat:
        """Count more; the checksum has 64 bits, and does not depend on what is counted first."""
        return replace(
            self,
            transactions=self.transactions + transactions,
            row_bytes=self.row_bytes + row_bytes,
            checksum=(self.checksum + checksum) % (1 << 64),
        )


@dataclass(frozen=True, slots=True)
class BinlogPosition:
    """A place between two events of a binlog.

    `offset` is the byte offset, in `file`, of the start of a transaction (or of
    a statement outside of one): the place a server can be asked to send from.
    `rows_from` is 0 at such a boundary; in the middle of a transaction that was
    published in pieces it is the byte offset of the first ROWS event that is
    not yet published (for one in a compressed transaction, the sum of the offset
    of the event that holds it and its own in there). `gtids` is the set of transactions executed before
    `offset`, in the server's own notation; empty where GTIDs are off. `prepared`
    lists the XA transactions whose rows are in the log before `offset` and whose
    commit may come behind it. `file_created` is when `file` was begun, Unix
    seconds, 0 where that is not known: another log has a file of that name from
    another time; two positions are equal without it. `era` counts the failovers: a
    position of a later era is behind all of an earlier one, whatever their files
    are called. `heartbeat` is the newest before the position, None where nobody
    looks for them.
    """

    file: str
    offset: int
    rows_from: int = 0
    gtids: str = ""
    prepared: tuple[PreparedXa, ...] = ()
    file_created: int = field(default=0, compare=False)
    era: int = 0
    heartbeat: Heartbeat | None = None

    @property
    def read_from(self) -> tuple[str, int]:
        """File and offset from which on a reader needs the log: the position, or the oldest of `prepared` before it."""
        places = [(self.file, self.offset), *((xa.file, xa.offset) for xa in self.prepared if xa.file)]
        return min(places, key=lambda place: (file_number(place[0]), place[1])) if self.prepared else places[0]

    @property
    def order(self) -> tuple[int, int, int]:
        """Sorts positions of one server by their place in its log. See `in_era` for those of several."""
        return file_number(self.file), self.offset, self.rows_from

    def on_top_of(self, base: BinlogPosition) -> BinlogPosition:
        """Return this position, read from `base` on by somebody who knew nothing but that place."""
        heartbeat = self.heartbeat
        if heartbeat is not None and not heartbeat.serial:
            heartbeat = (base.heartbeat or Heartbeat()).with_counts(*heartbeat.counted[1:])
        return replace(self, gtids=add_known(self.gtids, base.gtids), era=base.era, heartbeat=heartbeat)

    def __str__(self) -> str:
        """`file:offset`, as operators write it."""
        return f"{self.file}:{self.offset}"


def bytes_between(begin: BinlogPosition, end: BinlogPosition, files: Sequence[tuple[str, int]]) -> int:
    """How many bytes of a log lie between two positions, given its `files` with their sizes; 0 if `end` is before."""
    low, high = file_number(begin.file), file_number(end.file)
    sizes = {file_number(name): size for name, size in files}
    between = sum(size for number, size in sizes.items() if low <= number < high)
    return max(0, between - begin.offset + end.offset)
