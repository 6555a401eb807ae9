"""How long a source still has the binlog that a pipeline needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.errors import START_ANEW
from penstock.core.positions import file_number
from penstock.core.retention import Retention

if TYPE_CHECKING:
    from penstock.core.positions import BinlogPosition

_KEEP_LONGER = "and keep binlogs for longer (binlog_expire_logs_seconds)"


@dataclass(frozen=True, slots=True)
class KeptLog:
    """What a server says: its binlogs with their sizes in bytes, oldest first, and how long it keeps each.

    `expire_seconds` is how long a file is kept once it is closed, None for ever.
    `closed_at_ms` is when the file that is needed was closed, None while it is
    written to, or where it is not there.
    """

    files: tuple[tuple[str, int], ...]
    expire_seconds: float | None
    closed_at_ms: int | None


def judge_retention(position: BinlogPosition, log: KeptLog, now_ms: int, warning_seconds: float) -> Retention:
    """Judge what `log`, which has at least one file, means for a pipeline at `position`.

    A server purges a file that was last written to longer ago than it keeps
    binlogs, when it begins a new one. What is still being written to stays, so a
    pipeline that reads it is never warned, however short binlogs are kept.
    """
    needed, offset = position.read_from
    numbers = [file_number(name) for name, _ in log.files]
    missing = _missing(needed, offset, log)
    seconds_left = None if missing else _seconds_left(log, now_ms)
    is_short = seconds_left is not None and seconds_left < warning_seconds and needed != log.files[-1][0]
    text, hint = missing or (_short(needed, seconds_left) if is_short and seconds_left is not None else ("", ""))
    return Retention(
        level="error" if missing else "warning" if is_short else "ok",
        text=text,
        hint=hint,
        oldest_file=log.files[0][0],
        needed_file=needed,
        newest_file=log.files[-1][0],
        files=len(log.files),
        size_bytes=sum(size for _, size in log.files),
        files_before=sum(number < file_number(needed) for number in numbers),
        expire_seconds=log.expire_seconds,
        seconds_left=seconds_left,
    )


def _missing(needed: str, offset: int, log: KeptLog) -> tuple[str, str] | None:
    """What to say if the log does not have the place; None if it does."""
    sizes = dict(log.files)
    oldest, newest = log.files[0][0], log.files[-1][0]
    if needed in sizes and offset <= sizes[needed]:
        return None
    if needed not in sizes and file_number(needed) < file_number(oldest):
        return f"{needed}, which the pipeline needs, was purged: the oldest binlog is {oldest}", (
            f"{START_ANEW}; {_KEEP_LONGER}"
        )
    return f"the log has no place {needed}:{offset}, where the pipeline stands: its newest binlog is {newest}", (
        f"the log was reset, or another server answers: {START_ANEW}"
    )


def _seconds_left(log: KeptLog, now_ms: int) -> float | None:
    if log.expire_seconds is None or log.closed_at_ms is None:
        return log.expire_seconds
    return max(0.0, log.expire_seconds - (now_ms - log.closed_at_ms) / 1000)


def _short(needed: str, seconds_left: float) -> tuple[str, str]:
    hours = seconds_left / 3600
    when = f"in {hours:.1f} hours" if seconds_left else "with its next rotation"
    text = f"the source may purge {needed}, which the pipeline has not read to its end, {when}"
    return text, f"see that the pipeline runs and catches up; {_KEEP_LONGER}"
