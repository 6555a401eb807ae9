"""What the bench of steady streams says of ours and of the peer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.bench.steady.long import Watched, plan_long_figures
from penstock.bench.steady.stretches import RATES, Steady, Stretch
from penstock.bench.steady.suite import plan_figures, plan_soon_figures
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from penstock.bench.figure import Figure


def _steady(cores: float, broker_cores: float, p50_ms: float, p99_ms: float) -> Steady:
    stretches = {rate: Stretch(cores, broker_cores, 0.1, p50_ms, p99_ms) for rate in RATES}
    return Steady({0: Stretch(cores / 10, broker_cores / 10, 0.0), **stretches}, 800.0, 10.0)


def _figures(sinks: int, theirs: Steady | PenstockError) -> dict[str, Figure]:
    figures = plan_figures(sinks, _steady(0.2, 0.05, 240.0, 510.0), theirs)
    found = {figure.name: figure for figure in figures}
    assert len(found) == len(figures)
    return found


def test_the_brokers_cpu_is_counted_with_each_side_and_told_apart() -> None:
    figures = _figures(1, _steady(0.3, 0.2, 300.0, 520.0))

    idle = figures["idle, into PostgreSQL: CPU, the broker's too"]
    assert (idle.value, idle.peer_value, idle.ratio, idle.ok) == (0.025, 0.05, 2.0, True)
    assert idle.note == "0.020 ours, 0.005 the broker's; 0.030 the peer's, 0.020 the broker's"


def test_each_figure_is_beside_the_peers_and_held_against_its_goal() -> None:
    figures = _figures(1, _steady(0.3, 0.2, 300.0, 520.0))

    name = "5 one-row transactions a second into PostgreSQL"
    p50, p99 = (figures[f"{name}: commit to visible, {what}"] for what in ("p50", "p99"))
    assert (p50.value, p50.peer_value, p50.ok) == (240.0, 300.0, True)
    assert (p99.value, p99.peer_value, p99.ok) == (510.0, 520.0, False)
    memory, start = figures["memory, into PostgreSQL"], figures["start to first row, into PostgreSQL"]
    assert (memory.value, memory.peer_value, memory.ok) == (800.0, 800.0, True)
    assert (start.value, start.peer_value, start.ok) == (10.0, 10.0, False)


def test_a_second_sink_and_more_rows_may_take_more() -> None:
    one, two = _figures(1, PenstockError("no", "")), _figures(2, PenstockError("no", ""))

    goals = [
        figures[f"{rate} one-row transactions a second into {into}: CPU, the broker's too"].target
        for figures, into in ((one, "PostgreSQL"), (two, "PostgreSQL and DuckDB"))
        for rate in ("200", "1,000")
    ]
    assert goals == [0.128, 0.256, 0.167, 0.333]


def test_without_its_peer_each_figure_says_why() -> None:
    figures = _figures(2, PenstockError("no jars", "fetch them"))

    assert {figure.ratio for figure in figures.values()} == {None}
    assert all(figure.note.endswith("the peer could not be measured: no jars") for figure in figures.values())
    assert figures["idle, into PostgreSQL and DuckDB: CPU, the broker's too"].value == 0.025


def test_where_latency_counts_the_targets_cpu_counts_too_and_the_peer_is_the_goal() -> None:
    cpu, p50, p99 = plan_soon_figures(_steady(0.2, 0.05, 24.0, 90.0), _steady(0.3, 0.1, 32.0, 80.0))

    assert cpu.value == pytest.approx(0.35)
    assert cpu.peer_value == pytest.approx(0.5)
    assert cpu.ok is True
    assert cpu.note.startswith("0.200 ours, 0.050 the broker's, 0.100 PostgreSQL's; 0.300 the peer's")
    assert (p50.value, p50.ok) == (24.0, True)
    assert (p99.value, p99.ok) == (90.0, False)


def test_growth_is_told_of_the_last_quarter_beside_the_second_when_the_start_is_over() -> None:
    seen = Watched()
    for at in range(16):
        used = (900.0, 1_000.0, 1_020.0, 1_060.0)[at // 4]
        seen.looks.append((at, {"memory": used, "threads": 100, "open files": 50, "files in the store": at}))

    told = plan_long_figures(seen, Stretch(0.2, 0.1, 0.0, 150.0, 300.0))

    memory, threads, _, files = told[:4]
    assert (memory.value, memory.ok, memory.note) == (1.06, False, "1,000 and 1,060 MiB on average, 1,060 at most")
    assert (threads.value, threads.ok) == (1.0, True)
    assert files.value == pytest.approx(13.5 / 5.5)
    assert files.series[0].points[-1] == (15, 15)
