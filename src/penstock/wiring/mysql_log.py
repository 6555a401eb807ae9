"""What a MySQL source says of its log: where it ends, and which files it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from penstock.adapters.mysql.connection import connect
from penstock.adapters.mysql.history import binlogs, head
from penstock.core.errors import UnavailableError
from penstock.core.positions import BinlogPosition, binlog_position, bytes_between, file_number
from penstock.ports.source import LogFile
from penstock.wiring.open import mysql_server

T = TypeVar("T")

_START_OF_FILE = 4

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pymysql

    from penstock.config.specs import SourceSpec
    from penstock.core.positions import Position


class MysqlLog:
    """See ports/source.SourceLog. Asks over a connection that is opened again when it is lost."""

    def __init__(self, source: SourceSpec) -> None:
        """Connect when first asked."""
        self._server = mysql_server(source)
        self._connection: pymysql.Connection | None = None

    def head(self) -> BinlogPosition:
        """The end of the log now. Raises UnavailableError."""
        return self._ask(head)

    def files(self) -> Sequence[tuple[str, int]]:
        """The binlogs there are, oldest first, with their sizes in bytes. Raises UnavailableError."""
        return self._ask(binlogs)

    def complete_files_from(self, position: Position) -> Sequence[LogFile]:
        """The binlogs from the one with `position` on that are not written to any more."""
        first = position.order[0]
        files = [file for file in self.files()[:-1] if file_number(file[0]) >= first]
        return [LogFile(BinlogPosition(name, _START_OF_FILE), size) for name, size in files]

    def bytes_between(self, begin: Position, end: Position) -> int:
        """How many bytes of log lie between two positions."""
        return bytes_between(binlog_position(begin), binlog_position(end), self.files())

    def close(self) -> None:
        """Drop the connection."""
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    def _ask(self, question: Callable[[pymysql.Connection], T]) -> T:
        if self._connection is None:
            self._connection = connect(self._server)
        try:
            return question(self._connection)
        except UnavailableError:
            self.close()
            raise
