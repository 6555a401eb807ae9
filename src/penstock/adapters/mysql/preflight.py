"""Whether a server's settings and our grants on it allow us to read its log and its tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pymysql.constants import ER

from penstock.adapters.mysql.cascade_findings import cascade_findings
from penstock.adapters.mysql.catalog import quote_table, read_flavour, read_table_ids
from penstock.adapters.mysql.connection import ask, error_code, server_of
from penstock.adapters.mysql.foreign_keys import logs_cascades
from penstock.adapters.mysql.grants import global_privileges, privileges_somewhere, read_grants
from penstock.adapters.mysql.log_coverage import examine_coverage, is_replica
from penstock.core.errors import UnfitServerError
from penstock.core.findings import Finding
from penstock.core.table_policy import DEFAULT_POLICY
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import pymysql

    from penstock.core.mysql.statements.describe import Flavour
    from penstock.core.table_policy import RowImages, TablePolicy

_DAY_SECONDS = 86_400
_REFUSED = frozenset({ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR})
_LISTED_MAX = 10
_IN_FILE = "in the server's configuration file (SET GLOBAL lasts until its next restart only)"
_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})
_WRITTEN = {"1": "ON", "0": "OFF"}
# With the second, MariaDB logs of an updated row what changed, and all that was before: nothing is missing.
_WHOLE_IMAGES = frozenset({"FULL", "FULL_NODUP"})


@dataclass(frozen=True, slots=True)
class _Setting:
    """A server variable and the value it should have; servers without the variable pass."""

    name: str
    wanted: str
    level: Literal["error", "warning"]
    why: str
    flavour: Flavour | None = None


_SETTINGS = (
    _Setting("binlog_format", "ROW", "error", "otherwise the log has statements in place of rows"),
    _Setting("binlog_alter_two_phase", "OFF", "error", "otherwise each ALTER TABLE is in the log twice"),
    _Setting(
        "binlog_row_metadata",
        "FULL",
        "warning",
        "without it a definition that was changed behind the log (SET sql_log_bin=0) is not seen where only names of "
        "columns, labels of ENUM and SET, or the primary key differ",
    ),
    _Setting("binlog_checksum", "CRC32", "warning", "with it damage to the log on its way from the server is noticed"),
    _Setting("gtid_strict_mode", "ON", "warning", "with it positions can be found again on a new master", "mariadb"),
    _Setting("gtid_mode", "ON", "warning", "with it positions can be found again on a new master", "mysql"),
)


def examine(
    connection: pymysql.Connection,
    wanted: Callable[[TableId], bool] | None = None,
    policy: TablePolicy = DEFAULT_POLICY,
    *,
    rereads: bool = False,
) -> Sequence[Finding]:
    """Look at the server's settings and our grants, and at the tables that are `wanted`, if that is given.

    What is wrong depends on the `policy` of the source, and on whether it `rereads` rows that
    foreign keys change. Changes nothing. Raises UnavailableError, and
    UnfitServerError where we may not even ask.
    """
    flavour = read_flavour(connection)
    variables = {str(name).lower(): str(value) for name, value in ask(connection, "SHOW GLOBAL VARIABLES")}
    findings = [_tls_finding(connection), _log_finding(variables), _id_finding(variables)]
    findings.append(_row_image_finding(variables.get("binlog_row_image", "FULL").upper(), policy.row_images))
    findings += [
        _setting_finding(setting, variables[setting.name])
        for setting in _SETTINGS
        if setting.name in variables and setting.flavour in {None, flavour}
    ]
    grants = _grant_findings(connection, flavour)
    findings += [_retention_finding(variables), *_name_findings(variables), *grants]
    # Without the grants nobody tells us, and then there is an error of them already.
    if variables.get("log_bin") == "ON" and all(grant.level == "ok" for grant in grants):
        findings += examine_coverage(connection, wanted)
    if wanted is not None:
        tables = [table for table in read_table_ids(connection) if wanted(table)]
        findings += _table_findings(connection, tables, rereads=rereads)
    return findings


def require_fit(
    connection: pymysql.Connection,
    wanted: Callable[[TableId], bool] | None = None,
    policy: TablePolicy = DEFAULT_POLICY,
) -> None:
    """Raise UnfitServerError, which lists all that is wrong, unless `examine` finds no error."""
    errors = [finding for finding in examine(connection, wanted, policy) if finding.level == "error"]
    if errors:
        listed = "\n".join(f"  {finding.subject}: {finding.message}" for finding in errors)
        hints = "\n".join(f"  {finding.hint}" for finding in errors)
        message = f"{server_of(connection)} cannot be captured, for {len(errors)} reason(s):\n{listed}"
        raise UnfitServerError(message, f"\n{hints}")


def _tls_finding(connection: pymysql.Connection) -> Finding:
    server = server_of(connection)
    if server.tls is None:
        if server.host in _THIS_MACHINE:
            return Finding("ok", "tls", "not encrypted, on this machine only")
        message = "nothing is encrypted on the way here: whoever is between can read and change what comes"
        return Finding("warning", "tls", message, "give the source `tls`, unless the network between is safe")
    version, cipher = (
        str(ask(connection, f"SHOW STATUS LIKE '{name}'")[0][1]) for name in ("Ssl_version", "Ssl_cipher")
    )
    if server.tls.verify == "none":
        hint = "give `tls` the `ca` that has signed the server's certificate, in place of verify: none"
        return Finding("warning", "tls", f"{version}, but anybody could answer in the server's place", hint)
    return Finding("ok", "tls", f"{version}, {cipher}")


def _log_finding(variables: Mapping[str, str]) -> Finding:
    if variables.get("log_bin") == "ON":
        return Finding("ok", "log_bin", "ON")
    return Finding("error", "log_bin", "the server writes no binlog", f"set log_bin {_IN_FILE} and restart it")


def _row_image_finding(found: str, row_images: RowImages) -> Finding:
    hint = f"set binlog_row_image=FULL {_IN_FILE}"
    if found in _WHOLE_IMAGES:
        return Finding("ok", "binlog_row_image", found)
    if row_images == "partial":
        message = f"it is {found}: rows are carried with the columns that it logs, and less is promised for them"
        return Finding("warning", "binlog_row_image", message, f"{hint}, or see what is lost: penstock docs types")
    message = f"it is {found}, not FULL; otherwise rows in the log lack columns"
    return Finding("error", "binlog_row_image", message, f"{hint}, or give the source `row_images: partial`")


def _id_finding(variables: Mapping[str, str]) -> Finding:
    server_id = variables.get("server_id", "0")
    if server_id != "0":
        return Finding("ok", "server_id", server_id)
    return Finding("error", "server_id", "it is 0, with which a server refuses replicas", f"set server_id=1 {_IN_FILE}")


def _setting_finding(setting: _Setting, found: str) -> Finding:
    value = _WRITTEN.get(found, found).upper()
    if value == setting.wanted:
        return Finding("ok", setting.name, value)
    # Also where SET GLOBAL would do, sessions that are open keep what they had.
    hint = f"set {setting.name}={setting.wanted} {_IN_FILE}"
    return Finding(setting.level, setting.name, f"it is {value}, not {setting.wanted}; {setting.why}", hint)


def _retention_finding(variables: Mapping[str, str]) -> Finding:
    """Look at how long binlogs are kept; 0 is for ever."""
    days = float(variables.get("expire_logs_days") or 0)
    seconds = float(variables.get("binlog_expire_logs_seconds") or 0) or days * _DAY_SECONDS
    if variables.get("binlog_expire_logs_auto_purge") == "OFF":
        seconds = 0
    if seconds == 0 or seconds >= _DAY_SECONDS:
        text = f"binlogs are kept for {seconds / _DAY_SECONDS:g} days" if seconds else "binlogs are kept for ever"
        return Finding("ok", "retention", text)
    kept = f"binlogs are kept for {seconds / 3600:.1f} hours"
    message = f"{kept}: a pipeline that is stopped for longer has to start anew, with an initial snapshot"
    return Finding("warning", "retention", message, f"set binlog_expire_logs_seconds to some days {_IN_FILE}")


def _name_findings(variables: Mapping[str, str]) -> Sequence[Finding]:
    value = variables.get("lower_case_table_names", "0")
    if value == "0":
        return []
    message = f"it is {value}: case does not count in names of tables, and must not on the tracker either"
    return [Finding("warning", "lower_case_table_names", message, f"give the tracker lower_case_table_names={value}")]


def _grant_findings(connection: pymysql.Connection, flavour: Flavour) -> Sequence[Finding]:
    lines = read_grants(connection)
    granted = global_privileges(lines)
    # Each needs one of its names: MariaDB 10.5 renamed REPLICATION CLIENT.
    needed = [("REPLICATION SLAVE",), ("BINLOG MONITOR", "REPLICATION CLIENT")]
    findings = [_grant_finding(connection, names, granted) for names in needed]
    if flavour == "mysql":
        # A copy takes a lock: of the server, or of its tables. Whether ours are among those shows when it is taken.
        locks = granted | (privileges_somewhere(lines) & {"LOCK TABLES", "ALL PRIVILEGES"})
        findings.append(_grant_finding(connection, ("LOCK TABLES", "RELOAD"), locks))
    return findings


def _grant_finding(connection: pymysql.Connection, names: tuple[str, ...], granted: frozenset[str]) -> Finding:
    name = names[-1]
    if granted & {*names, "ALL PRIVILEGES", "SUPER"}:
        return Finding("ok", f"grant {name}", "held")
    user = server_of(connection).user
    return Finding("error", f"grant {name}", f"{user} does not have it", f"GRANT {name} ON *.* TO {user}")


def _table_findings(connection: pymysql.Connection, tables: Sequence[TableId], *, rereads: bool) -> Sequence[Finding]:
    refused = [table for table in tables if not _may_read(connection, table)]
    readable = set(tables).difference(refused)
    findings = [_select_finding(connection, len(tables), refused), *_engine_findings(connection, readable)]
    is_logged = logs_cascades(connection)
    if not is_logged or is_replica(connection):
        findings += cascade_findings(connection, readable, rereads=rereads, by_master=is_logged)
    return findings


def _select_finding(connection: pymysql.Connection, wanted: int, refused: Sequence[TableId]) -> Finding:
    if not refused:
        return Finding("ok", "grant SELECT", f"held on {wanted} table(s)")
    user, count = server_of(connection).user, len(refused)
    listed = ", ".join(map(str, refused[:_LISTED_MAX])) + (", ..." if count > _LISTED_MAX else "")
    hint = f"GRANT SELECT ON {quote_table(refused[0])} TO {user}, and so on"
    return Finding("error", "grant SELECT", f"{user} may not read {count} of the wanted tables: {listed}", hint)


def _may_read(connection: pymysql.Connection, table: TableId) -> bool:
    try:
        ask(connection, f"SELECT * FROM {quote_table(table)} LIMIT 0")  # noqa: S608 - the name is quoted
    except UnfitServerError as error:
        if error_code(error) in _REFUSED:
            return False
        if error_code(error) != ER.NO_SUCH_TABLE:
            raise
    return True


def _engine_findings(connection: pymysql.Connection, tables: Collection[TableId]) -> Iterator[Finding]:
    """Warn of tables of which no snapshot can be made: their engines know no place of the log."""
    listed = ask(
        connection,
        "SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE FROM information_schema.TABLES "
        "WHERE ENGINE <> 'InnoDB' ORDER BY TABLE_SCHEMA, TABLE_NAME",
    )
    found = [(TableId(schema, name), engine) for schema, name, engine in listed]
    named = [f"{table} ({engine})" for table, engine in found if table in tables]
    if named:
        more = f" and {len(named) - _LISTED_MAX} more" if len(named) > _LISTED_MAX else ""
        message = f"an initial snapshot stops these, and no other can be made of them: {', '.join(named[:_LISTED_MAX])}"
        hint = "ALTER TABLE ... ENGINE=InnoDB before the first start, or leave them out; their changes are in the log"
        yield Finding("warning", "engine", f"{message}{more}", hint)
