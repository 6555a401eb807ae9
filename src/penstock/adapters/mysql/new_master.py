"""Where we stand in the log of a new master."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from penstock.adapters.mysql.binlog_stream import open_binlog
from penstock.adapters.mysql.catalog import read_flavour
from penstock.adapters.mysql.connection import ask, server_of
from penstock.adapters.mysql.history import binlogs, gtids_at
from penstock.core.errors import START_ANEW, LogError, LogPurgedError, PositionError, UnfitServerError
from penstock.core.mysql.events.gtid_sets import MariadbGtids, parse_gtids
from penstock.core.mysql.log.heartbeats import HeartbeatWatch
from penstock.core.mysql.log.log_items import FewTransactions
from penstock.core.mysql.log.same_place import COPY_OR_WAIT, GtidPlace, HeartbeatPlace
from penstock.core.positions import BinlogPosition, Heartbeat
from penstock.ports.log import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pymysql

    from penstock.core.mysql.events.gtid_sets import GtidSet
    from penstock.core.mysql.log.log_items import LogItem
    from penstock.core.mysql.log.same_place import Behind
    from penstock.core.tables import TableId

_FIRST_OFFSET = 4
_WAIT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class LogReading:
    """How the log of a server is read: of which tables rows are `wanted`, as which replica."""

    wanted: Callable[[TableId], bool]
    server_id: int


@dataclass(frozen=True, slots=True)
class FoundPlace:
    """A place in the new master's log, and what lies behind it up to the log's end."""

    position: BinlogPosition
    behind: Behind


class _Finder(Protocol):
    """What `core.mysql.log.same_place` has two of."""

    found: BinlogPosition | None
    behind: Behind

    def take(self, item: LogItem) -> None: ...


def find_by_gtids(connection: pymysql.Connection, ours: BinlogPosition, reading: LogReading) -> FoundPlace:
    """Find the place behind the transactions that `ours` lists.

    Raises LogError where the server lacks some of them or has written others among
    them, LogPurgedError where it lacks transactions behind them, UnfitServerError
    where it has executed them but not logged them.
    """
    gtids = parse_gtids(ours.gtids)
    if gtids is None:
        message = f"the position {ours} has no GTIDs"
        raise PositionError(message, "give the source a `heartbeat`, and fail over by that")
    is_mysql = read_flavour(connection) == "mysql"
    if is_mysql is isinstance(gtids, MariadbGtids):
        message = f"the position {ours} has GTIDs of another kind of server than {server_of(connection)}: {gtids}"
        raise PositionError(message, "fail over to a server of the kind that the source was")
    if is_mysql:
        _require_logged_mysql(connection, ours.gtids)
    else:
        gtids = _require_logged_mariadb(connection, gtids)
    start = _start_of_search(connection, gtids, from_the_oldest=bool(ours.prepared))
    try:
        return _search(connection, start, GtidPlace(gtids, start, reading.wanted), reading)
    except _NotFoundError as error:
        message = f"the log of {server_of(connection)} does not have all of {gtids}, although it has executed it"
        raise LogError(message, f"its log begins too late, or has another history. {COPY_OR_WAIT}") from error


def find_by_heartbeat(
    connection: pymysql.Connection, ours: Heartbeat, table: TableId, pipeline: str, reading: LogReading
) -> FoundPlace:
    """Find the place with as much behind a heartbeat as `ours` says. Raises LogError where there is none."""
    oldest = _files(connection)[0]
    # Of MariaDB the file itself lists all of them.
    gtids = _gtids_before(connection, oldest) if read_flavour(connection) == "mysql" else ""
    start = BinlogPosition(oldest, _FIRST_OFFSET, gtids=gtids)
    finder = HeartbeatPlace(ours, HeartbeatWatch(table, pipeline, None))
    wanted = replace(reading, wanted=lambda each: each == table or reading.wanted(each))
    try:
        return _search(connection, start, finder, wanted)
    except _NotFoundError as error:
        mark = finder.watch.mark
        has = (
            f"heartbeat {mark.serial} and {mark.transactions} transactions after it" if mark.serial else "no heartbeat"
        )
        message = (
            f"{server_of(connection)} lacks transactions that were published: the newest that its log has is {has}, "
            f"and the pipeline stands {ours.transactions} transactions after heartbeat {ours.serial}"
        )
        hint = f"the replica lagged when it was promoted, or does not log what it replicates. {COPY_OR_WAIT}"
        raise LogError(message, hint) from error


class _NotFoundError(Exception):
    """The log ended before the place was found."""


def _search(connection: pymysql.Connection, start: BinlogPosition, finder: _Finder, reading: LogReading) -> FoundPlace:
    """Read the log to its end."""
    server = server_of(connection)
    with closing(open_binlog(server, start, reading.server_id, reading.wanted, Stop.END_OF_LOG)) as stream:
        while not stream.at_end():
            for item in stream.read(_WAIT_SECONDS):
                for single in item.singly() if isinstance(item, FewTransactions) else [item]:
                    finder.take(single)
    if finder.found is None:
        raise _NotFoundError
    return FoundPlace(finder.found, finder.behind)


def _require_logged_mysql(connection: pymysql.Connection, ours: str) -> None:
    text = connection.escape(ours)
    lacking, purged = ask(
        connection,
        f"SELECT GTID_SUBTRACT({text}, @@GLOBAL.gtid_executed), GTID_SUBTRACT(@@GLOBAL.gtid_purged, {text})",
    )[0]
    if lacking:
        raise _lacks(connection, str(lacking).replace("\n", ""))
    if purged:
        raise _purged(connection, str(purged).replace("\n", ""))


def _require_logged_mariadb(connection: pymysql.Connection, ours: GtidSet) -> MariadbGtids:
    """Return what of ours its log has: not what a backup brought of domains in which nothing was written since."""
    *positions, logs = ask(
        connection, "SELECT @@GLOBAL.gtid_binlog_pos, @@GLOBAL.gtid_slave_pos, @@GLOBAL.log_slave_updates"
    )[0]
    assert isinstance(ours, MariadbGtids)  # noqa: S101 - the caller has looked
    logged, replicated = (_mariadb(str(text)) for text in positions)
    lacking = logged.lacking(ours)
    if not lacking:
        return ours
    sought = ours.without_quiet(logged, replicated)
    if logs and str(sought) and not logged.lacking(sought):
        return sought
    if not replicated.lacking(ours):
        message = (
            f"{server_of(connection)} has executed what was published, but not logged it: its gtid_slave_pos is "
            f"{replicated}, its gtid_binlog_pos {str(logged) or 'empty'}, "
            f"log_slave_updates is {'ON' if logs else 'OFF'}"
        )
        hint = (
            "a replica that is to become a source needs log_slave_updates=ON in its configuration file from the "
            "beginning, and must not come from a backup that is newer than what was published: fail over to one that "
            f"has it, or {START_ANEW}"
        )
        raise UnfitServerError(message, hint)
    raise _lacks(connection, lacking)


def _start_of_search(connection: pymysql.Connection, ours: GtidSet, *, from_the_oldest: bool) -> BinlogPosition:
    """The start of the newest file with nothing before it that is not of ours, or of the oldest file.

    Raises LogPurgedError where that has too much before it too.
    """
    files = _files(connection)
    for file in [] if from_the_oldest else reversed(files):
        before = _gtids_before(connection, file)
        if _is_within(parse_gtids(before), ours):
            return BinlogPosition(file, _FIRST_OFFSET, gtids=before)
    oldest = _gtids_before(connection, files[0])
    known = parse_gtids(oldest)
    if isinstance(known, MariadbGtids) and isinstance(ours, MariadbGtids) and not known.is_behind(ours):
        raise _purged(connection, f"what lies between {ours} and {known}, where {files[0]} begins")
    return BinlogPosition(files[0], _FIRST_OFFSET, gtids=oldest)


def _gtids_before(connection: pymysql.Connection, file: str) -> str:
    """The GTIDs before a file, as it says itself; of MySQL also those that are in no file.

    MySQL's files do not list what a server that was made from a dump or a clone
    was told to have (`SET GLOBAL gtid_purged`).
    """
    if read_flavour(connection) == "mariadb":
        return gtids_at(connection, file, _FIRST_OFFSET)
    events = ask(connection, f"SHOW BINLOG EVENTS IN {connection.escape(file)} LIMIT 2")
    purged = ask(connection, "SELECT @@GLOBAL.gtid_purged")[0][0]
    listed = next((event[5] for event in events if event[2] == "Previous_gtids"), "")
    return str(parse_gtids(",".join(str(gtids) for gtids in (listed, purged) if gtids)) or "")


def _is_within(gtids: GtidSet | None, ours: GtidSet) -> bool:
    if gtids is None:
        return False
    if isinstance(ours, MariadbGtids):
        return isinstance(gtids, MariadbGtids) and ours.reaches(gtids)
    return not isinstance(gtids, MariadbGtids) and ours.reaches(gtids)


def _files(connection: pymysql.Connection) -> Sequence[str]:
    files = [name for name, _ in binlogs(connection)]
    if not files:
        message = f"{server_of(connection)} has no binlog file"
        raise LogPurgedError(message, "start the server with log_bin")
    return files


def _mariadb(text: str) -> MariadbGtids:
    found = parse_gtids(text)
    return found if isinstance(found, MariadbGtids) else MariadbGtids({})


def _lacks(connection: pymysql.Connection, gtids: str) -> LogError:
    message = f"{server_of(connection)} lacks transactions that were published: {gtids}"
    return LogError(message, f"the replica lagged when it was promoted. {COPY_OR_WAIT}")


def _purged(connection: pymysql.Connection, gtids: str) -> LogPurgedError:
    message = f"the log of {server_of(connection)} lacks transactions that were not published yet: {gtids}"
    return LogPurgedError(message, f"its binlogs were purged, or it never logged them. {COPY_OR_WAIT}")
