"""A pipeline's metrics, from its overview. docs/monitoring.md has a table of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.topic_policy import OUTCOMES
from penstock.web.exposition import Family, render_metrics
from penstock.wiring.snapshot_progress import seconds_left, share_done, state_word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.wiring.overview import Overview


def describe_metrics(overview: Overview) -> str:
    """Write all metrics of `overview` as Prometheus reads them."""
    families = [
        *_pipeline_families(overview),
        *_link_families(overview),
        *_table_families(overview),
        *_source_families(overview),
        *_audit_families(overview),
        *_snapshot_families(overview),
        *_police_families(overview),
        *_server_families(overview),
    ]
    return render_metrics(families, {"pipeline": overview.pipeline})


def describe_staleness(pipeline: str, read_at_ms: int) -> str:
    """Write when the state database was read last, 0 for never, and nothing that may be otherwise by now."""
    return render_metrics([_read_at(read_at_ms)], {"pipeline": pipeline})


def _read_at(unix_ms: int) -> Family:
    read = Family("penstock_snapshot_timestamp_seconds", "gauge", "When the state database was read for these metrics.")
    read.add(unix_ms / 1000)
    return read


def _pipeline_families(overview: Overview) -> Sequence[Family]:
    running = Family("penstock_running", "gauge", "1 if an instance holds the pipeline's lock, 0 if nobody does.")
    running.add(None if overview.status.holder is None else float(overview.is_running))
    healthy = Family("penstock_healthy", "gauge", "1 if all is well, as penstock status says it.")
    healthy.add(float(overview.is_healthy))
    problems = Family("penstock_problems", "gauge", "What is not well, by level.")
    for level in ("warning", "error"):
        problems.add(sum(problem.level == level for problem in overview.problems), level=level)
    return running, healthy, problems, _read_at(overview.status.now_ms)


def _link_families(overview: Overview) -> Sequence[Family]:
    up = Family("penstock_link_up", "gauge", "1 if the link runs, 0 if it waits, failed or is stopped.")
    lag = Family("penstock_link_lag_seconds", "gauge", "Age of the oldest change that the link has not carried.")
    stuck = Family("penstock_link_stuck_seconds", "gauge", "How long the link has not moved with changes ahead of it.")
    backlog_bytes = Family("penstock_link_backlog_bytes", "gauge", "Bytes of the link's log ahead of it.")
    messages = Family("penstock_link_backlog_messages", "gauge", "Messages ahead of the link.")
    failures = Family("penstock_link_failures_total", "counter", "How often the link failed since the run began.")
    letters = Family("penstock_dead_letters_total", "counter", "Messages that a spolt or a join could not process.")
    updated = Family("penstock_link_updated_timestamp_seconds", "gauge", "When the link was last measured.")
    for stage in overview.stages:
        labels = {"link": stage.name, "kind": stage.kind}
        up.add(float(stage.state == "running"), **labels)
        if (progress := stage.progress) is None:
            continue
        lag.add(stage.lag_seconds, **labels)
        stuck.add(stage.stuck_seconds, **labels)
        backlog_bytes.add(progress.lag_bytes, **labels)
        messages.add(progress.lag_messages, **labels)
        failures.add(progress.failures, **labels)
        letters.add(progress.dead_letters, **labels)
        updated.add(progress.updated_at_ms / 1000, **labels)
    return up, lag, stuck, backlog_bytes, messages, failures, letters, updated


def _table_families(overview: Overview) -> Sequence[Family]:
    rows = Family("penstock_table_rows_total", "counter", "Rows of a table that a link has carried.")
    lag = Family("penstock_table_lag_seconds", "gauge", "Age of the oldest change of a table not carried by a link.")
    stopped = Family("penstock_table_stopped", "gauge", "1 if a link stopped the table.")
    paused = Family("penstock_table_paused", "gauge", "1 if somebody lets the table wait at a link.")
    dropped = Family("penstock_table_dropped", "gauge", "1 if somebody has dropped the table from a link's target.")
    skipped = Family("penstock_table_skipped_total", "counter", "Changes of a table that were skipped.")
    for row in overview.tables:
        for link, cell in row.cells.items():
            labels = {"link": link, "table": row.table}
            rows.add(cell.progress.rows, **labels)
            lag.add(cell.lag_seconds, **labels)
            stopped.add(float(cell.is_stopped), **labels)
            paused.add(float(cell.is_paused), **labels)
            dropped.add(float(cell.is_dropped), **labels)
            skipped.add(cell.skipped, **labels)
    return rows, lag, stopped, paused, dropped, skipped


def _source_families(overview: Overview) -> Sequence[Family]:
    up = Family("penstock_source_up", "gauge", "1 if the source answers.")
    left = Family("penstock_source_retention_seconds", "gauge", "Time until log that is needed may be purged.")
    size = Family("penstock_source_log_bytes", "gauge", "Bytes of log that the source keeps.")
    ahead = Family("penstock_source_lag_bytes", "gauge", "Bytes of the source's log ahead of the pipeline's position.")
    level = Family(
        "penstock_source_retention_level", "gauge", "0 where the log is kept, 1 a warning, 2 where it is gone."
    )
    for source in overview.status.sources:
        up.add(float(not source.unanswered), source=source.source)
        ahead.add(source.lag_bytes, source=source.source)
        if source.retention is not None:
            level.add(("ok", "warning", "error").index(source.retention.level), source=source.source)
            gone = source.retention.level == "error"
            left.add(0.0 if gone else source.retention.seconds_left, source=source.source)
            size.add(source.retention.size_bytes, source=source.source)
    return up, left, size, ahead, level


def _audit_families(overview: Overview) -> Sequence[Family]:
    """One series for each table; those without the label `table`'s value are of the audit as a whole."""
    score = Family("penstock_audit_score", "gauge", "How equal target and source are, from 0 to 1.")
    lower = Family("penstock_audit_score_lower", "gauge", "The lower bound of the score.")
    upper = Family("penstock_audit_score_upper", "gauge", "The upper bound of the score.")
    below = Family(
        "penstock_audit_below_threshold", "gauge", "1 if the score is below the threshold, or a stage differs."
    )
    wrong = Family("penstock_audit_wrong_rows", "gauge", "Rows that differ.")
    missed = Family(
        "penstock_audit_columns_not_compared", "gauge", "Columns that the file does not leave out, and are."
    )
    began = Family("penstock_audit_timestamp_seconds", "gauge", "When the audit began.")
    for each in overview.status.audits:
        labels = {"audit": each.audit, "table": each.table}
        score.add(each.score, **labels)
        lower.add(each.lower, **labels)
        upper.add(each.upper, **labels)
        below.add(None if each.score is None else float(each.is_below), **labels)
        wrong.add(None if each.score is None else each.wrong_rows, **labels)
        missed.add(each.not_compared, **labels)
        began.add(each.began_at_ms / 1000, **labels)
    return score, lower, upper, below, wrong, missed, began


def _snapshot_families(overview: Overview) -> Sequence[Family]:
    """The newest snapshot of each table that had one. A share and a time that nobody knows have no value."""
    rows = Family("penstock_table_snapshot_rows", "gauge", "Rows that the table's newest snapshot has read.")
    share = Family("penstock_table_snapshot_done_ratio", "gauge", "Which part of its rows the snapshot has read.")
    left = Family("penstock_table_snapshot_left_seconds", "gauge", "About how long the snapshot still takes.")
    state = Family("penstock_table_snapshot_state", "gauge", "1, with how the snapshot is.")
    for each in overview.status.snapshots:
        labels = {"source": each.source, "table": each.table}
        rows.add(each.rows, **labels)
        share.add(share_done(each), **labels)
        left.add(seconds_left(each), **labels)
        state.add(1, **labels, state=state_word(each))
    return rows, share, left, state


def _police_families(overview: Overview) -> Sequence[Family]:
    topics = Family("penstock_police_topics", "gauge", "Topics that police looked at.")
    findings = Family("penstock_police_findings", "gauge", "Settings not as their rules say, by what became of them.")
    looked = Family("penstock_police_timestamp_seconds", "gauge", "When police looked last.")
    if (look := overview.status.police) is not None:
        topics.add(look.report.topics)
        looked.add(look.at_ms / 1000)
        for outcome in OUTCOMES:
            findings.add(look.report.count(outcome), outcome=outcome)
    return topics, findings, looked


def _server_families(overview: Overview) -> Sequence[Family]:
    up = Family("penstock_server_up", "gauge", "1 if the embedded server runs.")
    restarts = Family("penstock_server_restarts_total", "counter", "How often this run has started it again.")
    for server in overview.status.servers:
        up.add(float(server.state == "running"), server=server.server)
        restarts.add(server.restarts, server=server.server)
    return up, restarts
