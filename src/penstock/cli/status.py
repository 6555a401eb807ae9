"""`penstock status`: where a pipeline stands, whether it runs or not."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments import ConfigFile  # noqa: TC001 - Typer reads the annotations when it runs
from penstock.cli.console import format_bytes, format_seconds, format_time, open_console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from penstock.ports.state import LinkProgress, TableProgress
    from penstock.wiring.standing import Standing

app = typer.Typer()


@app.command()
def status(
    file: ConfigFile,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with stable keys.")] = False,
) -> None:
    """Show links, positions, lag and rows per table, and what went wrong.

    It reads the leader's lock and the state database only, so it works while
    nothing runs and disturbs nothing while something does.
    """
    # Imported here so that `status --help` need not wait for SQLAlchemy.
    from penstock.config.load import load  # noqa: PLC0415
    from penstock.wiring.standing import read_standing  # noqa: PLC0415

    spec = load(file)
    standing = read_standing(spec)
    if as_json:
        typer.echo(json.dumps(describe(spec.pipeline, standing), indent=2))
    else:
        _print(open_console(), spec.pipeline, str(file), standing)


def describe(pipeline: str, standing: Standing) -> dict[str, object]:
    """The object that `--json` prints. Times are Unix milliseconds; what is not known is null."""
    return {
        "pipeline": pipeline,
        "running": None if standing.holder is None else bool(standing.holder),
        "holder": standing.holder or None,
        "links": [_describe_link(link) for link in standing.links],
        "tables": [_describe_table(table, standing.tables) for table in standing.tables],
    }


def lag_behind_capture_seconds(table: TableProgress, tables: Sequence[TableProgress]) -> float:
    """How much newer the newest change of the table is that any link has carried, in seconds of commit time.

    0 for the link that is furthest; a sink's link comes to 0 once it has loaded
    all that was captured. How far capture itself is behind the source is the
    lag of its link.
    """
    newest_ms = max(other.last_timestamp_ms for other in tables if other.table == table.table)
    return (newest_ms - table.last_timestamp_ms) / 1000 if table.last_timestamp_ms else 0.0


def _describe_link(link: LinkProgress) -> dict[str, object]:
    return {
        "link": link.link,
        "state": link.state,
        "position": link.position,
        "lag_seconds": link.lag_seconds,
        "lag_bytes": link.lag_bytes,
        "updated_at_ms": link.updated_at_ms,
        "error": link.error or None,
        "hint": link.hint or None,
    }


def _describe_table(table: TableProgress, tables: Sequence[TableProgress]) -> dict[str, object]:
    return {
        "link": table.link,
        "table": table.table,
        "rows": table.rows,
        "newest_change_ms": table.last_timestamp_ms or None,
        "lag_seconds": lag_behind_capture_seconds(table, tables),
        "updated_at_ms": table.updated_at_ms,
        "error": table.error or None,
        "hint": table.hint or None,
    }


def _print(console: Console, pipeline: str, file: str, standing: Standing) -> None:
    if standing.holder is None:
        text = f"whether {pipeline} is running is not known: {standing.unanswered}"
        console.print(text, style="bold yellow", markup=False, highlight=False)
    elif standing.holder:
        console.print(f"{pipeline} is running ({standing.holder})", style="bold green", highlight=False)
    else:
        console.print(f"{pipeline} is not running; to start it: penstock run {file}", style="bold", highlight=False)
    if not standing.links and not standing.tables:
        console.print("nothing is known of it yet: it has not run so far", highlight=False)
        return
    console.print(_link_table(standing.links, time.time()))
    if standing.tables:
        console.print(_table_table(standing.tables))
    _print_errors(console, file, standing)


def _link_table(links: Sequence[LinkProgress], now: float) -> Table:
    from rich.text import Text  # noqa: PLC0415

    table = _new_table("link", "state", "position", "lag", "bytes behind", "as of")
    for link in links:
        age = format_seconds(max(0.0, now - link.updated_at_ms / 1000))
        state = Text(link.state, style="red" if link.error else "")
        lag, bytes_behind = format_seconds(link.lag_seconds), format_bytes(link.lag_bytes)
        table.add_row(Text(link.link), state, Text(link.position), lag, bytes_behind, f"{age} ago")
    return table


def _table_table(tables: Sequence[TableProgress]) -> Table:
    from rich.text import Text  # noqa: PLC0415

    table = _new_table("link", "table", "rows", "newest change", "behind", "")
    for progress in tables:
        behind = format_seconds(lag_behind_capture_seconds(progress, tables))
        stopped = Text("stopped", style="red") if progress.error else Text("see below" if progress.hint else "")
        newest = format_time(progress.last_timestamp_ms)
        table.add_row(Text(progress.link), Text(progress.table), f"{progress.rows:,}", newest, behind, stopped)
    return table


def _new_table(*headings: str) -> Table:
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=box.SIMPLE)
    for heading in headings:
        is_number = heading in {"rows", "lag", "behind", "bytes behind"}
        table.add_column(heading, justify="right" if is_number else "left", overflow="fold")
    return table


def _print_errors(console: Console, file: str, standing: Standing) -> None:
    """Each error in full, and what to type."""
    for link in standing.links:
        if link.error:
            _print_error(console, link.link, link.error, link.hint, f"penstock run {file}")
    for table in standing.tables:
        if table.error:
            _print_error(console, f"{table.link}, {table.table}", table.error, table.hint, f"penstock run {file}")
        elif table.hint:
            note = f"{table.link}, {table.table}: {table.hint}"
            console.print(note, style="yellow", markup=False, highlight=False, soft_wrap=True)


def _print_error(console: Console, where: str, error: str, hint: str, command: str) -> None:
    console.print(f"{where}: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
    console.print(f"  what to do: {hint}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"  then type: {command}", markup=False, highlight=False, soft_wrap=True)
