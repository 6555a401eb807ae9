"""One measured figure beside its peer's and its target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Better: TypeAlias = Literal["less", "more"]
TargetOf: TypeAlias = Literal["value", "ratio"]


@dataclass(frozen=True, slots=True)
class Series:
    """How `what` went for `name`: (seconds, value) from the beginning on."""

    name: str
    points: tuple[tuple[float, float], ...]
    what: str = "rows behind"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure: ours in `value`, the peer's in `peer_value`, both in `unit`.

    `better` says whether less or more of the unit is good. The ratio is how many
    times better than the peer we are, so over 1 is good either way. `target` is
    compared with the ratio or with the value, as `target_of` says: a ratio must be
    at least the target, a value at least or at most, as `better` says. `value` and
    `peer_value` are None where something could not be measured; `note` tells why,
    or under which conditions the figure holds. `series` are what a chart shows of
    it, ours first.
    """

    name: str
    unit: str
    better: Better
    value: float | None
    peer: str = ""
    peer_value: float | None = None
    target: float | None = None
    target_of: TargetOf = "ratio"
    note: str = ""
    series: tuple[Series, ...] = ()

    @property
    def ratio(self) -> float | None:
        """How many times better than the peer's; None without one of the two."""
        if not self.value or not self.peer_value:
            return None
        return self.peer_value / self.value if self.better == "less" else self.value / self.peer_value

    @property
    def ok(self) -> bool | None:
        """Whether the target is met; None where there is no target, or nothing to compare with it."""
        if self.target is None:
            return None
        if self.target_of == "ratio":
            return None if self.ratio is None else self.ratio >= self.target
        if self.value is None:
            return None
        return self.value <= self.target if self.better == "less" else self.value >= self.target

    def to_mapping(self) -> dict[str, object]:
        """The figure as JSON values."""
        return {
            "name": self.name,
            "value": _rounded(self.value),
            "unit": self.unit,
            "peer": self.peer or None,
            "peer_value": _rounded(self.peer_value),
            "ratio": _rounded(self.ratio),
            "target": self.target,
            "target_of": self.target_of if self.target is not None else None,
            "better": self.better,
            "ok": self.ok,
            "note": self.note or None,
            "series": {
                line.name: [[_rounded(second), _rounded(value)] for second, value in line.points]
                for line in self.series
            },
        }


def _rounded(number: float | None) -> float | None:
    """Four digits that count: more would pretend that a run is that exact."""
    return None if number is None else float(f"{number:.4g}")
