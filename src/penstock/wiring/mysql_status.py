"""How far the log of a MySQL source reaches, ahead of a position and back."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from penstock.adapters.mysql.connection import connect
from penstock.adapters.mysql.continuity import require_known
from penstock.adapters.mysql.history import head
from penstock.adapters.mysql.log_coverage import examine_coverage
from penstock.adapters.mysql.retention import oldest_ahead_ms, read_kept_log
from penstock.core.errors import LogError, PositionError
from penstock.core.mysql.log.retention import judge_retention
from penstock.core.positions import binlog_position, bytes_between
from penstock.ports.source_status import SourceStatus
from penstock.wiring.open import mysql_server

if TYPE_CHECKING:
    from penstock.config.mysql_source import MysqlSourceSpec
    from penstock.core.positions import Position


def read_source_status(source: MysqlSourceSpec, position: Position | None) -> SourceStatus:
    """See capture_kind.CaptureKind.standing."""
    server, place = mysql_server(source), None if position is None else binlog_position(position)
    with closing(connect(server)) as connection:
        end = head(connection)
        found = examine_coverage(connection, source.patterns.matches)
        incomplete = tuple((f"{each.subject}: {each.message}", each.hint) for each in found if each.level != "ok")
        if place is None:
            return SourceStatus(source.name, None, end, incomplete=incomplete)
        kept = read_kept_log(connection, server, place)
        retention = judge_retention(place, kept, _now_ms(), source.retention_warning_hours * 3600)
        if retention.level == "error":
            return SourceStatus(source.name, place, end, retention=retention, incomplete=incomplete)
        try:
            require_known(connection, place)
        except (LogError, PositionError) as error:
            told = error.message, error.hint, incomplete
            return SourceStatus(source.name, place, end, None, None, None, *told)
        behind = bytes_between(place, end, kept.files)
    oldest = oldest_ahead_ms(server, place) if behind else 0
    return SourceStatus(source.name, place, end, behind, oldest, retention, incomplete=incomplete)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
