"""What is not well with a pipeline, and what to do about it, told from where it stands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from penstock.core.commands import has_command, name_file, shell_word
from penstock.core.snapshots import Status
from penstock.ports.audit_results import NO_RESULT, NOT_REACHED, WHOLE
from penstock.ports.state import LACKS_ROWS, TRIED_AGAIN
from penstock.wiring.pipeline_status import SILENT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.topic_policy import PolicyLook
    from penstock.ports.audit_results import AuditResult
    from penstock.ports.history import ServerCondition
    from penstock.ports.snapshots import Snapshot
    from penstock.ports.source_status import SourceStatus
    from penstock.ports.state import LinkProgress
    from penstock.wiring.pipeline_status import PipelineStatus
    from penstock.wiring.zone_status import ZoneStatus

STUCK_SECONDS = 120.0
"""Longer than a link waits before it tries again."""

_UNSEEN_SECONDS = 1200.0
"""Longer than a piece of an initial snapshot may take until it is committed, of which nothing is seen before."""

_START_SECONDS = 300.0
"""Longer than a run waits for its servers before it gives up."""

_HOUR_SECONDS = 3600
_NEW_PIPELINE = "new pipeline"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not well. `subject` is a link, a table of a link, a source, a topic or the pipeline."""

    level: Literal["warning", "error"]
    subject: str
    text: str
    hint: str


def find_problems(status: PipelineStatus, file: str) -> Sequence[Problem]:
    """List what is not well, the worst first; `file` is the pipeline's, which commands in hints name."""
    run_command = f"penstock run {shell_word(file)}"
    found = [
        *_holder_problems(status, run_command),
        *_server_problems(status.servers),
        *_source_problems(status.sources),
        *_zone_problems(status.zones),
        *_link_problems(status, run_command),
        *_table_problems(status, run_command),
        *_request_problems(status),
        *_snapshot_problems(status),
        *_audit_problems(status),
        *_police_problems(status),
    ]
    return sorted((_to_type(each, file, status) for each in found), key=lambda problem: problem.level)


def _to_type(problem: Problem, file: str, status: PipelineStatus) -> Problem:
    """Write into the commands of a hint which file and table they are for."""
    # No link has a comma in its name, and a table may.
    link, _, table = problem.subject.partition(", ")
    source = status.sources_to_name.get((link, table), "")
    hint, text = (name_file(each, file, table or "TABLE", source) for each in (problem.hint, problem.text))
    return replace(problem, hint=hint, text=text)


def is_healthy(status: PipelineStatus, problems: Sequence[Problem]) -> bool:
    """Whether all is well: somebody runs the pipeline, every link goes on, no target lacks a table's rows.

    What could not be asked is not well.
    """
    return (
        bool(status.holder)
        and bool(status.links)
        and not status.left_out
        and all(link.state == "running" for link in status.links)
        and all(server.state == "running" for server in status.servers)
        and not any(source.unanswered for source in status.sources)
        and not any(zone.unanswered for zone in status.zones)
        and not any(problem.level == "error" for problem in problems)
        and not _lacking(status)
    )


def _lacking(status: PipelineStatus) -> set[tuple[str, str]]:
    """The links and tables whose targets lack rows that snapshots for one link bring: those wait, or are under way."""
    waiting = {(each.link, each.table) for each in status.tables if not each.error and LACKS_ROWS in each.hint}
    return waiting | {(each.options.link, each.table) for each in status.snapshots if _fills_link(each, status)}


def _fills_link(snapshot: Snapshot, status: PipelineStatus) -> bool:
    return snapshot.options.link in status.loading and not snapshot.status.has_ended


def _server_problems(servers: Sequence[ServerCondition]) -> Iterator[Problem]:
    for server in servers:
        if server.state == "down" or (server.state == "starting" and server.restarts):
            times = server.restarts + (server.state == "down")
            text = f"it died, and is being started again (time {times} of this run)"
            hint = "wait some seconds; if it comes back again and again, read its log below the pipeline's home"
            yield Problem("error", server.server, text, hint)


def _holder_problems(status: PipelineStatus, run_command: str) -> Iterator[Problem]:
    if status.stranger is not None:
        yield Problem("error", "pipeline", *status.stranger)
    if status.holder is None:
        text = f"whether the pipeline runs is not known: {status.unanswered}"
        yield Problem("warning", "pipeline", text, status.unanswered_hint)
    silent = status.silent_seconds
    if silent is None or status.spark_is_away:
        # Without Spark no link gives a sign of life; that it is being started again is told as its own problem.
        return
    if status.holder == "":
        text = f"it was killed, or its machine went down: its last sign of life is {_duration(silent)} old"
        yield Problem("error", "pipeline", text, f"nothing is lost; type: {run_command}")
    elif silent > SILENT_SECONDS and status.is_starting:
        text = f"it was started {_duration(silent)} ago, and none of its links runs so far"
        hint = "see its log: it may wait for a server; if it says nothing new, kill it and start it again"
        yield Problem("error" if silent > _START_SECONDS else "warning", "pipeline", text, f"{hint}: {run_command}")
    elif silent > SILENT_SECONDS:
        text = f"its last sign of life is {_duration(silent)} old, although somebody holds its lock"
        hint = "its process hangs, or does not reach Kafka or the state database: see its log; kill it and start it"
        yield Problem("error", "pipeline", text, f"{hint} again: {run_command}")


def _source_problems(sources: Sequence[SourceStatus]) -> Iterator[Problem]:
    for source in sources:
        if source.unanswered:
            text = f"could not be asked how far its log reaches: {source.unanswered}"
            yield Problem("warning", source.source, text, source.hint)
        for text, hint in source.incomplete:
            yield Problem("warning", source.source, f"its log may lack changes: {text}", hint)
        if source.retention is not None and source.retention.level != "ok":
            yield Problem(source.retention.level, source.source, source.retention.text, source.retention.hint)


def _zone_problems(zones: Sequence[ZoneStatus]) -> Iterator[Problem]:
    for zone in zones:
        if zone.unanswered:
            text = f"could not be asked how its tasks and streams are: {zone.unanswered}"
            yield Problem("warning", zone.link, text, zone.hint)
        for trouble in zone.troubles:
            yield Problem(trouble.level, f"{zone.link}, {trouble.table}", trouble.text, trouble.hint)


def _link_problems(status: PipelineStatus, run_command: str) -> Iterator[Problem]:
    left_out = status.left_out if _has_settled(status) else ()
    for name in left_out:
        text = "this run does not run it: it came into the file later, or the run was started with --only"
        yield Problem("error", name, text, _restart(status, run_command))
    for link in status.links:
        if link.link in left_out:
            continue
        if link.hint and not link.error:
            yield Problem("warning", link.link, "a value may come to the target as it is", link.hint)
        if link.error:
            level: Literal["warning", "error"] = "warning" if link.state == "retrying" else "error"
            retried = link.state == "retrying"
            hint = _then(link.hint, status, _restart(status, run_command), retried=retried)
            yield Problem(level, link.link, link.error, hint)
        elif status.holder == "" and link.behind_since_ms:
            text = f"not running; {_ahead(link)}"
            yield Problem("warning", link.link, text, f"type: {run_command}")
        elif (stuck := status.stuck_seconds(link)) and stuck > _patience_seconds(link):
            text = f"has not moved for {_duration(stuck)}; {_ahead(link)}"
            yield Problem("warning", link.link, text, "see the log; a large transaction or a slow target takes long")


def _has_settled(status: PipelineStatus) -> bool:
    """Whether a run is under way that has had the time to write down which links it runs."""
    silent = status.silent_seconds
    is_written = silent is not None and silent <= SILENT_SECONDS
    return bool(status.holder) and is_written and status.now_ms - status.run_began_ms > SILENT_SECONDS * 1000


def _table_problems(status: PipelineStatus, run_command: str) -> Iterator[Problem]:
    for table in status.tables:
        if table.error:
            resumes = _may_run(status) and table.link in status.loading
            way = "type: penstock table FILE TABLE resume" if resumes else _restart(status, run_command)
            hint = _then(table.hint, status, way, retried=TRIED_AGAIN in table.error + table.hint)
            yield Problem("error", f"{table.link}, {table.table}", table.error, hint)
        elif status.catches_up(table):
            lacks = _duration((status.now_ms - table.stopped_at_ms) / 1000)
            text = f"it catches up: it waited, and may lack changes of the last {lacks}"
            hint = "it goes on by itself" if _may_run(status) else f"type: {run_command}"
            yield Problem("warning", f"{table.link}, {table.table}", text, hint)
    noted = {(each.link, each.table): each.hint for each in status.tables if not each.error}
    for link, name in sorted(_lacking(status)):
        told = noted.get((link, name), "")
        text = told if LACKS_ROWS in told else f"{LACKS_ROWS} until its snapshot for this link is whole"
        hint = "it goes on by itself when that snapshot is whole" if _may_run(status) else f"type: {run_command}"
        yield Problem("warning", f"{link}, {name}", text, hint)


def _request_problems(status: PipelineStatus) -> Iterator[Problem]:
    """Tables that somebody has let wait or dropped: that is no fault, and nobody is to forget it."""
    for each in status.requests:
        subject, age = f"{each.link}, {each.table}", _duration((status.now_ms - each.asked_at_ms) / 1000)
        if each.has_dropped:
            text = f"it is not loaded any more: {each.asked_by} dropped it {age} ago"
            way = f"penstock snapshot FILE {shell_word(each.table)} --full-refresh --link {each.link}"
            hint = f"bring it back: {way}; or leave it out of the link"
            yield Problem("warning", subject, text, hint)
        elif each.pauses:
            text = f"it waits: {each.asked_by} paused it {age} ago; files are kept from there on"
            hint = f"let it go on: penstock table FILE {shell_word(each.table)} resume --link {each.link}"
            yield Problem("warning", subject, text, hint)
        elif each.is_open and status.holder and status.now_ms - each.asked_at_ms > SILENT_SECONDS * 1000:
            text = f"{each.asked_by} asked {age} ago to {each.action} it, and that is not done"
            yield Problem("warning", subject, text, "see the log of the link; a load that is under way ends first")


def _snapshot_problems(status: PipelineStatus) -> Iterator[Problem]:
    for snapshot in status.snapshots:
        if _is_nobodys(snapshot, status):
            yield Problem("warning", f"{snapshot.source}, {snapshot.table}", *_nobodys_words(snapshot))
        elif snapshot.error and snapshot.status is not Status.CANCELLED:
            fate = "failed" if snapshot.status.has_ended else "waits, and is tried again"
            text = f"its snapshot {fate}: {snapshot.error}"
            yield Problem("warning", f"{snapshot.source}, {snapshot.table}", text, _snapshot_hint(snapshot))
        elif snapshot.status is Status.PAUSED:
            text = f"its snapshot is paused at {snapshot.rows:,} rows"
            hint = f"let it go on: penstock snapshot FILE {shell_word(snapshot.table)} --resume"
            yield Problem("warning", f"{snapshot.source}, {snapshot.table}", text, hint)


def _is_nobodys(snapshot: Snapshot, status: PipelineStatus) -> bool:
    """Whether it is for a link that the file does not have, and is under way, or broke off and nobody let it be."""
    link, is_let_be = snapshot.options.link, snapshot.status is Status.CANCELLED and not snapshot.error
    return bool(link) and link not in status.loading and snapshot.status is not Status.DONE and not is_let_be


def _nobodys_words(snapshot: Snapshot) -> tuple[str, str]:
    link, typed = snapshot.options.link, shell_word(snapshot.table)
    how = ""
    if snapshot.status.has_ended:
        how = " and failed" if snapshot.status is Status.FAILED else " and was cancelled"
    text = (
        f"its snapshot is for {link}{how}, and the file has no such link: "
        "a target that it was to fill may have a part of it"
    )
    again = f"penstock snapshot FILE {typed} --full-refresh --link LINK, with the link that loads that target now"
    no_more = "let it be" if snapshot.status.has_ended else "end it"
    return text, f"fill the table in its place: {again}; or {no_more}: penstock snapshot FILE {typed} --cancel"


def _snapshot_hint(snapshot: Snapshot) -> str:
    if not snapshot.status.has_ended:
        return snapshot.hint
    mend = f"{snapshot.hint}; then take" if snapshot.hint else "take"
    again = f" --full-refresh --link {snapshot.options.link}" if snapshot.options.link else ""
    return (
        f"{mend} another one: penstock snapshot FILE {shell_word(snapshot.table)}{again}; "
        f"or let it be: penstock snapshot FILE {shell_word(snapshot.table)} --cancel"
    )


def _audit_problems(status: PipelineStatus) -> Iterator[Problem]:
    """What audits found, and audits that found nothing out: of what they would tell, nobody knows."""
    for name in status.overdue_audits:
        text = "no audit has ended for more than twice as long as its `every`"
        yield Problem("warning", name, text, "see the log; audit it now: penstock audit FILE")
    for each in status.audits:
        subject = each.audit if each.table == WHOLE else f"{each.audit}, {each.table}"
        if each.table != WHOLE and each.is_below:
            what, hint, since = "the target differs from the source", _repair_hint(each, status), ""
            if each.state in NO_RESULT:
                since = f"; since then an audit came to no result: {each.why}"
            elif each.state != "different":
                # A stage before the target differs: `why` says which.
                what, hint = each.why, "see what differs there, or whether it still does: penstock audit FILE --stages"
            yield Problem("error", subject, f"{what}: {audit_words(each, status)}{since}", hint)
        elif each.state == "failed":
            hint = "put that right, then audit again: penstock audit FILE"
            yield Problem("error", subject, f"its audit failed, so nobody knows whether it is right: {each.why}", hint)
        elif each.state == "lagging":
            hint = "see what the target waits for: penstock status FILE; then audit again: penstock audit FILE"
            yield Problem("warning", subject, f"its last audit came to no result: {each.why}", hint)
        elif each.state == NOT_REACHED:
            hint = "the next run begins with it; give the audit more `seconds_max` if that is too late"
            yield Problem("warning", subject, f"its last audit came to no result: {each.why}", hint)
        elif each.table == WHOLE and each.why:
            yield Problem("warning", subject, each.why, "audit again when that is put right: penstock audit FILE")


def _repair_hint(found: AuditResult, status: PipelineStatus) -> str:
    """What to do about rows that differ: wait, where somebody has asked for them since the audit began."""
    asked = [each for each in status.snapshots if each.table == found.table and each.options.keys]
    newest = max(asked, key=lambda each: each.requested_at_ms, default=None)
    if (
        newest is None
        or newest.requested_at_ms < found.began_at_ms
        or newest.status in {Status.FAILED, Status.CANCELLED}
    ):
        return "see the rows: penstock audit FILE; have them published again: penstock audit FILE --repair"
    if newest.status.has_ended:
        return "its rows have been read again since; see whether they are right now: penstock audit FILE"
    begun = "is under way" if _may_run(status) else "waits for the next run, which carries it out: penstock run FILE"
    return f"the repair of {len(newest.options.keys)} rows {begun}; then audit again: penstock audit FILE"


def _police_problems(status: PipelineStatus) -> Iterator[Problem]:
    """Topics that are not kept as the file says."""
    if status.police_is_overdue:
        text = "nobody has looked how topics are kept for more than twice as long as its `every`"
        yield Problem("warning", "police", text, "see the log; look now: penstock police FILE")
    for each in () if status.police is None else status.police.report.findings:
        if each.outcome == "drift":
            yield Problem("warning", f"topic {each.topic}", each.text, "set it: penstock police FILE --apply")
        elif each.outcome == "refused":
            yield Problem("warning", f"topic {each.topic}", each.text, each.hint)


def police_words(look: PolicyLook, now_ms: int) -> str:
    """What the newest look at topics has found, in a line."""
    report = look.report
    counts = {"set": report.count("set"), "to set": report.count("drift"), "cannot be set": report.count("refused")}
    told = ", ".join(f"{count} {words}" for words, count in counts.items() if count)
    without = f", {len(report.without_rule)} without a rule" if report.without_rule else ""
    age = _duration(max(0.0, (now_ms - look.at_ms) / 1000))
    return f"{report.topics} topics looked at {age} ago: {told or 'all as their rules say'}{without}"


def audit_words(result: AuditResult, status: PipelineStatus) -> str:
    """Say a score with its bounds, and how old it is."""
    age = _duration(max(0.0, (status.now_ms - result.began_at_ms) / 1000))
    score = "?" if result.score is None else f"{result.score:.6g} ({result.lower:.6g} to {result.upper:.6g})"
    return f"score {score}, {result.wrong_rows:,} wrong rows, threshold {result.threshold:.6g}, {age} ago"


def _then(hint: str, status: PipelineStatus, restart: str, *, retried: bool) -> str:
    """Add how it goes on behind what the hint says, unless what helps is a command, or may be another pipeline."""
    if _NEW_PIPELINE in hint or (_may_run(status) and has_command(hint)):
        return hint
    mended = hint.removesuffix(", and run again")
    return f"{mended}; then it goes on by itself" if _may_run(status) and retried else f"{mended}; then {restart}"


def _restart(status: PipelineStatus, run_command: str) -> str:
    return f"stop the pipeline and type: {run_command}" if _may_run(status) else f"type: {run_command}"


def _may_run(status: PipelineStatus) -> bool:
    """Whether nobody is to be told to start it: somebody runs it, or nobody knows."""
    return status.holder != ""


def _patience_seconds(link: LinkProgress) -> float:
    return _UNSEEN_SECONDS if link.is_under_way else STUCK_SECONDS


def _ahead(link: LinkProgress) -> str:
    if link.is_under_way:
        return f"it stands at: {link.position}" if link.position else "it has carried nothing so far"
    if link.lag_bytes is not None:
        return f"{link.lag_bytes:,} bytes behind"
    return f"{link.lag_messages:,} messages behind" if link.lag_messages is not None else "changes are waiting"


def _duration(seconds: float) -> str:
    if seconds >= _HOUR_SECONDS:
        return f"{seconds / _HOUR_SECONDS:.1f} hours"
    return f"{seconds / 60:.0f} minutes" if seconds > STUCK_SECONDS else f"{seconds:.0f} seconds"
