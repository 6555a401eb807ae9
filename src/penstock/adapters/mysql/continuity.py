"""Whether a server's log is still the one in which a position was taken.

RESET MASTER (MySQL 8.2 and later: RESET BINARY LOGS AND GTIDS) begins a log anew
under the same file names, and a restored or another server has another log. The
place of a position may then be a place there too, with other transactions before
it. GTIDs tell, where the server writes them, unless the new log has as many
transactions of the same length; and the time at which the file was begun does,
which the scanner compares.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.adapters.mysql.catalog import read_flavour
from penstock.adapters.mysql.connection import ask, server_of
from penstock.core.errors import START_ANEW, LogError, PositionError
from penstock.core.mysql.events.gtid_sets import MysqlGtids, parse_gtids
from penstock.core.mysql.log.log_items import (
    FewTransactions,
    LogAdvanced,
    StatementLogged,
    TransactionBegan,
    TransactionEnded,
    TransactionsLogged,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pymysql

    from penstock.adapters.mysql.connection import MysqlServer
    from penstock.core.mysql.log.log_items import LogItem
    from penstock.core.mysql.statements.describe import Flavour
    from penstock.core.positions import BinlogPosition

_SHOWN = 200
_OR_DELETED = ", or a domain was used again after FLUSH BINARY LOGS DELETE_DOMAIN_ID, with numbers from 1 on"
_MARIADB_GTID = re.compile(r"\d+-\d+-\d+")


def require_known(connection: pymysql.Connection, position: BinlogPosition) -> None:
    """Raise LogError unless the server has executed the transactions before `position`.

    Raises PositionError for GTIDs in the position that cannot be read. A position
    without GTIDs passes.
    """
    if not position.gtids:
        return
    server, flavour = server_of(connection), read_flavour(connection)
    if not _is_readable(position.gtids, flavour):
        shown = position.gtids[:_SHOWN]
        message = f"the GTID set of the position {position} is none of a {flavour} server: {shown}"
        hint = f"its record was damaged, or another server answers: {START_ANEW}"
        raise PositionError(message, hint)
    if flavour == "mysql":
        subset = f"GTID_SUBSET({connection.escape(position.gtids)}, @@GLOBAL.gtid_executed)"
        executed, includes = ask(connection, f"SELECT @@GLOBAL.gtid_executed, {subset}")[0]
    else:
        executed = ask(connection, "SELECT @@GLOBAL.gtid_binlog_pos")[0][0]
        includes = _reaches(str(executed), position.gtids)
    if not includes:
        says = f"it has executed '{str(executed)[:_SHOWN]}', and the position is after '{position.gtids[:_SHOWN]}'"
        raise _begun_anew(server, position, says, "" if flavour == "mysql" else _OR_DELETED)


class Continuity:
    """Looks at what a stream says, as it comes."""

    def __init__(self, server: MysqlServer, position: BinlogPosition) -> None:
        """Begin at the position that the server was asked for."""
        self._server = server
        self._position = position
        self._order = position.order
        self._gtid = ""
        self._is_sure = not position.gtids
        self._gtids = position.gtids
        self._newest = _by_server(position.gtids)

    def check(self, items: Sequence[LogItem]) -> None:
        """Raise LogError if the log or its GTIDs go back, or its first transaction is one from before our position.

        Of GTIDs that is asked of MariaDB only: MySQL never gives one twice.
        """
        for item in items:
            if isinstance(item, TransactionsLogged | FewTransactions) and not self._is_sure:
                self._check_first_of(item)
            self._check_numbers(item)
            match item:
                case LogAdvanced(end):
                    if end.order < self._order:
                        raise _begun_anew(self._server, self._position, f"it goes on at {end}")
                    self._order = end.order
                case TransactionBegan(gtid=gtid) if not self._is_sure:
                    self._gtid = gtid
                case TransactionEnded(end) if not self._is_sure:
                    self._check_first(end)
                case _:
                    pass

    def _check_numbers(self, item: LogItem) -> None:
        """Of each domain and server the numbers grow."""
        if isinstance(item, TransactionsLogged | FewTransactions):
            for origin, first, last in item.stretches:
                if not origin.endswith(":"):
                    self._follow_number(origin, first, last, item.end)
        elif isinstance(item, TransactionEnded | StatementLogged) and item.end.gtids != self._gtids:
            self._gtids = item.end.gtids
            for origin, number in _by_server(item.end.gtids).items():
                if number != self._newest.get(origin):
                    self._follow_number(origin, number, number, item.end)

    def _follow_number(self, origin: str, first: int, last: int, end: BinlogPosition) -> None:
        before = self._newest.get(origin, 0)
        if first <= before:
            message = f"the GTIDs of {self._server} go back: {origin}{first} at {end}, after {origin}{before}"
            hint = (
                "the server was restored from a backup, or somebody set gtid_seq_no or gtid_binlog_state"
                f"{_OR_DELETED}: {START_ANEW}; and set gtid_strict_mode=ON, which "
                "refuses numbers that go back"
            )
            raise LogError(message, hint)
        self._newest[origin] = last

    def _check_first_of(self, together: TransactionsLogged | FewTransactions) -> None:
        """Look at the first of the transactions that were read together."""
        if isinstance(together, TransactionsLogged):
            first = together.first(1)
            self._gtid = str(first.gtids.texts()[0])
            self._check_first(first.end)
        else:
            _, _, self._gtid, _ = together.places[0]
            self._check_first(next(each.end for each in together.singly() if isinstance(each, TransactionEnded)))

    def _check_first(self, end: BinlogPosition) -> None:
        """Look at the first transaction, which ends at `end`."""
        self._is_sure = bool(self._gtid)
        if self._is_sure and not _grew(self._position.gtids, end.gtids, self._gtid):
            says = f"{self._gtid} comes after it, and was among '{self._position.gtids[:_SHOWN]}' before it"
            raise _begun_anew(self._server, self._position, says, "" if ":" in self._gtid else _OR_DELETED)


def _is_readable(gtids: str, flavour: Flavour) -> bool:
    if flavour == "mariadb":
        return all(_MARIADB_GTID.fullmatch(gtid.strip()) for gtid in gtids.split(","))
    try:
        return isinstance(parse_gtids(gtids), MysqlGtids)
    except PositionError:
        return False


def _begun_anew(server: MysqlServer, position: BinlogPosition, says: str, or_else: str = "") -> LogError:
    message = f"the log of {server} is not the one in which the capture stood at {position}: {says}"
    hint = (
        f"the log was reset, the server was restored from a backup, or another server answers{or_else}: start a new "
        "pipeline with an initial snapshot. If it is a new master that has replicated from the old one: "
        "penstock failover FILE SOURCE --to HOST:PORT"
    )
    return LogError(message, hint)


def _by_server(gtids: str) -> dict[str, int]:
    """The number of the newest transaction of each `domain-server-` in MariaDB's notation; none of MySQL's."""
    if not gtids or ":" in gtids:
        return {}
    return {f"{domain}-{server}-": number for domain, (server, number) in _by_domain(gtids).items()}


def _grew(before: str, after: str, gtid: str) -> bool:
    """Whether counting `gtid` as executed has brought a set forward."""
    if ":" in gtid:
        return before != after
    domain, server, number = gtid.split("-")
    known = _by_domain(before).get(domain)
    # Of another server the number may be lower, where gtid_strict_mode is off.
    return known is None or known[0] != server or known[1] < int(number)


def _reaches(executed: str, gtids: str) -> bool:
    """Whether a MariaDB that is at `executed` can have been at `gtids`."""
    reached, wanted = _by_domain(executed), _by_domain(gtids)
    if not reached.keys() & wanted.keys():
        return False
    # A domain may be forgotten (FLUSH BINARY LOGS DELETE_DOMAIN_ID).
    return not any(
        domain in reached and reached[domain][0] == server and reached[domain][1] < number
        for domain, (server, number) in wanted.items()
    )


def _by_domain(gtids: str) -> dict[str, tuple[str, int]]:
    """Server id and number of the newest transaction of each domain, in MariaDB's notation."""
    parts = [gtid.strip().split("-") for gtid in gtids.split(",") if gtid.strip()]
    return {domain: (server, int(number)) for domain, server, number in parts}
