"""A report as a table for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.bench.figure import Figure
    from penstock.bench.report import Report

_NONE = "-"


def print_report(console: Console, report: Report) -> None:
    """Print the machine, the versions, the figures, and what is to be known about each."""
    console.print(", ".join(f"{name} {value}" for name, value in report.machine.items()), highlight=False)
    console.print(", ".join(f"{name} {value}" for name, value in report.versions.items()), highlight=False)
    console.print(render_table(report))
    for number, figure in enumerate(report.figures, start=1):
        if figure.note:
            console.print(f"{number:>2}  {figure.note}", markup=False, highlight=False, soft_wrap=True)


def render_table(report: Report) -> Table:
    """One row per figure. The ratio is how many times better than the peer we are."""
    title = f"penstock bench {report.bench} (ratio: how many times better than the peer)"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("", justify="right")
    table.add_column("figure")
    table.add_column("unit")
    for name in ("ours", "peer's", "ratio", "target"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("peer")
    for number, figure in enumerate(report.figures, start=1):
        table.add_row(
            str(number),
            figure.name,
            figure.unit,
            format_number(figure.value),
            format_number(figure.peer_value),
            format_number(figure.ratio),
            _target(figure),
            figure.peer or _NONE,
        )
    return table


def format_number(number: float | None) -> str:
    """Three digits that count, and thousands apart: 1,234, 12.3, 0.0123."""
    if number is None:
        return _NONE
    if abs(number) >= 100:  # noqa: PLR2004 - from here on all digits are in front of the point
        return f"{number:,.0f}"
    return f"{number:.3g}"


def _target(figure: Figure) -> Text:
    if figure.target is None:
        return Text(_NONE)
    least = figure.target_of == "ratio" or figure.better == "more"
    times = "x" if figure.target_of == "ratio" else ""
    text = f"{'>=' if least else '<='} {format_number(figure.target)}{times}"
    return Text(text, style={True: "green", False: "bold red", None: "yellow"}[figure.ok])
