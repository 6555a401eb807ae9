"""What looking at a server, a target or this machine finds, one thing at a time, for `penstock check --connect`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, and what was found.

    `hint` says what to do, "" where all is well. `exit_code` is what an error
    would have ended `penstock run` with, 0 for a warning.
    """

    level: Literal["ok", "warning", "error"]
    subject: str
    message: str
    hint: str = ""
    exit_code: int = 0


def examine(subject: str, question: Callable[[], str]) -> Finding:
    """Ask one question: its answer is the message of the finding, or the error that it raises."""
    try:
        return Finding("ok", subject, question())
    except PenstockError as error:
        return Finding("error", subject, error.message, error.hint, error.exit_code)
