"""A bench: its parts, run one after another."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.bench.figure import Figure
from penstock.bench.lab import Lab, Settings
from penstock.bench.machine import describe_machine
from penstock.bench.report import Report
from penstock.core.errors import PenstockError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


class Measure(Protocol):
    """One part of a bench: measures ours and the peers', and says what it found."""

    def __call__(self, lab: Lab) -> Sequence[Figure]:
        """Measure. A peer that cannot be had is told in a figure's note; PenstockError says that ours failed."""
        ...


@dataclass(frozen=True, slots=True)
class Bench:
    """A bench called `name`: its parts by their names, in the order in which they run, and who takes part.

    `seconds` is how long a stretch is unless somebody says otherwise.
    """

    name: str
    parts: Mapping[str, Measure]
    versions: Callable[[Lab], Mapping[str, str]]
    seconds: int = 60

    def choose(self, only: Sequence[str]) -> Sequence[str]:
        """The parts called `only`, all for none; UsageError for an unknown one."""
        unknown = sorted(set(only) - set(self.parts))
        if unknown:
            message = f"bench {self.name} has no part {', '.join(unknown)}"
            raise UsageError(message, f"its parts are: {', '.join(self.parts)}")
        return [part for part in self.parts if part in only or not only]

    def run(self, parts: Sequence[str], home: Path, settings: Settings, say: Callable[[str], None]) -> Report:
        """Run `parts` with their files below `home`. A part that fails is a figure without a value."""
        machine, figures = describe_machine(), list[Figure]()
        with Lab(home, settings, say) as lab:
            for part in parts:
                try:
                    figures += self.parts[part](lab)
                except PenstockError as error:
                    figures.append(Figure(part, "", "less", None, note=f"could not be measured: {error.message}"))
            versions = self.versions(lab)
        return Report(self.name, machine, versions, asdict(settings), figures)
