"""What was tried and what came of it, kept in a file so that a run of hours can be gone on with."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from penstock.core.errors import PenstockError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


_SEEDS = 1_000_000


@dataclass(frozen=True, slots=True)
class Trial:
    """One fault: `seconds` from its end until both sides were equal, and what was wrong then.

    `changes` were read from Kafka meanwhile; `elapsed_seconds` is how long all of it took.
    """

    fault: str
    seconds: float
    lost: int = 0
    doubled: int = 0
    differences: int = 0
    examples: Sequence[str] = ()
    changes: int = 0
    elapsed_seconds: float = 0.0

    @property
    def is_clean(self) -> bool:
        """Whether nothing was lost, doubled or different."""
        return not (self.lost or self.doubled or self.differences)

    @property
    def says(self) -> str:
        """The figures, in words."""
        return f"lost {self.lost}, doubled {self.doubled}, different {self.differences}"


def require_clean(trials: Sequence[Trial], hint: str) -> None:
    """Raise PenstockError, with `hint`, unless nothing was wrong after any of `trials`."""
    wrong = [trial for trial in trials if not trial.is_clean]
    if wrong:
        examples = "; ".join(f"{trial.fault}: {trial.says}: {', '.join(trial.examples)}" for trial in wrong)
        message = f"something was lost, doubled or different: {examples}"
        raise PenstockError(message, hint)


def choose_seed() -> int:
    """Any."""
    return random.SystemRandom().randrange(_SEEDS)


class TrialFile:
    """The trials of one seed and kind of pipeline, a line of JSON each behind a first line with both."""

    def __init__(self, file: Path, seed: int | None, source: str) -> None:
        """Read what is there; a new file gets `seed`, or a random one.

        Raises UsageError for a file of another seed or source than is given, or of something else.
        """
        self._file = file
        self.trials: list[Trial] = []
        self.seed = choose_seed() if seed is None else seed
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        if not lines:
            file.write_text(json.dumps({"seed": self.seed, "source": source}) + "\n", encoding="utf-8")
            return
        try:
            head = json.loads(lines[0])
            # Files from before there was a choice are of MySQL.
            found, read = int(head["seed"]), head.get("source", "mysql")
            self.trials = [Trial(**json.loads(line)) for line in lines[1:]]
        except (ValueError, TypeError, KeyError) as error:
            message = f"{file} does not have the trials of a fault suite: {error}"
            raise UsageError(message, "name another file") from error
        if read != source:
            message = f"{file} has the trials of {read}, not of {source}"
            raise UsageError(message, "go on with the options that it was begun with, or name another file")
        if seed not in {None, found}:
            message = f"{file} has the trials of seed {found}, not of {seed}"
            raise UsageError(message, f"go on with --seed {found}, or name another file")
        self.seed = found

    def add(self, trial: Trial) -> None:
        """Keep one more."""
        self.trials.append(trial)
        with self._file.open("a", encoding="utf-8") as output:
            output.write(json.dumps(asdict(trial)) + "\n")
