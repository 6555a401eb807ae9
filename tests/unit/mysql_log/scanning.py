"""Logs as the scanner reads them: event by event, or together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.unit.mysql_log.single_items import without_beginnings

from penstock.core.errors import LogError
from penstock.core.mysql.log.log_items import FewTransactions, TransactionsLogged
from penstock.core.mysql.log.scan import EventScanner, Grouping
from penstock.core.positions import BinlogPosition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.unit.mysql_log.conftest import LogWriter

    from penstock.core.mysql.log.log_items import LogItem

FILE = "mysql-bin.000001"
START = BinlogPosition(FILE, 4)
SINGLE = Grouping(1 << 30)
RUNS = Grouping(1)
FEW = Grouping(1 << 30, few=True)


@dataclass(frozen=True)
class Scanned:
    """What comes of a log, run by run or one by one, and the error that ends it."""

    found: list[LogItem]
    error: str

    @property
    def items(self) -> list[LogItem]:
        return without_beginnings(self.found)

    @property
    def runs(self) -> list[TransactionsLogged]:
        return [item for item in self.found if isinstance(item, TransactionsLogged)]

    @property
    def few(self) -> list[FewTransactions]:
        return [item for item in self.found if isinstance(item, FewTransactions)]


def scan(
    log: LogWriter, position: BinlogPosition, grouping: Grouping, cuts: Sequence[int] = (), *, one_file: bool = False
) -> Scanned:
    scanner = EventScanner(position, lambda table: table.name != "secret", one_file=one_file, grouping=grouping)
    buffer, spans = log.stream()
    found: list[LogItem] = []
    try:
        for first, after in pairwise([0, *cuts, len(spans)]):
            for piece in scanner.pieces(buffer, spans[first:after]):
                found += piece
        found += scanner.advanced()
    except LogError as raised:
        return Scanned(found, f"{type(raised)} {raised.message} {raised.hint}")
    return Scanned(found, "")
