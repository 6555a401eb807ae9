"""Places in a binlog, and their order."""

from __future__ import annotations

from dataclasses import dataclass


def file_number(file: str) -> int:
    """The number that a binlog's name ends in: 17 for `mysql-bin.000017`."""
    return int(file.rpartition(".")[2])


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
    commit may come behind it.
    """

    file: str
    offset: int
    rows_from: int = 0
    gtids: str = ""
    prepared: tuple[PreparedXa, ...] = ()

    @property
    def read_from(self) -> tuple[str, int]:
        """File and offset from which on a reader needs the log: the position, or the oldest of `prepared` before it."""
        places = [(self.file, self.offset), *((xa.file, xa.offset) for xa in self.prepared if xa.file)]
        return min(places, key=lambda place: (file_number(place[0]), place[1])) if self.prepared else places[0]

    @property
    def order(self) -> tuple[int, int, int]:
        """Sorts positions of one server by their place in its log."""
        return file_number(self.file), self.offset, self.rows_from

    def __str__(self) -> str:
        """`file:offset`, as operators write it."""
        return f"{self.file}:{self.offset}"
