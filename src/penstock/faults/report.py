"""What a run of the fault suite found, as a table for the documentation."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from penstock.faults.trials import Trial

_ON: Final = {"mysql": "", "postgres": " on PostgreSQL"}


def marks(source: str) -> tuple[str, str]:
    """The lines of a document between which the table of a kind of pipeline stands."""
    kind, *more = source.split(" ", 1)
    where = " ".join((_ON[kind], *more))
    begin, end = (f"<!-- what `make faults` found{where}: {place} -->" for place in ("begin", "end"))
    return begin, end


def render(trials: Sequence[Trial], seed: int, machine: Mapping[str, str | float], date: str) -> str:
    """Markdown: what was run on what, and a line per kind of fault."""
    cores, memory = machine["cores"], machine["memory_gib"]
    minutes = sum(trial.elapsed_seconds for trial in trials) / 60
    ran = (
        f"{len(trials)} faults, seed {seed}, {date}, {minutes:.0f} minutes, "
        f"{sum(trial.changes for trial in trials):,} changes read from Kafka. "
        f"{machine['processor']}, {cores} cores, {memory} GiB, load {machine['load_before']} before."
    )
    lines = [
        ran,
        "",
        "| fault | tried | lost | doubled | rows that differ | seconds to recover: median | most |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    names = sorted({trial.fault for trial in trials})
    lines += [_line(name, [trial for trial in trials if trial.fault == name]) for name in names]
    return "\n".join([*lines, _line("**all**", trials)])


def _line(name: str, trials: Sequence[Trial]) -> str:
    wrong = (sum(trial.lost for trial in trials), sum(t.doubled for t in trials), sum(t.differences for t in trials))
    seconds = [trial.seconds for trial in trials]
    times = f"{median(seconds):.1f} | {max(seconds):.1f}" if seconds else " | "
    return f"| {name} | {len(trials)} | {' | '.join(map(str, wrong))} | {times} |"


def write_into(file: Path, text: str, source: str) -> None:
    """Put `text` between the marks of a document for `source`. Raises UsageError if it has none."""
    first, last = marks(source)
    content = file.read_text(encoding="utf-8") if file.exists() else ""
    before, begin, rest = content.partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        message = f"{file} has no place for the table"
        raise UsageError(message, f"put these two lines where it belongs:\n{first}\n{last}")
    file.write_text(f"{before}{first}\n{text}\n{last}{after}", encoding="utf-8")
