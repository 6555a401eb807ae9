"""Small charts of the last hour and day as SVG paths, drawn from samples. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ports.history import Ring, Sample

WIDTH, HEIGHT = 360.0, 64.0
_GAP_STEPS = 3
"""Samples further apart than this many steps of their ring have nothing between them that we know."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A line and the area below it; `top` is the value at the upper edge, `newest` the last one."""

    line: str
    area: str
    top: float
    newest: float | None


def draw(points: Sequence[tuple[int, float | None]], ring: Ring, now_ms: int) -> Chart:
    """Draw values of `ring` at moments (Unix ms), oldest first; where one is unknown or missing, the line has a gap.

    The right edge is the end of the step that `now_ms` is in, so that a chart changes once in a step.
    """
    step_ms = ring.seconds * 1000
    end_ms = now_ms // step_ms * step_ms + step_ms
    shown = [(at_ms, value) for at_ms, value in points if end_ms - at_ms <= ring.span_ms]
    known = [value for _, value in shown if value is not None]
    top = max(known, default=0.0)
    line, area = [], []
    for run in _runs(shown, _GAP_STEPS * step_ms):
        places = [(_x((end_ms - at_ms) / ring.span_ms), _y(value, top)) for at_ms, value in run]
        if len(places) == 1:
            places.append((places[0][0] + 1, places[0][1]))
        path = " L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        line.append(f"M{path}")
        area.append(f"M{places[0][0]:.1f} {HEIGHT:g} L{path} L{places[-1][0]:.1f} {HEIGHT:g}Z")
    return Chart(" ".join(line), " ".join(area), top, known[-1] if known else None)


def throughput(samples: Sequence[Sample], ring: Ring) -> Sequence[tuple[int, float | None]]:
    """Rows per second between each two samples; unknown where they are too far apart."""
    gap_ms = _GAP_STEPS * ring.seconds * 1000
    rates: list[tuple[int, float | None]] = []
    for before, after in pairwise(samples):
        between_ms = after.at_ms - before.at_ms
        known = 0 < between_ms <= gap_ms
        rates.append((after.at_ms, max(0, after.rows - before.rows) * 1000 / between_ms if known else None))
    return rates


def lag(samples: Sequence[Sample]) -> Sequence[tuple[int, float | None]]:
    """How far the link was behind, in seconds."""
    return [(sample.at_ms, sample.lag_seconds) for sample in samples]


def _runs(points: Sequence[tuple[int, float | None]], gap_ms: int) -> Sequence[Sequence[tuple[int, float]]]:
    runs: list[list[tuple[int, float]]] = [[]]
    for at_ms, value in points:
        is_far = bool(runs[-1]) and at_ms - runs[-1][-1][0] > gap_ms
        if (value is None or is_far) and runs[-1]:
            runs.append([])
        if value is not None:
            runs[-1].append((at_ms, value))
    return [run for run in runs if run]


def _x(age: float) -> float:
    return WIDTH * (1 - min(1.0, max(0.0, age)))


def _y(value: float, top: float) -> float:
    return HEIGHT - (HEIGHT - 3) * (value / top if top else 0.0)
