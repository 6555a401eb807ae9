"""The report of audits as one HTML file that needs nothing else."""

from __future__ import annotations

import datetime as dt
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.audit.findings import DivergentRow, StagedRow, StagesFound, TableFindings
    from penstock.core.audit.queries import RowKey
    from penstock.core.audit.report import AuditReport
    from penstock.core.audit.scores import Score

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1b1f24 }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid #d8dee4; vertical-align: top }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
.equal { color: #1a7f37 } .different { color: #cf222e } .other { color: #9a6700 }
code { font: 13px ui-monospace, monospace; overflow-wrap: anywhere }
"""
_WIDTH: Final = 160


def render_html(reports: Sequence[AuditReport]) -> str:
    """Return the whole page."""
    body = "\n".join(_audit(report) for report in reports)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head><title>Audit</title>{head}</head><body>\n{body}\n</body></html>\n'


def _audit(report: AuditReport) -> str:
    when = dt.datetime.fromtimestamp(report.began_at_ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    rows = "\n".join(_table_row(table) for table in report.tables)
    details = "\n".join(_details(table) for table in report.tables)
    numbers = ("score", "partitions", "unequal", "source rows", "target rows", "wrong rows")
    headings = "<th>table<th>state<th>bounds" + "".join(f'<th class="number">{name}' for name in numbers)
    return (
        f"<h1>{escape(report.source)} and {escape(report.sink)}: {_number(report.score)}</h1>"
        f"<p>Pipeline {escape(report.pipeline)}, {when}, {report.seconds:.1f} s, threshold {report.threshold:g}. "
        f"{len(report.below)} table(s) below it, {len(report.unknown)} of which nothing is known.</p>"
        f"<table><tr>{headings}</tr>\n{rows}</table>\n{details}"
    )


def _table_row(table: TableFindings) -> str:
    style = table.state if table.state in {"equal", "different"} else "other"
    counted = (table.equal + table.unequal, table.unequal, table.source_rows, table.target_rows, table.wrong_rows)
    numbers = [_number(table.score), *(f"{number:,}" for number in counted)]
    cells = "".join(f'<td class="number">{text}' for text in numbers)
    state = f'<td class="{style}">{escape(table.state)}'
    return f"<tr><td>{escape(table.table)}{state}<td>{_bar(table.score)}{cells}</tr>"


def _bar(score: Score | None) -> str:
    """Draw the bounds as a bar from 0 to 1, and the score as a line in it."""
    if score is None:
        return ""
    low, high, at = (part * _WIDTH for part in (score.lower, score.upper, score.score))
    title = f"<title>{score.lower:.6g} to {score.upper:.6g}</title>"
    return (
        f'<svg width="{_WIDTH + 2}" height="14" role="img">{title}'
        f'<rect width="{_WIDTH}" height="12" y="1" fill="#eaeef2"/>'
        f'<rect x="{low:.1f}" width="{max(1.0, high - low):.1f}" height="12" y="1" fill="#8fb8e8"/>'
        f'<rect x="{at:.1f}" width="2" height="14" fill="#1b1f24"/></svg>'
    )


def _details(table: TableFindings) -> str:
    items = [table.why] if table.why else []
    items += [f"{each.column} is not compared: {each.why}" for each in table.not_compared]
    if table.not_narrowed:
        items.append(f"{table.not_narrowed} more partitions differ whose rows were not looked at")
    if table.in_flight:
        items.append(f"{table.in_flight} rows changed all the while, so nothing is known of them")
    notes = "".join(f"<li>{escape(item)}" for item in items)
    rows = "\n".join(_row(row) for row in table.rows)
    stages = "" if table.stages is None else _stages(table, table.stages)
    if not (notes or rows or stages):
        return ""
    listed = f"<table><tr><th>key<th>state<th>column<th>source<th>target</tr>{rows}</table>" if rows else ""
    more = table.wrong_rows - len(table.rows)
    left_out = f"<p>{more:,} more wrong rows are not listed.</p>" if more > 0 else ""
    return f"<h2>{escape(table.table)}</h2><ul>{notes}</ul>{listed}{left_out}{stages}"


def _stages(table: TableFindings, found: StagesFound) -> str:
    """The way from the source to the target, stage by stage, and where each wrong row is wrong first."""
    headings = "<th>stage<th>state<th>bounds" + "".join(
        f'<th class="number">{name}' for name in ("score", "rows", "wrong rows")
    )
    stages = "\n".join(_stage(stage, each) for stage, each in (*found.stages, ("target", table)))
    html = f"<h3>By stage</h3><table><tr>{headings}<th>notes</tr>\n{stages}</table>"
    if not found.rows:
        return html
    rows = "\n".join(_staged_row(row) for row in found.rows)
    return f"{html}<table><tr><th>key<th>wrong first in<th>newest message<th>from</tr>\n{rows}</table>"


def _stage(stage: str, found: TableFindings) -> str:
    style = found.state if found.state in {"equal", "different"} else "other"
    notes = [found.why, *(f"{each.column} is not compared: {each.why}" for each in found.not_compared)]
    numbers = [_number(found.score), f"{found.target_rows:,}", f"{found.wrong_rows:,}"]
    cells = "".join(f'<td class="number">{text}' for text in numbers)
    begin = f'<tr><td>{stage}<td class="{style}">{escape(found.state)}<td>{_bar(found.score)}{cells}'
    return f"{begin}<td>{escape('; '.join(note for note in notes if note))}</tr>"


def _staged_row(row: StagedRow) -> str:
    doubt = f"; {' and '.join(row.unknown_in)} no longer has it" if row.unknown_in else ""
    begin = f"<tr><td><code>{escape(_key(row.key))}</code><td>{row.first_wrong}{doubt}"
    message = row.message
    if message is None:
        return f"{begin}<td>none is kept<td></tr>"
    place = f"{message.topic}/{message.partition} offset {message.offset} ({message.op})"
    return f"{begin}<td><code>{escape(place)}</code><td><code>{escape(message.position)}</code></tr>"


def _key(key: RowKey) -> str:
    return ", ".join("NULL" if text is None else text for text in key)


def _row(row: DivergentRow) -> str:
    begin = f"<tr><td><code>{escape(_key(row.key))}</code><td>{row.state}"
    if not row.columns:
        return f"{begin}<td><td><td></tr>"
    return "\n".join(
        f"{begin}<td>{escape(name)}<td>{_value(mine)}<td>{_value(theirs)}</tr>"
        for name, (mine, theirs) in row.columns.items()
    )


def _value(text: str | None) -> str:
    return "<i>NULL</i>" if text is None else f"<code>{escape(text)}</code>"


def _number(score: Score | None) -> str:
    return "?" if score is None else f"{score.score:.6g}"
