"""`penstock status`: where a pipeline stands, whether it runs or not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments import ConfigFile  # noqa: TC001 - Typer reads the annotations when it runs
from penstock.cli.console import format_bytes, format_seconds, open_console
from penstock.cli.console_tables import shown
from penstock.cli.plain_text import printable
from penstock.cli.snapshot_words import snapshot_line
from penstock.cli.status_json import describe
from penstock.core.commands import shell_word
from penstock.wiring.health import police_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from penstock.core.retention import Retention
    from penstock.ports.source_status import SourceStatus
    from penstock.ports.state import LinkProgress
    from penstock.wiring.health import Problem
    from penstock.wiring.overview import Cell, Overview
    from penstock.wiring.pipeline_status import PipelineStatus

app = typer.Typer()


@app.command()
def status(
    file: ConfigFile,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with stable keys.")] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 also where the pipeline is not healthy.")
    ] = False,
) -> None:
    """Show links, positions, lag and rows per table, binlog retention, and problems with their remedies.

    It reads the leader's lock and the state database, and asks the sources how
    far their logs reach, so it works while nothing runs and disturbs nothing
    while something does. Exit code 0 means that the status was read, and
    with --exit-code also that all is well.
    """
    # Imported here so that `status --help` need not wait for SQLAlchemy.
    from penstock.config.load import load  # noqa: PLC0415
    from penstock.wiring.health import find_problems, is_healthy  # noqa: PLC0415
    from penstock.wiring.overview import make_overview  # noqa: PLC0415
    from penstock.wiring.pipeline_status import read_status  # noqa: PLC0415

    spec = load(file)
    status = read_status(spec, ask_sources=True)
    problems = find_problems(status, str(file))
    if as_json:
        typer.echo(json.dumps(describe(spec.pipeline, status, problems), indent=2))
    else:
        _print(open_console(), str(file), make_overview(spec, status, str(file)))
        _print_problems(open_console(), status, problems)
    if exit_code and not is_healthy(status, problems):
        raise typer.Exit(1)


def _print(console: Console, file: str, overview: Overview) -> None:
    status = overview.status
    text, style = _first_line(file, overview.pipeline, status)
    console.print(text, style=style, markup=False, highlight=False)
    if not status.links and not status.tables:
        console.print("nothing is known of it yet: it has not run so far", highlight=False)
        return
    console.print(_link_table(status))
    if status.tables:
        console.print(_table_table(overview))
    if status.audits:
        console.print(_audit_table(status))
    if status.sources:
        console.print(_source_table(status.sources))
    if status.police is not None:
        line = f"police: {police_words(status.police, status.now_ms)}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for each in status.snapshots:
        if not each.status.has_ended:
            source = status.sources_to_name.get((each.source, each.table), "")
            line = f"snapshot of {snapshot_line(each, source)}"
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def _first_line(file: str, pipeline: str, status: PipelineStatus) -> tuple[str, str]:
    """Say whether it runs, and in which style."""
    if status.holder is None:
        return f"whether {pipeline} is running is not known: {status.unanswered}", "bold yellow"
    if status.spark_is_away:
        return f"{pipeline} runs, and Spark is being started again", "bold yellow"
    if status.holder:
        return f"{pipeline} is running ({status.holder})", "bold green"
    return f"{pipeline} is not running; to start it: penstock run {shell_word(file)}", "bold"


def _link_table(status: PipelineStatus) -> Table:
    from rich.text import Text  # noqa: PLC0415

    table = _new_table("link", "state", "position", "lag", "ahead", "stuck for", "as of")
    for link in status.links:
        age = format_seconds(max(0.0, (status.now_ms - link.updated_at_ms) / 1000))
        state = Text(link.state, style="red" if link.error else "")
        lag, stuck = format_seconds(status.lag_seconds(link)), status.stuck_seconds(link)
        waited = format_seconds(stuck) if stuck else ""
        table.add_row(Text(link.link), state, Text(link.position), lag, _ahead(link), waited, f"{age} ago")
    return table


def _ahead(link: LinkProgress) -> str:
    if link.lag_bytes is None and link.lag_messages is not None:
        return f"{link.lag_messages:,} messages"
    return format_bytes(link.lag_bytes)


def _table_table(overview: Overview) -> Table:
    """One row per table: rows at each link, and in brackets how far it is behind there; what is wrong first."""
    from rich.text import Text  # noqa: PLC0415

    stages = overview.stages_of_tables
    table = _new_table("table", "state", *(stage.name for stage in stages), numbers=[stage.name for stage in stages])
    for row in overview.tables:
        cells = [_cell(row.cells.get(stage.name)) for stage in stages]
        table.add_row(shown(row.table), Text(row.state, style="red" if row.is_stopped else ""), *cells)
    return table


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    if cell.state:
        return f"{cell.progress.rows:,} ({cell.state})"
    return f"{cell.progress.rows:,}" + ("" if cell.lag_seconds == 0 else f" ({format_seconds(cell.lag_seconds)})")


def _source_table(sources: Sequence[SourceStatus]) -> Table:
    from rich.text import Text  # noqa: PLC0415

    table = _new_table("source", "end of its log", "binlogs", "size", "needed from", "kept for")
    for source in sources:
        end = Text("?" if source.head is None else str(source.head))
        kept = source.retention
        if kept is None:
            table.add_row(Text(source.source), end, "?", "?", "?", "?")
            continue
        left = _left(kept)
        files = Text(f"{kept.oldest_file} to {kept.newest_file}" if kept.oldest_file else "a slot")
        table.add_row(Text(source.source), end, files, format_bytes(kept.size_bytes), Text(kept.needed_file), left)
    return table


def _audit_table(status: PipelineStatus) -> Table:
    """The newest result of each table that is audited, and of each audit as a whole."""
    from rich.text import Text  # noqa: PLC0415

    table = _new_table("audit", "table", "state", "score", "bounds", "wrong rows", "ended", numbers=["wrong rows"])
    for each in status.audits:
        ended = format_seconds(max(0.0, (status.now_ms - each.began_at_ms) / 1000 - each.seconds))
        style = "red" if each.is_below or each.state == "failed" else ""
        score, bounds = (
            ("?", "?") if each.score is None else (f"{each.score:.6g}", f"{each.lower:.6g} to {each.upper:.6g}")
        )
        state = Text(each.state, style=style)
        if each.table and each.state not in {"failed", "lagging", "not reached"}:
            # What the others have to say is a problem, and stands there.
            state.append(printable(f"\n{each.why}") if each.why else "", style="dim")
        table.add_row(Text(each.audit), shown(each.table), state, score, bounds, f"{each.wrong_rows:,}", f"{ended} ago")
    return table


def _left(kept: Retention) -> str:
    if kept.level == "error":
        return "gone"
    return "ever" if kept.seconds_left is None else f"{format_seconds(kept.seconds_left)} more"


def _new_table(*headings: str, numbers: Sequence[str] = ("lag", "ahead", "stuck for", "size")) -> Table:
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=box.SIMPLE)
    for heading in headings:
        is_number = heading in numbers
        table.add_column(heading, justify="right" if is_number else "left", overflow="fold")
    return table


def _print_problems(console: Console, status: PipelineStatus, problems: Sequence[Problem]) -> None:
    """Each problem in full, and what to do; then what is only good to know."""
    for problem in problems:
        style = "red" if problem.level == "error" else "yellow"
        console.print(f"{problem.subject}: {problem.text}", style=style, markup=False, highlight=False, soft_wrap=True)
        console.print(f"  what to do: {problem.hint}", markup=False, highlight=False, soft_wrap=True)
    for link in status.links:
        if link.dead_letters:
            note = f"{link.link}: {link.dead_letters:,} message(s) went to the dead letters"
            hint = f"penstock deadletters show FILE {link.link}"
            console.print(f"{note}: {hint}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    for (name, table_name), count in status.skipped.items():
        note = f"{name}, {table_name}: {count:,} change(s) were skipped"
        hint = f"penstock table FILE {shell_word(table_name)} --link {name}"
        console.print(f"{note}: {hint}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    for table in status.tables:
        if table.hint and not table.error:
            note = f"{table.link}, {table.table}: {table.hint}"
            console.print(note, style="yellow", markup=False, highlight=False, soft_wrap=True)
