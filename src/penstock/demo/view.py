"""The demo's page: a live one on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final, Self

from rich.console import Group
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console, RenderableType

    from penstock.demo.figures import Figures, TableFigures

_LINE_EVERY_SECONDS: Final = 5.0
_REFRESH_PER_SECOND: Final = 4
_NOTES_MAX: Final = 5
_BEHIND_SECONDS: Final = 5.0
_BAR_WIDTH: Final = 40


class Page:
    """Shows figures as they change. On a terminal one page is redrawn; elsewhere a line comes every five seconds."""

    def __init__(self, console: Console) -> None:
        """Draw on `console`, inside of a `with` block."""
        self._console = console
        self._live = Live(console=console, refresh_per_second=_REFRESH_PER_SECOND) if console.is_terminal else None
        self._notes: deque[str] = deque(maxlen=_NOTES_MAX)
        self._line_at = 0.0
        self._line_phase = ""

    def __enter__(self) -> Self:
        """Begin to draw."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the last page on the terminal."""
        if self._live is not None:
            self._live.stop()

    @property
    def notes(self) -> tuple[str, ...]:
        """The last notes, oldest first."""
        return tuple(self._notes)

    def note(self, text: str) -> None:
        """Tell something once; it stays on the page for a while."""
        self._notes.append(text)
        if self._live is None:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, figures: Figures) -> None:
        """Draw `figures`; cheap enough to be called ten times a second."""
        if self._live is not None:
            self._live.update(render_page(figures))
            return
        now = time.monotonic()
        if figures.phase != self._line_phase or now - self._line_at >= _LINE_EVERY_SECONDS:
            self._line_at, self._line_phase = now, figures.phase
            self._console.print(render_line(figures), markup=False, highlight=False, soft_wrap=True)


def render_page(figures: Figures) -> RenderableType:
    """Return the whole page."""
    parts: list[RenderableType] = [_headline(figures)]
    if figures.workload.share_done:
        bar = ProgressBar(total=1.0, completed=figures.workload.share_done, width=_BAR_WIDTH)
        # A bar alone ends without a line break.
        parts.append(Padding(bar, (0, 0, 1, 0)))
    if figures.tables:
        parts.append(_tables(figures))
    parts += [_one_line(f"{link.link}: {link.error}", "bold red") for link in figures.links if link.error]
    parts += [_one_line(note, "dim") for note in figures.notes]
    return Panel(Group(*parts), title="penstock demo", title_align="left", padding=(0, 1))


def render_line(figures: Figures) -> str:
    """Return the page in one line."""
    parts = [f"{figures.phase} ({figures.phase_seconds:.0f} s)"]
    workload, latency = figures.workload, figures.latency
    if workload.changes_total:
        parts.append(f"source {workload.changes_total:,} changes, {workload.rate:,.0f}/s: {workload.doing}")
    if figures.detail:
        parts.append(figures.detail)
    if _arrived(figures):
        parts.append(f"warehouse {_arrived(figures):,} rows, {figures.arrived_per_second:,.0f}/s")
        parts.append(f"lag {_seconds(_worst_lag(figures.tables))}")
    if latency.samples:
        parts.append(f"commit to queryable p50 {_ms(latency.p50_ms)}, p99 {_ms(latency.p99_ms)}")
    return " | ".join(parts)


def _headline(figures: Figures) -> Text:
    workload, latency = figures.workload, figures.latency
    text = Text.assemble((figures.phase, "bold cyan"), f"  {figures.phase_seconds:.0f} s  {figures.detail}\n")
    if workload.changes_total:
        text.append(f"source      {workload.changes_total:>10,} changes  {workload.rate:>7,.0f}/s   {workload.doing}\n")
    if figures.tables:
        text.append(f"warehouse   {_arrived(figures):>10,} rows     {figures.arrived_per_second:>7,.0f}/s\n")
    if latency.samples:
        text.append(
            f"commit to queryable   p50 {_ms(latency.p50_ms)}   p99 {_ms(latency.p99_ms)}   "
            f"now {_ms(latency.recent_p50_ms)}   ({latency.pending} on their way)\n"
        )
    return text


def _one_line(text: str, style: str) -> Text:
    return Text(text.replace("\n", " "), style=style, no_wrap=True, overflow="ellipsis")


def _tables(figures: Figures) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("table")
    for title in ("changed in the source", "arrived", "arriving/s", "lag"):
        table.add_column(title, justify="right")
    for one in figures.tables:
        stopped = Text("stopped", style="bold red") if one.error else _lag(one)
        table.add_row(
            one.table, f"{one.source_changes:,}", f"{one.arrived:,}", f"{one.arrived_per_second:,.0f}", stopped
        )
    return table


def _lag(table: TableFigures) -> Text:
    behind = table.lag_seconds is None or table.lag_seconds > _BEHIND_SECONDS
    return Text(_seconds(table.lag_seconds), style="yellow" if behind else "green")


def _worst_lag(tables: tuple[TableFigures, ...]) -> float | None:
    known = [table.lag_seconds for table in tables if table.lag_seconds is not None]
    return max(known) if known else None


def _arrived(figures: Figures) -> int:
    return sum(table.arrived for table in figures.tables)


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.0f} s"


def _ms(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds:,.0f} ms"
