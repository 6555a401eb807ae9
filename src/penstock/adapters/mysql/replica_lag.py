"""How far a source is behind its master, and its replicas behind it: snapshots wait while that is too much.

Sources: those of `replica_status`; MySQL Reference Manual, "SHOW REPLICAS"; MariaDB Knowledge Base, "SHOW REPLICA
HOSTS".
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import structlog

from penstock.adapters.mysql.catalog import read_flavour
from penstock.adapters.mysql.connection import MysqlServer, connect, server_of
from penstock.adapters.mysql.replica_status import ask_either, first_of, read_status
from penstock.core.errors import PenstockError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pymysql

_log = structlog.get_logger()

_ANSWER_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 2.0
_PASSED_OVER_SECONDS: Final = 60.0
_REPLICAS: Final = {"mariadb": ("SHOW SLAVE HOSTS",), "mysql": ("SHOW REPLICAS", "SHOW SLAVE HOSTS")}
_GRANTS: Final = {
    "mariadb": "GRANT SLAVE MONITOR, REPLICATION MASTER ADMIN, REPLICATION SLAVE",
    "mysql": "GRANT REPLICATION CLIENT, REPLICATION SLAVE",
}


@dataclass(frozen=True, slots=True)
class LagLimit:
    """Of whom to ask how far they are behind, and how much is too much.

    `replicas` are asked with the source's login; without any, those that the source knows of, if they answer.
    """

    seconds_max: float
    replicas: Sequence[tuple[str, int]] = ()


class ReplicaWatch:
    """Looks at a source and its replicas, at most once in two seconds. One thread at a time may use it."""

    def __init__(self, source: MysqlServer, limit: LagLimit) -> None:
        """Connect to nobody yet."""
        self._source = source
        self._limit = limit
        self._look_at = 0.0
        self._found: UnavailableError | None = None
        self._passed_over: dict[MysqlServer, float] = {}

    def too_far(self) -> UnavailableError | None:
        """Return what snapshots have to wait for, None for nothing.

        Raises UnavailableError where the source does not answer, and UnfitServerError where we may not ask.
        """
        if time.monotonic() >= self._look_at:
            self._found = self.look()
            self._look_at = time.monotonic() + _LOOK_SECONDS
        return self._found

    def look(self) -> UnavailableError | None:
        """Ask now; see `too_far`."""
        with closing(connect(self._source, _ANSWER_SECONDS, _ANSWER_SECONDS)) as connection:
            found = self._judge(_status(connection), self._source)
            known = () if self._limit.replicas else tuple(_registered(connection))
        for host, port in self._limit.replicas:
            found = found or self._look_at_named(replace(self._source, host=host, port=port))
        for host, port in known:
            found = found or self._look_at_known(replace(self._source, host=host, port=port))
        return found

    def _look_at_named(self, server: MysqlServer) -> UnavailableError | None:
        try:
            status = self._ask(server)
        except UnavailableError as error:
            message = f"nobody knows how far the replica {server} is behind: {error.message}"
            return UnavailableError(message, "start it, or take it out of the source's `replicas`")
        if not status:
            return UnavailableError(f"{server} is no replica", "take it out of the source's `replicas`")
        return self._judge(status, server)

    def _look_at_known(self, server: MysqlServer) -> UnavailableError | None:
        """Look at a replica that nobody named: it may be out of our reach, or behind on purpose."""
        if time.monotonic() < self._passed_over.get(server, 0.0):
            return None
        try:
            status = self._ask(server)
        except PenstockError as error:
            if server not in self._passed_over:
                _log.warning("a replica is not watched", replica=str(server), error=error.message)
            self._passed_over[server] = time.monotonic() + _PASSED_OVER_SECONDS
            return None
        self._passed_over.pop(server, None)
        return self._judge([master for master in status if not int(str(master.get("SQL_Delay") or 0))], server)

    def _ask(self, server: MysqlServer) -> Sequence[Mapping[str, object]]:
        with closing(connect(server, _ANSWER_SECONDS, _ANSWER_SECONDS)) as connection:
            return _status(connection)

    def _judge(self, status: Sequence[Mapping[str, object]], server: MysqlServer) -> UnavailableError | None:
        """Say what is wrong with a replica by its `status`, in which there is one mapping for each of its masters."""
        for master in status:
            seconds = first_of(master, "Seconds_Behind_Source", "Seconds_Behind_Master")
            if seconds is None:
                said = (
                    first_of(master, "Last_SQL_Error") or first_of(master, "Last_IO_Error") or "its replication stands"
                )
                message = f"{server} does not replicate, so nobody knows how far it is behind: {said}"
                hint = "type on it: SHOW REPLICA STATUS, then START REPLICA"
                # Whoever starts the replication of a source that was promoted has the old master write into it.
                past = f"if {server.host} is a replica no more, type on it: RESET REPLICA ALL; if it is one, "
                return UnavailableError(message, past + hint if server == self._source else hint)
            limit = self._limit.seconds_max
            if float(str(seconds)) > limit:
                message = f"{server} is {seconds} seconds behind its master, and a snapshot waits from {limit:g} on"
                hint = "it goes on when the replica has come nearer; or give the source more `max_replica_lag_seconds`"
                return UnavailableError(message, hint)
        return None


def _status(connection: pymysql.Connection) -> Sequence[Mapping[str, object]]:
    return read_status(connection, _denied(connection))


def _registered(connection: pymysql.Connection) -> Iterator[tuple[str, int]]:
    """Yield where replicas are that said so to their master (`report_host`)."""
    for row in ask_either(connection, _REPLICAS[read_flavour(connection)], _denied(connection)):
        host, port = str(first_of(row, "Host") or ""), int(str(first_of(row, "Port") or 0))
        if host and port:
            yield host, port


def _denied(connection: pymysql.Connection) -> str:
    """What to do where we may not ask."""
    grant = f"{_GRANTS[read_flavour(connection)]} ON *.* TO {server_of(connection).user}"
    return f"{grant}; or leave `max_replica_lag_seconds` out"
