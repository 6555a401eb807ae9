"""What `penstock status --json` prints; every key is documented in docs/status.md."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from penstock.cli.snapshot_words import describe_snapshot
from penstock.wiring.health import is_healthy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.retention import Retention
    from penstock.core.topic_policy import PolicyLook
    from penstock.ports.source_status import SourceStatus
    from penstock.ports.state import LinkProgress, TableProgress
    from penstock.wiring.health import Problem
    from penstock.wiring.pipeline_status import PipelineStatus


def describe(pipeline: str, status: PipelineStatus, problems: Sequence[Problem]) -> dict[str, object]:
    """The object that `--json` prints. Moments are Unix milliseconds; what is not known is null."""
    return {
        "pipeline": pipeline,
        "running": None if status.holder is None else bool(status.holder) or status.begins_again,
        "holder": status.holder or None,
        "now_ms": status.now_ms,
        "healthy": is_healthy(status, problems),
        "problems": [asdict(problem) for problem in problems],
        "links": [_describe_link(link, status) for link in status.links],
        "tables": [_describe_table(table, status) for table in status.tables],
        "snapshots": [describe_snapshot(snapshot) for snapshot in status.snapshots],
        "sources": [_describe_source(source) for source in status.sources],
        "audits": [asdict(each) for each in status.audits],
        "police": None if status.police is None else _describe_police(status.police),
        "servers": [asdict(server) for server in status.servers],
    }


def _describe_link(link: LinkProgress, status: PipelineStatus) -> dict[str, object]:
    return {
        "link": link.link,
        "state": link.state,
        "position": link.position,
        "lag_seconds": status.lag_seconds(link),
        "lag_bytes": link.lag_bytes,
        "lag_messages": link.lag_messages,
        "stuck_seconds": status.stuck_seconds(link),
        "moved_at_ms": link.moved_at_ms or None,
        "updated_at_ms": link.updated_at_ms,
        "age_seconds": max(0.0, (status.now_ms - link.updated_at_ms) / 1000),
        "error": link.error or None,
        "hint": link.hint or None,
        "failures": link.failures,
        "failed_at_ms": link.failed_at_ms or None,
        "failure": link.failure or None,
        "dead_letters": link.dead_letters,
    }


def _describe_table(table: TableProgress, status: PipelineStatus) -> dict[str, object]:
    request = status.request(table.link, table.table)
    return {
        "link": table.link,
        "table": table.table,
        "rows": table.rows,
        "newest_change_ms": table.last_timestamp_ms or None,
        "lag_seconds": status.table_lag_seconds(table),
        "stopped": bool(table.error),
        "stopped_at_ms": table.stopped_at_ms or None,
        "paused": request is not None and request.pauses,
        "dropped": request is not None and request.has_dropped,
        "skipped": status.skipped.get((table.link, table.table), 0),
        "request": None if request is None else asdict(request),
        "updated_at_ms": table.updated_at_ms,
        "error": table.error or None,
        "hint": table.hint or None,
    }


def _describe_source(source: SourceStatus) -> dict[str, object]:
    return {
        "source": source.source,
        "position": None if source.position is None else str(source.position),
        "log_end": None if source.head is None else str(source.head),
        "lag_bytes": source.lag_bytes,
        "oldest_ahead_ms": source.oldest_ahead_ms or None,
        "retention": None if source.retention is None else _describe_retention(source.retention),
        "unanswered": source.unanswered or None,
    }


def _describe_police(look: PolicyLook) -> dict[str, object]:
    return {"looked_at_ms": look.at_ms, **asdict(look.report)}


def _describe_retention(retention: Retention) -> dict[str, object]:
    return {
        "level": retention.level,
        "oldest_file": retention.oldest_file,
        "needed_file": retention.needed_file,
        "newest_file": retention.newest_file,
        "files": retention.files,
        "bytes": retention.size_bytes,
        "files_before": retention.files_before,
        "expire_seconds": retention.expire_seconds,
        "seconds_left": retention.seconds_left,
    }
