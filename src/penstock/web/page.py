"""The live page's HTML: whole for who comes, and its parts for who watches."""

from __future__ import annotations

import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from penstock.core.commands import shell_word
from penstock.ports.history import DAY, HOUR
from penstock.web import charts
from penstock.wiring.health import police_words
from penstock.wiring.overview import UP_TO_DATE
from penstock.wiring.snapshot_progress import seconds_left, share_done, state_word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.ports.snapshots import Snapshot as SnapshotOfTable
    from penstock.wiring.overview import Overview, Stage

# Content Security Policy Level 3: nothing from elsewhere, nothing inline, in nobody's frame.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

TABLES_MAX = 200
"""Tables that the page shows: those with trouble first. `penstock status` shows all."""

_PARTS = re.compile(r'(?=<section data-part=")')
_NAME = re.compile(r'<section data-part="(\w+)"')
_RECENT_MS = 600_000
_ENDED_LATELY_MS = 3_600_000
_FINDINGS_MAX = 200
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_KIBI = 1024


def render_page(pipeline: str, parts: Mapping[str, str], unanswered: str, *, signs_in: bool = False) -> str:
    """The whole page; without `parts`, which are trusted, `unanswered` says why there is nothing.

    With `signs_in` there is a link to do so.
    """
    told = "" if parts else unanswered or "the state database has not answered for a while"
    page = _templates().get_template("page.html")
    return page.render(pipeline=pipeline, parts="".join(parts.values()), told=told, signs_in=signs_in)


def render_parts(overview: Overview, *, acts: bool = True) -> Mapping[str, str]:
    """All that changes on the page, by the names of its parts; `acts` offers what may be done to tables."""
    now_ms = overview.status.now_ms
    recent = [
        stage
        for stage in overview.stages
        if stage.progress is not None and stage.state == "running" and stage.progress.failed_at_ms > now_ms - _RECENT_MS
    ]
    html = (
        _templates()
        .get_template("parts.html")
        .render(
            view=overview,
            status=overview.status,
            acts=acts,
            now_ms=now_ms,
            recent=recent,
            charts=[(stage, _charts(overview, stage)) for stage in overview.stages],
            tables=overview.tables[:TABLES_MAX],
            tables_left=overview.tables[TABLES_MAX:],
            unwell_left=sum(row.state != UP_TO_DATE for row in overview.tables[TABLES_MAX:]),
            snapshots=_snapshots(overview),
            police=overview.status.police and police_words(overview.status.police, now_ms),
            findings_max=_FINDINGS_MAX,
            width=charts.WIDTH,
            height=charts.HEIGHT,
        )
    )
    sections = [section for section in _PARTS.split(html) if section.strip()]
    return {_NAME.match(section)[1]: section for section in sections}  # type: ignore[index]  # each begins so


def _snapshots(overview: Overview) -> Sequence[tuple[SnapshotOfTable, str, float | None, float | None]]:
    """Snapshots that are under way or ended lately: how each is, its share and the seconds left."""
    now_ms = overview.status.now_ms
    shown = [
        each
        for each in overview.status.snapshots
        if not each.status.has_ended or each.updated_at_ms > now_ms - _ENDED_LATELY_MS
    ]
    return [(each, state_word(each), share_done(each), seconds_left(each)) for each in shown]


def _charts(overview: Overview, stage: Stage) -> Sequence[tuple[str, str, charts.Chart, charts.Chart]]:
    """What a link did in the last hour and day: the span, how long it is, throughput and lag."""
    status = overview.status
    spans = (("last hour", "1 h", HOUR, status.samples), ("last day", "24 h", DAY, status.day_samples))
    drawn = []
    for name, length, ring, of_links in spans:
        samples = of_links.get(stage.name, ())
        rows = charts.draw(charts.throughput(samples, ring), ring, status.now_ms)
        drawn.append((name, length, rows, charts.draw(charts.lag(samples), ring, status.now_ms)))
    return drawn


@lru_cache(1)
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("penstock.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(count=_count, duration=_duration, rate=_rate, size=_size, clock=_clock)
    environment.filters.update(shell_word=shell_word)
    return environment


def _count(number: int) -> str:
    """Write a number with thin spaces between its thousands."""
    return f"{number:,}".replace(",", "\u202f")


def _rate(rows_per_second: float | None) -> str:
    if rows_per_second is None:
        return "?"
    return f"{rows_per_second:.1f}" if 0 < rows_per_second < 10 else _count(round(rows_per_second))  # noqa: PLR2004


def _duration(seconds: float | None) -> str:
    """Write a duration in its largest unit, or two where the second still matters."""
    if seconds is None:
        return "?"
    if seconds < _MINUTE:
        return f"{seconds:.0f} s" if seconds >= 1 or not seconds else "< 1 s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE:.0f} min"
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR:.0f} h {seconds % _HOUR // _MINUTE:.0f} min"
    return f"{seconds // _DAY:.0f} days"


def _size(count: int | None) -> str:
    if count is None:
        return "?"
    size, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < _KIBI or unit == "TiB":
            break
        size /= _KIBI
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def _clock(unix_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(unix_ms / 1000))
