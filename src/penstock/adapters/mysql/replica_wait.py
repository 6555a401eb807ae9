"""Waits until a replica has applied all that its master's log had, and says why it has not.

MASTER_GTID_WAIT and its like would wait as well, but say nothing of a replication
that was stopped meanwhile; so its state is read again and again.

Sources: MariaDB Knowledge Base, "Global Transaction ID" and "SHOW REPLICA STATUS"; MySQL Reference Manual,
"Replication with Global Transaction Identifiers" and "SHOW REPLICA STATUS".
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.adapters.mysql.catalog import read_flavour
from penstock.adapters.mysql.connection import ask, server_of
from penstock.adapters.mysql.history import head
from penstock.adapters.mysql.replica_status import first_of, read_status
from penstock.core.errors import ReplicaLagError, UnavailableError, UnfitServerError
from penstock.core.mysql.events.gtid_sets import MariadbGtids
from penstock.core.positions import file_number
from penstock.core.system_schemas import MYSQL as SYSTEM_SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pymysql

    from penstock.adapters.mysql.connection import MysqlServer
    from penstock.core.positions import BinlogPosition

_POLL_SECONDS: Final = 0.05
_GRANTS: Final = {"mariadb": "GRANT SLAVE MONITOR", "mysql": "GRANT REPLICATION CLIENT"}
_START: Final = "type on it: SHOW REPLICA STATUS, then START REPLICA"
_NAME_ANOTHER: Final = "name a replica of {} as the audit's `replica`, or leave it out"
_PARTIAL: Final = "name a replica of all tables as the audit's `replica`, or leave it out"
# What providers leave out of the replication of every replica (Amazon RDS: innodb_memcache).
_OWN_SCHEMAS: Final = SYSTEM_SCHEMAS | {"innodb_memcache"}


@dataclass(frozen=True, slots=True)
class MasterPlace:
    """Where the log of a master ended.

    `server_id` is what its replicas know it by. `by_gtids`: every transaction has a
    GTID that no other server gives (MySQL).
    """

    server: MysqlServer
    server_id: int
    end: BinlogPosition
    by_gtids: bool


def read_master(connection: pymysql.Connection) -> MasterPlace:
    """Look at a master. Raises as `history.head` does."""
    by_gtids = False
    if read_flavour(connection) == "mysql":
        by_gtids = str(ask(connection, "SELECT @@GLOBAL.gtid_mode")[0][0]) == "ON"
    server_id = int(ask(connection, "SELECT @@GLOBAL.server_id")[0][0])
    return MasterPlace(server_of(connection), server_id, head(connection), by_gtids)


def await_applied(replica: pymysql.Connection, master: MasterPlace, seconds: float) -> None:
    """Return once the server at `replica` has applied all that is before the master's place, after `seconds` at most.

    An open transaction is ended first: replication could wait for the tables that it has read.
    Raises ReplicaLagError; UnavailableError where replication stands or a server is away; UnfitServerError for
    a server that is no replica of the master, or not of all of it, and where we may not ask.
    """
    ask(replica, "ROLLBACK")
    deadline = time.monotonic() + seconds
    server = server_of(replica)
    denied = f"{_GRANTS[read_flavour(replica)]} ON *.* TO {server.user}; or leave the audit's `replica` out"
    while True:
        status = _status_of(server, master, read_status(replica, denied))
        if left_out := ", ".join(_left_out(status)):
            message = f"{server} does not replicate all that {master.server} has: {left_out}"
            raise UnfitServerError(message, _PARTIAL)
        if _has_applied(replica, status, master):
            return
        _require_running(server, status)
        if time.monotonic() >= deadline:
            raise _lag(server, status, master, seconds)
        time.sleep(_POLL_SECONDS)


def _status_of(
    server: MysqlServer, master: MasterPlace, masters: Sequence[Mapping[str, object]]
) -> Mapping[str, object]:
    """Pick what a server says of its replication from `master`.

    GTIDs of MySQL say whose they are, also at a replica of a replica. Those of MariaDB do not, nor do places in files.
    """
    hint = _NAME_ANOTHER.format(master.server)
    if not masters:
        message = f"{server} is no replica"
        raise UnfitServerError(message, hint)
    ids = [int(str(first_of(each, "Source_Server_Id", "Master_Server_Id") or 0)) for each in masters]
    if master.server_id in ids:
        return masters[ids.index(master.server_id)]
    if master.by_gtids:
        return masters[0]
    if 0 in ids:
        # It has not reached its master since it was started.
        message = f"{server} does not replicate: {_why_not(masters[ids.index(0)])}"
        raise UnavailableError(message, _START)
    found = ", ".join(map(str, ids))
    message = f"{server} replicates from a server with server_id {found}, and {master.server} has {master.server_id}"
    raise UnfitServerError(message, hint)


def _left_out(status: Mapping[str, object]) -> Iterator[str]:
    """Yield what keeps a replica from having everything, as SHOW REPLICA STATUS has it."""
    for name, value in status.items():
        listed = [each.strip() for each in str(value or "").split(",") if each.strip()]
        own_only = "_Ignore_" in name and all(
            each.partition(".")[0].replace("\\", "") in _OWN_SCHEMAS for each in listed
        )
        if name.startswith("Replicate_") and listed and not own_only:
            yield f"{name} is {value}"


def _has_applied(replica: pymysql.Connection, status: Mapping[str, object], master: MasterPlace) -> bool:
    end = master.end
    if master.by_gtids:
        asked = f"SELECT GTID_SUBSET({replica.escape(end.gtids)}, @@GLOBAL.gtid_executed)"
        return bool(ask(replica, asked)[0][0])
    if end.gtids and str(status.get("Using_Gtid", "No")) != "No":
        applied = str(ask(replica, "SELECT @@GLOBAL.gtid_slave_pos")[0][0])
        return bool(applied) and MariadbGtids.parse(applied).reaches(MariadbGtids.parse(end.gtids))
    file = str(first_of(status, "Relay_Source_Log_File", "Relay_Master_Log_File") or "")
    offset = int(str(first_of(status, "Exec_Source_Log_Pos", "Exec_Master_Log_Pos") or 0))
    return bool(file) and (file_number(file), offset) >= (file_number(end.file), end.offset)


def _require_running(server: MysqlServer, status: Mapping[str, object]) -> None:
    applies = first_of(status, "Replica_SQL_Running", "Slave_SQL_Running")
    receives = first_of(status, "Replica_IO_Running", "Slave_IO_Running")
    if "No" in {applies, receives}:
        message = f"{server} does not replicate: {_why_not(status)}"
        raise UnavailableError(message, _START)


def _why_not(status: Mapping[str, object]) -> str:
    return str(status.get("Last_SQL_Error") or status.get("Last_IO_Error") or "its replication stands")


def _lag(server: MysqlServer, status: Mapping[str, object], master: MasterPlace, seconds: float) -> ReplicaLagError:
    error = status.get("Last_IO_Error")
    said = f" ({error})" if error else ""
    message = f"{server} has not applied what {master.server} had at {master.end} in {seconds:g} s{said}"
    hint = "audit again when the replica has caught up, or give the audit more `wait_seconds`"
    return ReplicaLagError(message, hint)
