"""Places in a binlog, and their order."""

from __future__ import annotations

from dataclasses import dataclass


def file_number(file: str) -> int:
    """The number that a binlog's name ends in: 17 for `mysql-bin.000017`."""
    return int(file.rpartition(".")[2])


@dataclass(frozen=True, slots=True)
class BinlogPosition:
    """A place between two events of a binlog.

    `offset` is the byte offset, in `file`, of the start of a transaction (or of
    a statement outside of one): the place a server can be asked to send from.
    `rows_from` is 0 at such a boundary; in the middle of a transaction that was
    published in pieces it is the byte offset of the first ROWS event that is
    not yet published (for one in a compressed transaction, the sum of the offset
    of the event that holds it and its own in there). `gtids` is the set of transactions executed before
    `offset`, in the server's own notation; empty where GTIDs are off.
    """

    file: str
    offset: int
    rows_from: int = 0
    gtids: str = ""

    @property
    def order(self) -> tuple[int, int, int]:
        """Sorts positions of one server by their place in its log."""
        return file_number(self.file), self.offset, self.rows_from

    def __str__(self) -> str:
        """`file:offset`, as operators write it."""
        return f"{self.file}:{self.offset}"
