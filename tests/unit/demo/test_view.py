"""The demo's page."""

from __future__ import annotations

import io

from rich.console import Console

from penstock.demo.figures import Figures, TableFigures
from penstock.demo.latency import Latency
from penstock.demo.view import Page, render_line, render_page
from penstock.demo.workload import WorkloadProgress

_FIGURES = Figures(
    "row changes",
    12.3,
    "",
    WorkloadProgress("writing", changes={"users": 1_200}, seconds=1.0, share_done=0.5),
    Latency(40, 2, 812.0, 1_930.0, 700.0),
    (
        TableFigures("reviews", 90_000, 89_000, 500.0, 1.0, ""),
        TableFigures("users", 51_200, 51_000, 600.5, 9.0, ""),
        TableFigures("odd", 3, 0, 0.0, None, "it has a JSON column"),
    ),
    notes=("all of the marketplace is there",),
)


def test_one_line_tells_rate_lag_and_latency() -> None:
    line = render_line(_FIGURES)

    assert "source 1,200 changes, 1,200/s: writing" in line
    assert "warehouse 140,000 rows, 1,100/s" in line
    assert "lag 9 s" in line
    assert "p50 812 ms, p99 1,930 ms" in line


def test_a_phase_without_figures_is_a_short_line() -> None:
    assert render_line(Figures("starting MariaDB", 0.4)) == "starting MariaDB (0 s)"


def test_the_page_names_every_table_and_those_that_stopped() -> None:
    console = Console(file=io.StringIO(), width=110, record=True)

    console.print(render_page(_FIGURES))

    text = console.export_text()
    for shown in (
        "reviews",
        "90,000",
        "users",
        "odd",
        "stopped",
        "all of the marketplace",
        "now 700 ms",
        "2 on their way",
    ):
        assert shown in text


def test_notes_and_phases_are_printed_once_where_there_is_no_terminal() -> None:
    written = io.StringIO()

    with Page(Console(file=written, width=200)) as page:
        page.note("MariaDB runs")
        for _ in range(3):
            page.show(Figures("filling", 1.0))
        page.show(Figures("draining", 2.0))

    assert written.getvalue().splitlines() == ["MariaDB runs", "filling (1 s)", "draining (2 s)"]


def test_a_terminal_is_drawn_on_and_left_with_the_last_page() -> None:
    written = io.StringIO()

    with Page(Console(file=written, width=100, force_terminal=True)) as page:
        page.show(_FIGURES)

    assert "89,000" in written.getvalue()
