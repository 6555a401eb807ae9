"""What `penstock bench snapshot` shows."""

from __future__ import annotations

from penstock.bench.programs.measured import Work
from penstock.bench.snapshot.suite import Live, Read, plan_figures
from penstock.core.errors import UnavailableError

LIVE = Live(lag_p99_seconds=0.2, lag_max_seconds=0.3, memory_bytes=300 << 20, rows_per_second=1_000.0)


def test_rows_per_cpu_second_stand_beside_the_peers_and_its_absence_is_told() -> None:
    mine = Read(Work(1_000, 2.0, 4.0), Work(1_000, 1.0, 2.0))
    theirs = Read(Work(1_000, 4.0, 4.0), Work(1_000, 10.0, 1.0))

    beside = {figure.name: figure for figure in plan_figures(mine, LIVE, theirs)}
    alone = plan_figures(mine, LIVE, UnavailableError("no jars", "fetch them"))

    running = beside["snapshot of a running pipeline, CPU"]
    assert (running.value, running.peer_value, running.ratio, running.ok) == (1_000, 100, 10, True)
    assert beside["initial snapshot, speed"].ratio == 1
    assert [figure.ok for figure in alone] == [None, None, None, None, True, True]
    assert all("no jars" in figure.note for figure in alone[:4])
