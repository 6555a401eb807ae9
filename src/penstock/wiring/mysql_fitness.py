"""Whether a MySQL or MariaDB source can be captured as the file wants it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pymysql
import structlog

from penstock.adapters.mysql import preflight
from penstock.adapters.mysql.connection import connect, explain
from penstock.adapters.mysql.heartbeat import HeartbeatWriter
from penstock.adapters.mysql.preflight import require_fit
from penstock.adapters.mysql.replica_lag import LagLimit, ReplicaWatch
from penstock.adapters.mysql.visible import unseen_patterns
from penstock.core.errors import PenstockError, UnfitServerError, UsageError
from penstock.core.findings import Finding, examine
from penstock.wiring.open import mysql_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.adapters.mysql.visible import UnseenPattern
    from penstock.config.mysql_source import MysqlSourceSpec

_log = structlog.get_logger()


def examine_source(source: MysqlSourceSpec, pipeline: str) -> Iterator[Finding]:
    """Look at the server's settings, our grants on it, the tables that are wanted and that of heartbeats."""
    subject = f"source {source.name}"
    try:
        with connect(mysql_server(source)) as connection:
            yield Finding("ok", subject, f"{source.user} can log in to {source.host}:{source.port}")
            for found in preflight.examine(
                connection, source.patterns.matches, source.policy, rereads=source.cascades == "reread"
            ):
                exit_code = UnfitServerError.exit_code if found.level == "error" else 0
                yield Finding(found.level, f"{subject}, {found.subject}", found.message, found.hint, exit_code)
            for unseen in unseen_patterns(connection, source.tables):
                yield _unseen_finding(subject, unseen, source.user)
            if source.heartbeat is not None:
                writer = HeartbeatWriter(connection, source.heartbeat.table_id, pipeline, epoch=0)
                yield examine(f"{subject}, heartbeat", writer.examine)
        if (limit := lag_limit(source)) is not None:
            late = ReplicaWatch(mysql_server(source), limit).look()
            all_near = Finding("ok", f"{subject}, replicas", f"none is more than {limit.seconds_max:g} seconds behind")
            yield all_near if late is None else replace(all_near, level="warning", message=late.message, hint=late.hint)
    except PenstockError as error:
        yield Finding("error", subject, error.message, error.hint, error.exit_code)


def lag_limit(source: MysqlSourceSpec) -> LagLimit | None:
    """Which replicas snapshots of the source wait for, and when; None for no waiting."""
    if source.max_replica_lag_seconds is None:
        return None
    return LagLimit(source.max_replica_lag_seconds, [(each.host, each.port) for each in source.replicas])


def _unseen_finding(subject: str, unseen: UnseenPattern, user: str) -> Finding:
    """A table that is named must be there; one that a wildcard means may come later, or be there without our seeing."""
    pattern = unseen.pattern
    if unseen.grant and not unseen.is_missing:
        message = (
            f"{user} may not read all of {pattern}: a table that it has no SELECT on does not show, nor is carried"
        )
        hint = f"{unseen.grant}; or name the tables one by one, with SELECT on all that their foreign keys lead to"
        return Finding("warning", f"{subject}, grant SELECT", message, hint)
    if unseen.grant:
        message = f"there is no table {pattern} that {user} may see"
        hint = f"if there is one: {unseen.grant}; else create it, or correct its name in the config"
        return Finding("error", subject, message, hint, UsageError.exit_code)
    if set(pattern) & set("*?"):
        return Finding("warning", subject, f"no table matches {pattern} yet", "create one, or correct the pattern")
    hint = "correct its name in the config, or create it"
    return Finding("error", subject, f"there is no table {pattern}", hint, UsageError.exit_code)


def require_fit_source(source: MysqlSourceSpec) -> None:
    """See capture_kind.CaptureKind.require_fit."""
    server = mysql_server(source)
    with connect(server) as connection:
        try:
            require_fit(connection, policy=source.policy)
            unseen = unseen_patterns(connection, source.tables)
        except pymysql.err.MySQLError as error:
            raise explain(error, server) from error
    missing = [each for each in unseen if each.is_missing]
    if hidden := [each.grant for each in missing if each.grant]:
        message = f"{source.name} has no table {', '.join(each.pattern for each in missing)} that {source.user} may see"
        raise UsageError(message, f"if it is there: {'; '.join(hidden)}. Else create it, or correct `tables`")
    if missing:
        message = f"{source.name} has no table {', '.join(each.pattern for each in missing)}"
        raise UsageError(message, "create it first, or correct `tables` of the source")
    for each in unseen:
        _log.warning(
            "tables may be hidden from the source's user", source=source.name, tables=each.pattern, hint=each.grant
        )
