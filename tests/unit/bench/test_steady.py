"""What the bench of steady streams says of a side."""

from __future__ import annotations

from penstock.bench.steady.stretches import RATES, Steady, Stretch
from penstock.bench.steady.suite import plan_figures


def test_the_brokers_cpu_is_counted_with_ours_and_told_apart() -> None:
    stretches = {0: Stretch(0.02, 0.005), **{rate: Stretch(0.1, 0.2, 240.0, 510.0) for rate in RATES}}

    figures = {figure.name: figure for figure in plan_figures(1, Steady(stretches, 800.0, 10.0))}

    idle = figures["idle, into PostgreSQL: CPU, the broker's too"]
    assert (idle.value, idle.ok, idle.note) == (0.025, True, "0.020 ours, 0.005 the broker's")
    steady = figures["200 one-row transactions a second into PostgreSQL: commit to visible, p50"]
    assert (steady.value, steady.ok) == (240.0, True)
    assert not figures["5 one-row transactions a second into PostgreSQL: commit to visible, p99"].ok
    assert not figures["start to first row, into PostgreSQL"].ok
    assert figures["memory, into PostgreSQL"].ok
