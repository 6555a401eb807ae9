"""Draws docs/minhash.svg: how far MinHash estimates are from the truth, over thousands of random pairs of partitions.

    python -m penstock.bench.programs.minhash_chart docs/minhash.svg

It has Penstock's own coefficients and share, and prints how many estimates lie within the bounds of a score.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.core.audit.minhash import MASK, MODULUS, coefficients, matching_share
from penstock.core.audit.scores import margin

PAIRS, K, ROWS = 4000, 16, 400
LEFT, TOP, SIDE = 60, 40, 480
BINS = 40


def main(path: Path) -> None:
    """Compute the pairs, and draw them."""
    rng = np.random.default_rng(20)
    found = [_pair(rng) for _ in range(PAIRS)]
    within = sum(abs(estimate - truth) <= margin(K) for truth, estimate in found)
    path.write_text(_draw(Counter((round(truth * BINS), round(estimate * K)) for truth, estimate in found), within))
    sys.stdout.write(f"{within} of {PAIRS} within the bounds\n")


def _pair(rng: np.random.Generator) -> tuple[float, float]:
    """Two sets of rows' seeds, of which a random share is the same: its true similarity, and the estimate."""
    common = int(rng.integers(0, ROWS + 1))
    seeds = rng.choice(1 << 32, 2 * ROWS - common, replace=False).astype(np.uint64)
    mine, theirs = seeds[:ROWS], np.concatenate([seeds[:common], seeds[ROWS:]])
    return common / len(seeds), matching_share(_minima(mine), _minima(theirs))


def _minima(seeds: npt.NDArray[np.uint64]) -> list[int]:
    a, b = np.array(coefficients(K), np.uint64).T
    hashes = ((seeds[:, None] * a + b) % np.uint64(MODULUS)) & np.uint64(MASK)
    return [int(least) for least in hashes.min(axis=0)]


def _draw(counted: Counter[tuple[int, int]], within: int) -> str:
    most = max(counted.values())
    circles = "\n".join(
        f'<circle cx="{_x(truth / BINS):.1f}" cy="{_y(estimate / K):.1f}" r="{1 + 6 * (count / most) ** 0.5:.1f}"/>'
        for (truth, estimate), count in sorted(counted.items())
    )
    bounds = "".join(_line(0, offset, 1, 1 + offset, "4 4") for offset in (-margin(K), margin(K)))
    ticks = "".join(
        f'<text x="{_x(part):.0f}" y="{TOP + SIDE + 18}" text-anchor="middle">{part:g}</text>'
        f'<text x="{LEFT - 8}" y="{_y(part) + 4:.0f}" text-anchor="end">{part:g}</text>'
        for part in (0, 0.25, 0.5, 0.75, 1)
    )
    title = f"{PAIRS:,} random pairs, {K} MinHash values: {100 * within / PAIRS:.1f} % within the bounds"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + SIDE + 20} {TOP + SIDE + 50}"'
        ' font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f'<clipPath id="plot"><rect x="{LEFT}" y="{TOP}" width="{SIDE}" height="{SIDE}"/></clipPath>\n'
        f'<text x="{LEFT}" y="24" font-size="15">{title}</text>\n'
        f'<rect x="{LEFT}" y="{TOP}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#888888"/>\n'
        f'<g clip-path="url(#plot)">{_line(0, 0, 1, 1, "none")}{bounds}</g>\n{ticks}\n'
        f'<g fill="#0072b2" fill-opacity="0.6">\n{circles}\n</g>\n'
        f'<text x="{LEFT + SIDE / 2}" y="{TOP + SIDE + 38}" text-anchor="middle">true similarity</text>\n'
        f'<text transform="translate(16 {TOP + SIDE / 2}) rotate(-90)" text-anchor="middle">estimate</text>\n</svg>\n'
    )


def _line(x: float, y: float, other_x: float, other_y: float, dashes: str) -> str:
    ends = f'x1="{_x(x):.1f}" y1="{_y(y):.1f}" x2="{_x(other_x):.1f}" y2="{_y(other_y):.1f}"'
    return f'<line {ends} stroke="#d55e00" stroke-dasharray="{dashes}"/>'


def _x(part: float) -> float:
    return LEFT + part * SIDE


def _y(part: float) -> float:
    return TOP + (1 - part) * SIDE


if __name__ == "__main__":
    main(Path(sys.argv[1]))
