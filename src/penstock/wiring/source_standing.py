"""What a source itself says of a pipeline's standing: how far its log reaches, ahead and back."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from penstock.adapters.mysql.connection import connect
from penstock.adapters.mysql.continuity import require_known
from penstock.adapters.mysql.history import head
from penstock.adapters.mysql.retention import oldest_ahead_ms, read_kept_log
from penstock.config.postgres_source import PostgresSourceSpec
from penstock.core.errors import LogError, PenstockError, PositionError
from penstock.core.mysql.retention import judge_retention
from penstock.core.positions import binlog_position, bytes_between
from penstock.wiring.open import mysql_server, mysql_source

if TYPE_CHECKING:
    from penstock.config.specs import SourceSpec
    from penstock.core.mysql.retention import Retention
    from penstock.core.positions import Position

_log = structlog.get_logger()

_LOOK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class SourceStanding:
    """How far a source's log reaches behind and ahead of `position`, None before the first start.

    `oldest_ahead_ms` is when the first change that was not carried yet was logged, 0 if
    there is none. All is None that could not be asked: `unanswered` says why then,
    and `hint` what to do.
    """

    source: str
    position: Position | None
    head: Position | None = None
    lag_bytes: int | None = None
    oldest_ahead_ms: int | None = None
    retention: Retention | None = None
    unanswered: str = ""
    hint: str = ""


def ask_source(source: SourceSpec, position: Position | None) -> SourceStanding:
    """Ask the source. Never raises for one that is away or refuses us."""
    try:
        return _ask(source, position)
    except PenstockError as error:
        return SourceStanding(source.name, position, unanswered=error.message, hint=error.hint)


def _ask(source: SourceSpec, position: Position | None) -> SourceStanding:
    if isinstance(source, PostgresSourceSpec):
        from penstock.wiring.postgres_checks import ask_postgres  # noqa: PLC0415 - see wiring/capture_kinds.py

        return ask_postgres(source, position)
    server, place = mysql_server(source), None if position is None else binlog_position(position)
    with closing(connect(server)) as connection:
        end = head(connection)
        if place is None:
            return SourceStanding(source.name, None, end)
        kept = read_kept_log(connection, server, place)
        retention = judge_retention(place, kept, _now_ms(), mysql_source(source).retention_warning_hours * 3600)
        if retention.level == "error":
            return SourceStanding(source.name, place, end, retention=retention)
        try:
            require_known(connection, place)
        except (LogError, PositionError) as error:
            return SourceStanding(source.name, place, end, unanswered=error.message, hint=error.hint)
        behind = bytes_between(place, end, kept.files)
    oldest = oldest_ahead_ms(server, place) if behind else 0
    return SourceStanding(source.name, place, end, behind, oldest, retention)


class RetentionWatch:
    """Looks once a minute whether the source still has the log that we need, and says so where it is not well."""

    def __init__(self, source: SourceSpec) -> None:
        """Look at once when first asked."""
        self._source = source
        self._looked_at = -_LOOK_SECONDS
        self._told = ""

    def look(self, position: Position | None) -> None:
        """Look if it is time, whether the log is there from `position`, None before the first start.

        A log line for each change for the worse; the source being away is told elsewhere.
        """
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        retention = ask_source(self._source, position).retention
        text = "" if retention is None else retention.level + retention.needed_file
        if retention is not None and retention.level != "ok" and text != self._told:
            _log.warning("binlog retention", source=self._source.name, warning=retention.text, hint=retention.hint)
        self._told = text


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
