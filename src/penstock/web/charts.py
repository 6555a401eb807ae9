"""Small charts of the last hour as SVG paths, drawn from samples. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from penstock.ports.history import SAMPLE_SECONDS, SAMPLES_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ports.history import Sample

WIDTH, HEIGHT = 360.0, 64.0
_SPAN_MS = SAMPLES_MAX * SAMPLE_SECONDS * 1000
_GAP_MS = 3 * SAMPLE_SECONDS * 1000
"""Samples further apart than this have nothing between them that we know."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A line and the area below it; `top` is the value at the upper edge, `newest` the last one."""

    line: str
    area: str
    top: float
    newest: float | None


def draw(points: Sequence[tuple[int, float | None]], now_ms: int) -> Chart:
    """Draw values at moments (Unix ms), oldest first; where one is unknown or missing, the line has a gap."""
    known = [(at_ms, value) for at_ms, value in points if value is not None and now_ms - at_ms <= _SPAN_MS]
    top = max((value for _, value in known), default=0.0)
    line, area = [], []
    for run in _runs(points, now_ms):
        places = [(_x(at_ms, now_ms), _y(value, top)) for at_ms, value in run]
        if len(places) == 1:
            places.append((places[0][0] + 1, places[0][1]))
        path = " L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        line.append(f"M{path}")
        area.append(f"M{places[0][0]:.1f} {HEIGHT:g} L{path} L{places[-1][0]:.1f} {HEIGHT:g}Z")
    return Chart(" ".join(line), " ".join(area), top, known[-1][1] if known else None)


def throughput(samples: Sequence[Sample]) -> Sequence[tuple[int, float | None]]:
    """Rows per second between each two samples; unknown where they are too far apart."""
    rates: list[tuple[int, float | None]] = []
    for before, after in pairwise(samples):
        between_ms = after.at_ms - before.at_ms
        known = 0 < between_ms <= _GAP_MS
        rates.append((after.at_ms, max(0, after.rows - before.rows) * 1000 / between_ms if known else None))
    return rates


def lag(samples: Sequence[Sample]) -> Sequence[tuple[int, float | None]]:
    """How far the link was behind, in seconds."""
    return [(sample.at_ms, sample.lag_seconds) for sample in samples]


def _runs(points: Sequence[tuple[int, float | None]], now_ms: int) -> Sequence[Sequence[tuple[int, float]]]:
    runs: list[list[tuple[int, float]]] = [[]]
    for at_ms, value in points:
        is_far = bool(runs[-1]) and at_ms - runs[-1][-1][0] > _GAP_MS
        if (value is None or is_far) and runs[-1]:
            runs.append([])
        if value is not None and now_ms - at_ms <= _SPAN_MS:
            runs[-1].append((at_ms, value))
    return [run for run in runs if run]


def _x(at_ms: int, now_ms: int) -> float:
    return WIDTH * (1 - min(1.0, max(0.0, (now_ms - at_ms) / _SPAN_MS)))


def _y(value: float, top: float) -> float:
    return HEIGHT - (HEIGHT - 3) * (value / top if top else 0.0)
