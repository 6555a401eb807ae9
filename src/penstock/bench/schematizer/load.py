"""Load on several sides in turn, so that what else the machine does meets them all alike."""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.bench.marks import await_mark
from penstock.bench.meter import Meter
from penstock.core.errors import PenstockError
from penstock.embedded.processes import start_child

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from penstock.bench.lab import Lab
    from penstock.bench.schematizer.sides import Side
    from penstock.bench.schematizer.workload import Request

CONNECTIONS: Final = 32
_ROUNDS: Final = 6
_WARM_UP_SECONDS: Final = 1.0
_PROGRAM: Final = "penstock.bench.programs.http_load"
_WAIT_SECONDS: Final = 60.0
_MILLISECONDS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Load:
    """One stretch of load: how many answers, the server's CPU seconds, and how long answers took."""

    answers: int
    cpu_seconds: float
    p50_ms: float
    p99_ms: float

    @property
    def cpu_ms(self) -> float:
        """The server's CPU milliseconds per answer."""
        return self.cpu_seconds * _MILLISECONDS / self.answers


@dataclass(frozen=True, slots=True)
class Loads:
    """The stretches of load on one side, round by round."""

    rounds: tuple[Load, ...]

    @property
    def cpu_ms(self) -> float:
        """The median of CPU milliseconds per answer."""
        return statistics.median(load.cpu_ms for load in self.rounds)

    @property
    def per_cpu_second(self) -> float:
        """The median of answers per CPU second."""
        return _MILLISECONDS / self.cpu_ms

    @property
    def p99_ms(self) -> float:
        """The median of the rounds' 99th percentiles."""
        return statistics.median(load.p99_ms for load in self.rounds)

    @property
    def p50_ms(self) -> float:
        """The median of the rounds' medians."""
        return statistics.median(load.p50_ms for load in self.rounds)

    def spread(self) -> str:
        """Say what the rounds' extremes were."""
        costs = [load.cpu_ms for load in self.rounds]
        waits = [load.p99_ms for load in self.rounds]
        return f"{min(costs):.3f} to {max(costs):.3f} ms of CPU, p99 {min(waits):.1f} to {max(waits):.1f} ms"


def measure_in_turn(
    lab: Lab, name: str, asked: Mapping[Side, Sequence[Request]], connections: int = CONNECTIONS
) -> Mapping[Side, Loads]:
    """Load each side with its requests, in rounds; whoever was first is last in the next. Raises PenstockError."""
    folder = lab.folder(name)
    seconds = lab.settings.seconds / _ROUNDS
    for number, requests in enumerate(asked.values()):
        (folder / f"{number}.json").write_text(json.dumps(requests), encoding="utf-8")
    rounds: dict[Side, list[Load]] = {side: [] for side in asked}
    sides = list(enumerate(asked))
    for number in range(-1, _ROUNDS):
        for index, side in sides if number % 2 else reversed(sides):
            lab.say(f"{name}: {side.name}, {'warm-up' if number < 0 else f'round {number + 1} of {_ROUNDS}'}")
            stretch = _WARM_UP_SECONDS if number < 0 else seconds
            arguments = [side.port, connections, stretch, folder / f"{index}.json"]
            load = _measure(side, [str(each) for each in arguments], folder / f"{index}.{number}.log")
            if number >= 0:
                rounds[side].append(load)
    return {side: Loads(tuple(loads)) for side, loads in rounds.items()}


def _measure(side: Side, arguments: Sequence[str], log: Path) -> Load:
    wait = float(arguments[2]) + _WAIT_SECONDS
    child = start_child("load", [sys.executable, "-m", _PROGRAM, *arguments], log)
    try:
        with Meter(side.pid) as meter:
            answers = int(await_mark(child, "answers", wait))
            begin, end, failed, p50, p99 = (
                await_mark(child, mark, wait) for mark in ("begin", "end", "failed", "p50", "p99")
            )
            meter.sample()
    finally:
        child.kill()
    if failed or not answers:
        message = f"{side.name} gave {answers} answers, of which {failed:.0f} were errors"
        raise PenstockError(message, f"read {log}")
    return Load(answers, meter.cpu_between(begin, end), p50 * _MILLISECONDS, p99 * _MILLISECONDS)
