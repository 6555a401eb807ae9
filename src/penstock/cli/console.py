"""What an operator reads: errors and notes on standard error, tables on standard output."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_MINUTE = 60
_HOUR = 3600
_DAY = 86_400


def say_error(message: str, hint: str, code: str | None = None) -> None:
    """Write what happened in red, below it what to do, and the error's code if it has one, on standard error."""
    console = open_console(stderr=True)
    console.print(message, style="bold red", markup=False, highlight=False, soft_wrap=True)
    console.print(f"  what to do: {hint}", markup=False, highlight=False, soft_wrap=True)
    if code is not None:
        console.print(f"  error code: {code}", style="dim", markup=False, highlight=False, soft_wrap=True)


def say_note(text: str) -> None:
    """Write one sentence on standard error."""
    open_console(stderr=True).print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


def open_console(*, stderr: bool = False) -> Console:
    """A console for a terminal, or for a file or pipe, where it writes neither colours nor line breaks of its own."""
    # Rich takes a tenth of a second to import, which only those who print should wait for.
    from penstock.cli.plain_console import PlainConsole  # noqa: PLC0415

    stream = sys.stderr if stderr else sys.stdout
    return PlainConsole(stderr=stderr, width=None if stream.isatty() else 200)


def format_seconds(seconds: float | None) -> str:
    """A duration in its two largest units: `0.4 s`, `12 s`, `3 min 5 s`, `2 d 3 h`; `?` for None."""
    if seconds is None:
        return "?"
    whole = round(seconds)
    if whole >= _DAY:
        return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"
    if whole >= _HOUR:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    if whole >= _MINUTE:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"  # noqa: PLR2004 - tenths stop to matter there


def format_bytes(count: int | None) -> str:
    """A size in binary units: `17 B`, `3.2 MiB`; `?` for None."""
    if count is None:
        return "?"
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:  # noqa: PLR2004 - the step between binary units
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def format_time(unix_ms: int) -> str:
    """A moment in local time, `-` for 0."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix_ms / 1000)) if unix_ms else "-"
