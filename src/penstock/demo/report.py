"""What the demo prints at its end: one table, and what to try next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from penstock.core.commands import shell_word

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from penstock.demo.phases import DemoResult
    from penstock.demo.pipeline import DemoPipeline


def print_result(console: Console, result: DemoResult) -> None:
    """Print the comparison, with the first differing rows if there are any, and the figures of the run."""
    table = Table(title="Source and warehouse, compared row by row", title_justify="left", title_style="bold")
    table.add_column("table")
    for title in ("source rows", "warehouse rows", "differences"):
        table.add_column(title, justify="right")
    for one in result.compared:
        style = "bold red" if one.differences else "green"
        different = Text(f"{one.differences:,}", style=style)
        table.add_row(one.table, f"{one.source_rows:,}", f"{one.warehouse_rows:,}", different)
    table.add_section()
    total = sum(one.differences for one in result.compared)
    table.add_row(
        "all",
        f"{sum(one.source_rows for one in result.compared):,}",
        f"{sum(one.warehouse_rows for one in result.compared):,}",
        Text(f"{total:,}", style="bold red" if total else "bold green"),
    )
    console.print()
    console.print(table)
    for one in result.compared:
        for example in one.examples:
            console.print(f"  {one.table}: {example}", style="red", markup=False, highlight=False, soft_wrap=True)
    console.print(_figures(result), soft_wrap=True, highlight=False)


def print_next_steps(console: Console, pipeline: DemoPipeline) -> None:
    """Print where everything is and what can be done with it, each command as it can be typed."""
    file = _short(pipeline.file)
    typed = shell_word(file)
    sql = "SELECT tier, count(*), sum(spent) FROM shop.ad_packages GROUP BY tier ORDER BY tier"
    log = "SELECT _op, count(*) FROM shop.audit_log GROUP BY _op"
    lines = [
        ("Where it is", ""),
        ("  the pipeline's file", file),
        ("  the warehouse", _short(pipeline.warehouse)),
        ("  the source's data and log", _short(pipeline.source_home)),
        ("  Kafka, state, schemas, logs", _short(pipeline.home)),
        ("What to try next", ""),
        ("  how far every link and table came", f"penstock status {typed}"),
        ("  prove that it is equal", f"{pipeline.password_assignment} penstock audit {typed}"),
        ("  a query", f'penstock sql {typed} "{sql}"'),
        ("  a table without primary key is a log", f'penstock sql {typed} "{log}"'),
        ("  what the file means", f"penstock check {typed}"),
        (
            "  start the source again",
            f"penstock dev up {pipeline.source_kind.name} --home {shell_word(_short(pipeline.source_parent))}",
        ),
        ("  and go on with the pipeline", f"{pipeline.password_assignment} penstock run {typed}"),
        (
            "  the demo anew, with fresh data",
            f"penstock demo --source {pipeline.source}   (deletes what is listed above)",
        ),
    ]
    console.print()
    for label, what in lines:
        style = "" if what else "bold"
        text = f"{label:<42}{what}".rstrip()
        console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def _figures(result: DemoResult) -> str:
    workload, latency = result.workload, result.latency
    did = f"{workload.changes_total:,} row changes and {len(workload.schema_changes)} schema changes"
    lines = [
        f"workload             {did} in {workload.seconds:.0f} s, {workload.rate:,.0f} row changes a second",
        f"first row            {result.first_row_seconds:.0f} s after the pipeline's start",
    ]
    if latency.p50_ms is not None and latency.p99_ms is not None:
        unseen = f", {latency.pending} not seen" if latency.pending else ""
        times = f"p50 {latency.p50_ms:,.0f} ms, p99 {latency.p99_ms:,.0f} ms"
        lines.append(f"commit to queryable  {times} ({latency.samples} samples{unseen})")
    else:
        lines.append("commit to queryable  no sample was seen in the warehouse")
    audited = result.audited
    said = "nothing differs" if audited.is_equal else "not equal, or not known: see penstock audit"
    lines.append(
        f"audit                score {audited.score} of {audited.tables} tables in {audited.seconds:.0f} s: {said}"
    )
    if workload.error:
        lines.append(f"the workload failed: {workload.error}")
    return "\n".join(lines)


def _short(path: Path) -> str:
    """Return the path from the working directory where it lies below it."""
    try:
        return str(path.relative_to(path.cwd()))
    except ValueError:
        return str(path)
