"""Whether all changes of a server's tables come into its binlog.

A replica logs what its master sends only with log_slave_updates; so does a node
of a Galera cluster, for what other nodes wrote. Filters by database leave out the
rows of databases, and statements by the database that a session used.

Source: MySQL Reference Manual, "Replica Server Options and Variables" and
"Evaluation of Database-Level Replication and Binary Logging Options"; MariaDB
Knowledge Base, "Replication and Binary Log System Variables".
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.adapters.mysql.catalog import read_flavour, read_table_ids
from penstock.adapters.mysql.connection import ask, server_of
from penstock.adapters.mysql.history import log_filters
from penstock.core.errors import UnfitServerError
from penstock.core.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pymysql

    from penstock.core.tables import TableId

_LISTED_MAX: Final = 10
_UPDATES: Final = ("log_replica_updates", "log_slave_updates")
_ON: Final = frozenset({"ON", "1"})
_IN_FILE: Final = "in the server's configuration file and restart it"


def examine_coverage(connection: pymysql.Connection, wanted: Callable[[TableId], bool] | None) -> Sequence[Finding]:
    """Find out what of the server's changes its log lacks; with `wanted`, of which of these tables.

    Raises UnavailableError, and UnfitServerError where we may not even ask.
    """
    return [*_replica_findings(connection), *_filter_findings(connection, wanted), *_error_findings(connection)]


def require_whole_log(connection: pymysql.Connection, wanted: Callable[[TableId], bool]) -> None:
    """Raise UnfitServerError where the log lacks changes of tables that are `wanted`."""
    for finding in examine_coverage(connection, wanted):
        if finding.level == "error":
            message = f"{server_of(connection)} cannot be captured: {finding.subject}: {finding.message}"
            raise UnfitServerError(message, finding.hint)


def _replica_findings(connection: pymysql.Connection) -> Sequence[Finding]:
    names = ", ".join(f"'{name}'" for name in (*_UPDATES, "wsrep_on", "gtid_slave_pos"))
    rows = ask(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    found = {str(name): str(value) for name, value in rows}
    name = next((name for name in _UPDATES if name in found), "")
    if not name or found[name] in _ON:
        return [Finding("ok", name, "ON")] if name else []
    hint = f"set {name}=ON {_IN_FILE}, or name its master as the source"
    if found.get("wsrep_on") in _ON:
        return [
            Finding("error", name, "it is OFF, so what other nodes of the Galera cluster write is not logged", hint)
        ]
    if is_replica(connection):
        return [Finding("error", name, "it is OFF, and this is a replica: what its master sends is not logged", hint)]
    if found.get("gtid_slave_pos"):
        message = "it is OFF, and this was a replica once: what it gets from a master is not logged"
        return [Finding("warning", name, message, hint)]
    return []


def is_replica(connection: pymysql.Connection) -> bool:
    """Whether the server applies the changes of another, as far as we may know."""
    if read_flavour(connection) == "mariadb":
        running = dict(ask(connection, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Slaves_running', 'Slave_running')"))
        return str(running.get("Slaves_running", "0")) != "0" or running.get("Slave_running") == "ON"
    # The first is unknown before MySQL 8.0.22, the second since 8.4.
    for statement in ("SHOW REPLICA STATUS", "SHOW SLAVE STATUS"):
        with suppress(UnfitServerError):
            return bool(ask(connection, statement))
    return False


def _filter_findings(connection: pymysql.Connection, wanted: Callable[[TableId], bool] | None) -> Sequence[Finding]:
    only, left_out = log_filters(connection)
    for name, databases in (("binlog_do_db", only), ("binlog_ignore_db", left_out)):
        if not databases:
            continue
        listed = ", ".join(databases)
        hint = f"take {name} out of the server's configuration file and restart it"
        lost = [] if wanted is None else _lost(connection, wanted, only, left_out)
        if lost:
            tables = ", ".join(map(str, lost[:_LISTED_MAX])) + (", ..." if len(lost) > _LISTED_MAX else "")
            return [Finding("error", name, f"it is {listed}, so changes of {tables} are not logged", hint)]
        message = f"it is {listed}: an ALTER TABLE is logged, or not, by the database that its session used"
        return [Finding("warning", name, message, hint)]
    return []


def _error_findings(connection: pymysql.Connection) -> Sequence[Finding]:
    """MySQL may go on without a log where it cannot write it; MariaDB has no such setting.

    Source: MySQL Reference Manual, "Binary Logging Options and Variables", binlog_error_action.
    """
    for name, value in ask(connection, "SHOW GLOBAL VARIABLES LIKE 'binlog_error_action'"):
        if value != "ABORT_SERVER":
            message = f"it is {value}: where the server cannot write its log, it goes on without one"
            return [Finding("warning", str(name), message, f"set {name}=ABORT_SERVER {_IN_FILE}")]
    return []


def _lost(
    connection: pymysql.Connection, wanted: Callable[[TableId], bool], only: Sequence[str], left_out: Sequence[str]
) -> Sequence[TableId]:
    """Return the wanted tables whose rows the filters leave out; where the first is there, the second is not asked."""
    tables = [table for table in read_table_ids(connection) if wanted(table)]
    return [table for table in tables if (table.schema not in only if only else table.schema in left_out)]
