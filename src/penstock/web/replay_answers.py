"""What a replay of dead letters answers the page that had it started, in a file that user code does not print into."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError, UnavailableError, UsageError

if TYPE_CHECKING:
    from penstock.links.spolts.replay import Replayed

ANSWER_BYTES_MAX: Final = 65_536
_TOLD_CHARACTERS: Final = 2_000


@dataclass(frozen=True, slots=True)
class ReplayCounts:
    """How many letters were replayed now and before; how many failed again, and the first of them.

    `reason` is what user code says of it, and may quote rows.
    """

    replayed: int
    before: int
    failed: int
    failed_offset: int | None
    reason: str

    def sentence(self, spolt: str) -> str:
        """Say it to who asked for the replay."""
        said = f"{spolt}: {self.replayed:,} dead letter(s) replayed"
        if self.before:
            said += f", {self.before:,} had been before"
        if self.failed:
            said += f", {self.failed:,} failed again; the one at offset {self.failed_offset}: {self.reason}"
        return said

    def for_log(self) -> dict[str, int | None]:
        """Return what a log may keep: no reason."""
        failed = {"failed": self.failed, "failed_offset": self.failed_offset}
        return {"replayed": self.replayed, "replayed_before": self.before, **failed}


def write_answer(descriptor: int, outcome: Replayed | PenstockError) -> None:
    """Write what came of a replay to an open file."""
    if isinstance(outcome, PenstockError):
        texts = {"message": outcome.message, "hint": outcome.hint}
        answer = {"retryable": outcome.retryable, **{name: text[:_TOLD_CHARACTERS] for name, text in texts.items()}}
    else:
        offset, reason = next(iter(outcome.failed.items()), (None, ""))
        counts = len(outcome.published), len(outcome.before), len(outcome.failed)
        answer = asdict(ReplayCounts(*counts, offset, reason[:_TOLD_CHARACTERS]))
    os.write(descriptor, json.dumps(answer).encode())


def read_answer(content: bytes) -> ReplayCounts | PenstockError | None:
    """Return what `write_answer` wrote; None where it did not come to it."""
    try:
        told = json.loads(content)
        if "retryable" not in told:
            return ReplayCounts(**told)
        kind = UnavailableError if told["retryable"] else UsageError
        return kind(told["message"], told["hint"])
    except (ValueError, TypeError, KeyError):
        return None
