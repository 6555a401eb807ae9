"""How long a source still has the log that a pipeline needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Retention:
    """Whether the log still reaches back to a position, and for how long.

    `level` is `ok`; `warning` if less than the wanted time is left; `error` if
    what is needed is gone. `files_before` counts the files that are older than
    `needed_file`. `seconds_left` is at least how long the server keeps that file
    from now on: None for ever, 0 if it may purge it with its next rotation.
    """

    level: Literal["ok", "warning", "error"]
    text: str
    hint: str
    oldest_file: str
    needed_file: str
    newest_file: str
    files: int
    size_bytes: int
    files_before: int
    expire_seconds: float | None
    seconds_left: float | None
