"""A file's audits by name, what is kept of their results, and who is told."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from penstock.adapters.state.audit_results import open_audit_results
from penstock.adapters.webhook.send import send
from penstock.config.audits import AuditSpec
from penstock.config.places import state_url
from penstock.config.secrets import secret
from penstock.core.errors import UnavailableError, UsageError
from penstock.ports.audit_results import WHOLE, AuditResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.adapters.state.audit_results import SqlAuditResults
    from penstock.config.specs import PipelineSpec
    from penstock.core.audit.findings import TableFindings
    from penstock.core.audit.report import AuditReport
    from penstock.core.audit.scores import Score

_TOLD_TABLES = 20


def open_results(spec: PipelineSpec) -> SqlAuditResults:
    """What is remembered of the pipeline's audits."""
    return open_audit_results(state_url(spec), spec.pipeline)


def last_reached(spec: PipelineSpec, name: str, audit: AuditSpec) -> Mapping[str, int]:
    """See AuditResults, of an audit whose time may be over before its last table; of others nobody asks.

    Nothing is known while the state database is away: an audit does without.
    """
    if audit.seconds_max is None:
        return {}
    try:
        with closing(open_results(spec)) as results:
            return results.last_reached(name)
    except UnavailableError:
        return {}


def named_audits(spec: PipelineSpec) -> Mapping[str, AuditSpec]:
    """The file's audits, by the link that each looks at; of a file without any, one of every link from a source.

    Of several audits of a link, those behind the first have a number behind the name.
    """
    sources = {source.name for source in spec.sources}
    loose = [AuditSpec(source=link.source, sink=link.sink) for link in spec.links if link.source in sources]
    audits = spec.audits or loose
    named: dict[str, AuditSpec] = {}
    for audit in audits:
        ends = (audit.source, audit.sink)
        link = next((each.name for each in spec.links if (each.source, each.sink) == ends), "-to-".join(ends))
        number = sum((each.source, each.sink) == ends for each in named.values())
        named[f"{link} ({number + 1})" if number else link] = audit
    return named


def require_audits(spec: PipelineSpec) -> Mapping[str, AuditSpec]:
    """Return `named_audits`. UsageError for none."""
    named = named_audits(spec)
    if not named:
        message = f"pipeline {spec.pipeline} has no link from a source to a sink"
        raise UsageError(message, "add one under `links`, and audit when it has run")
    return named


def overdue_audits(
    audits: Mapping[str, AuditSpec], newest: Sequence[AuditResult], running_since_ms: int, now_ms: int
) -> Sequence[str]:
    """Name the audits with a period that began none for two periods of a run that lasts that long."""
    last = {each.audit: each.began_at_ms for each in newest if each.table == WHOLE}
    return [
        name
        for name, audit in audits.items()
        if audit.every and now_ms - max(last.get(name, 0), running_since_ms) > 2000 * audit.every
    ]


def results_of(name: str, report: AuditReport) -> Sequence[AuditResult]:
    """What is kept of `report`, the audit as a whole first."""
    tables = [_result(name, report, table) for table in report.tables]
    unknown = "unfinished" if report.is_only_unfinished else "unknown"
    is_below = bool(report.below or report.wrong_between)
    state = "below" if is_below else unknown if report.unknown else "passed"
    whole = AuditResult(
        name,
        WHOLE,
        report.began_at_ms,
        state,
        *_bounds(report.score),
        threshold=report.threshold,
        is_below=is_below,
        partitions=sum(each.partitions for each in tables),
        unequal=sum(each.unequal for each in tables),
        rows=sum(each.rows for each in tables),
        wrong_rows=sum(each.wrong_rows for each in tables),
        seconds=report.seconds,
        not_compared=sum(each.not_compared for each in tables),
    )
    return [whole, *tables]


def send_alert(audit: AuditSpec, name: str, report: AuditReport) -> None:
    """Tell the audit's webhook which tables are below the threshold; no row is told. Raises UnavailableError."""
    if audit.webhook_env is None or not report.below:
        return
    send(secret(audit.webhook_env), alert(name, report))


def alert(name: str, report: AuditReport) -> Mapping[str, object]:
    """What a webhook is told of `report`. Chats show `text`; keys are never renamed."""
    tables = [_result(name, report, table) for table in report.below]
    shown = ", ".join(f"{each.table} {each.score:.6g}" for each in tables[:_TOLD_TABLES])
    more = f" and {len(tables) - _TOLD_TABLES} more" if len(tables) > _TOLD_TABLES else ""
    return {
        "text": f"{report.pipeline}: {report.sink} differs from {report.source}: {shown}{more} "
        f"(threshold {report.threshold:.6g}); see penstock audit FILE",
        "pipeline": report.pipeline,
        "audit": name,
        "source": report.source,
        "sink": report.sink,
        "threshold": report.threshold,
        "began_at_ms": report.began_at_ms,
        **dict(zip(("score", "lower", "upper"), _bounds(report.score), strict=True)),
        "tables": [
            {
                "table": each.table,
                "score": each.score,
                "lower": each.lower,
                "upper": each.upper,
                "divergent_rows": each.wrong_rows,
                "columns_not_compared": each.not_compared,
                "why": each.why,
            }
            for each in tables
        ],
    }


def _result(name: str, report: AuditReport, table: TableFindings) -> AuditResult:
    return AuditResult(
        name,
        table.table,
        report.began_at_ms,
        table.state,
        *_bounds(table.score),
        threshold=report.threshold,
        is_below=table in report.below or table in report.wrong_between,
        partitions=table.equal + table.unequal,
        unequal=table.unequal,
        rows=table.source_rows,
        wrong_rows=table.wrong_rows,
        seconds=table.seconds,
        why=table.note,
        not_compared=table.columns_missed,
    )


def _bounds(score: Score | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if score is None else (score.score, score.lower, score.upper)
