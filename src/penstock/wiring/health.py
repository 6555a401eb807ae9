"""What is not well with a pipeline, and what to do about it, told from where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.core.snapshots import Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.ports.history import ServerCondition
    from penstock.ports.standing import SourceStanding
    from penstock.ports.state import LinkProgress
    from penstock.wiring.standing import Standing

SILENT_SECONDS = 30.0
"""A pipeline that runs writes its mirror every two seconds; some more for a database that is slow for a moment."""

STUCK_SECONDS = 120.0
"""Longer than a link waits before it tries again."""

_HOUR_SECONDS = 3600
_NEW_PIPELINE = "new pipeline"
_ALIVE = frozenset({"running", "retrying"})


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not well. `subject` is a link, a table of a link, a source or the pipeline."""

    level: Literal["warning", "error"]
    subject: str
    text: str
    hint: str


def find_problems(standing: Standing, run_command: str) -> Sequence[Problem]:
    """List what is not well, the worst first; `run_command` is what to type to start the pipeline."""
    found = [
        *_holder_problems(standing, run_command),
        *_server_problems(standing.servers),
        *_source_problems(standing.sources),
        *_link_problems(standing, run_command),
        *_table_problems(standing, run_command),
        *_snapshot_problems(standing),
    ]
    return sorted(found, key=lambda problem: problem.level)


def is_healthy(standing: Standing, problems: Sequence[Problem]) -> bool:
    """Whether all is well: somebody runs the pipeline, every link goes on, and everything could be asked."""
    return (
        bool(standing.holder)
        and bool(standing.links)
        and all(link.state == "running" for link in standing.links)
        and all(server.state == "running" for server in standing.servers)
        and not any(source.unanswered for source in standing.sources)
        and not any(problem.level == "error" for problem in problems)
    )


def _server_problems(servers: Sequence[ServerCondition]) -> Iterator[Problem]:
    for server in servers:
        if server.state != "running" and server.restarts:
            text = f"it died, and is being started again (time {server.restarts} of this run)"
            hint = "wait some seconds; if it comes back again and again, read its log below the pipeline's home"
            yield Problem("error", server.server, text, hint)


def _holder_problems(standing: Standing, run_command: str) -> Iterator[Problem]:
    if standing.stranger is not None:
        yield Problem("error", "pipeline", *standing.stranger)
    if standing.holder is None:
        text = f"whether the pipeline runs is not known: {standing.unanswered}"
        yield Problem("warning", "pipeline", text, "start ZooKeeper, or look on the machines themselves")
    alive = [link for link in standing.links if link.state in _ALIVE]
    if not alive:
        return
    silent = (standing.now_ms - max(link.updated_at_ms for link in alive)) / 1000
    if standing.holder == "":
        text = f"it was killed, or its machine went down: its last sign of life is {_duration(silent)} old"
        yield Problem("error", "pipeline", text, f"nothing is lost; type: {run_command}")
    elif silent > SILENT_SECONDS:
        text = f"its last sign of life is {_duration(silent)} old, although somebody holds its lock"
        hint = "its process hangs, or does not reach Kafka or the state database: see its log; kill it and start it"
        yield Problem("error", "pipeline", text, f"{hint} again: {run_command}")


def _source_problems(sources: Sequence[SourceStanding]) -> Iterator[Problem]:
    for source in sources:
        if source.unanswered:
            text = f"could not be asked how far its log reaches: {source.unanswered}"
            yield Problem("warning", source.source, text, source.hint)
        if source.retention is not None and source.retention.level != "ok":
            yield Problem(source.retention.level, source.source, source.retention.text, source.retention.hint)


def _link_problems(standing: Standing, run_command: str) -> Iterator[Problem]:
    for link in standing.links:
        if link.error:
            level: Literal["warning", "error"] = "warning" if link.state == "retrying" else "error"
            yield Problem(level, link.link, link.error, _then(link.hint, run_command))
        elif standing.holder == "" and link.behind_since_ms:
            text = f"nobody runs it, and {_ahead(link)}"
            yield Problem("warning", link.link, text, f"type: {run_command}")
        elif (stuck := standing.stuck_seconds(link)) is not None and stuck > STUCK_SECONDS:
            text = f"has not moved for {_duration(stuck)}, although {_ahead(link)}"
            yield Problem("warning", link.link, text, "see the log; a large transaction or a slow target takes long")


def _table_problems(standing: Standing, run_command: str) -> Iterator[Problem]:
    for table in standing.tables:
        if table.error:
            hint = _then(table.hint, run_command)
            yield Problem("error", f"{table.link}, {table.table}", table.error, hint)


def _snapshot_problems(standing: Standing) -> Iterator[Problem]:
    for snapshot in standing.snapshots:
        if snapshot.error:
            text = f"its snapshot {'failed' if snapshot.status.has_ended else 'is tried again'}: {snapshot.error}"
            yield Problem("warning", f"{snapshot.source}, {snapshot.table}", text, snapshot.hint)
        elif snapshot.status is Status.PAUSED:
            text = f"its snapshot is paused at {snapshot.rows:,} rows"
            hint = f"let it go on: penstock snapshot FILE {snapshot.table} --resume"
            yield Problem("warning", f"{snapshot.source}, {snapshot.table}", text, hint)


def _then(hint: str, run_command: str) -> str:
    """Add how to start this pipeline, unless what helps may be another one."""
    return hint if _NEW_PIPELINE in hint else f"{hint}; then type: {run_command}"


def _ahead(link: LinkProgress) -> str:
    if link.lag_bytes is not None:
        return f"{link.lag_bytes:,} bytes are ahead of it"
    return f"{link.lag_messages:,} messages are ahead of it" if link.lag_messages is not None else "changes wait"


def _duration(seconds: float) -> str:
    if seconds >= _HOUR_SECONDS:
        return f"{seconds / _HOUR_SECONDS:.1f} hours"
    return f"{seconds / 60:.0f} minutes" if seconds > STUCK_SECONDS else f"{seconds:.0f} seconds"
