"""`penstock table`: let one table wait, go on, pass a change over, or be forgotten by its target."""

from __future__ import annotations

import getpass
import json
import os
import sys
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments import ConfigFile  # noqa: TC001 - Typer reads the annotations when it runs
from penstock.cli.option_groups import grouped
from penstock.cli.plain_text import printable
from penstock.core.commands import name_file, shell_word
from penstock.core.errors import UsageError
from penstock.ports.table_actions import Action, Stage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.config.specs import PipelineSpec
    from penstock.ports.table_actions import SkippedChange, TableRequest

app = typer.Typer()

_AWAIT_SECONDS = 10.0
_GO_ON_SECONDS = 10.0
"""A table that is tried again goes on, or stops again, within moments."""


@dataclass(frozen=True)
class Place:
    """Where the table is loaded to, and from."""

    link: Annotated[
        str | None, typer.Option("--link", help="Only at this link; by default at all that load the table.")
    ] = None
    source: Annotated[
        str,
        typer.Option("--source", help="Its source, where several have a table of this name, and for all its links."),
    ] = ""


@app.command()
@grouped
def table(
    file: ConfigFile,
    name: Annotated[str, typer.Argument(metavar="TABLE", help="A table of a source, as schema.name.")],
    action: Annotated[Action | None, typer.Argument(metavar="[ACTION]", help="pause, resume, skip or drop.")] = None,
    *,
    place: Place,
    yes: Annotated[bool, typer.Option("--yes", help="Drop without asking.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with stable keys.")] = False,
) -> None:
    """Show a table's requests and skipped changes; or pause, resume, skip or drop it in its targets.

    pause: its loads wait, and nothing is lost. resume: they go on, or are tried again
    at once. skip: passes over the one change that the target refuses, and keeps it.
    drop: ends its loads, until penstock snapshot FILE TABLE --full-refresh.
    The running pipeline does it within a second, or the next one that is started.
    """
    # Imported here so that `table --help` need not wait for SQLAlchemy.
    from penstock.config.load import load  # noqa: PLC0415
    from penstock.wiring.pipeline_status import read_status  # noqa: PLC0415
    from penstock.wiring.table_requests import ask_for_action, await_requests, links_of  # noqa: PLC0415
    from penstock.wiring.table_sources import in_command, source_at  # noqa: PLC0415

    spec = load(file)
    links = links_of(spec, name, place.link, place.source)
    if action is None:
        _show(file, spec, links, name, as_json=as_json)
        return
    if action is Action.DROP and not yes:
        _confirm(name, links)
    asked = ask_for_action(spec, name, action, place.link, _user(), place.source)
    is_running = read_status(spec).holder != ""
    found = await_requests(spec, asked, _AWAIT_SECONDS if is_running else 0.0)
    _print(file, found, (), as_json=as_json)
    if any(each.stage is Stage.REFUSED for each in found):
        raise typer.Exit(1)
    if as_json:
        return
    if any(each.is_open for each in found):
        _say_open(file, in_command(spec, source_at(spec, links[0]), name), is_running=is_running)
    elif action is Action.RESUME:
        _say_what_came_of_it(file, spec, found)


def _user() -> str:
    """Who asks: a user without a name (in a container, say) by its number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def _confirm(name: str, links: Sequence[str]) -> None:
    """Ask whoever sits there. Raises UsageError where nobody does, and Abort for no."""
    what = f"{', '.join(links)} will forget how far {name} is loaded, and load no more of it until a snapshot"
    if not sys.stdin.isatty():
        raise UsageError(what, "to drop it without being asked, give --yes")
    # On standard error: what is on standard output may be for a program.
    typer.confirm(f"{printable(what)}. Drop it?", abort=True, err=True)


def _show(file: Path, spec: PipelineSpec, links: Sequence[str], name: str, *, as_json: bool) -> None:
    from penstock.wiring.open import open_table_actions  # noqa: PLC0415 - see `table`

    with closing(open_table_actions(spec)) as actions:
        requests = [each for each in actions.requests() if each.table == name and each.link in links]
        skipped = [change for link in links for change in actions.skipped(link, name)]
    _print(file, requests, skipped, as_json=as_json)
    if not requests and not skipped and not as_json:
        way = f"see how it is: penstock status {shell_word(file)}"
        typer.echo(f"nobody has asked for anything of {name} at {', '.join(links)}; {way}")


def _print(file: Path, requests: Sequence[TableRequest], skipped: Sequence[SkippedChange], *, as_json: bool) -> None:
    from penstock.cli.console import format_time, open_console  # noqa: PLC0415 - see `table`

    if as_json:
        told = {"requests": [asdict(each) for each in requests], "skipped": [asdict(each) for each in skipped]}
        typer.echo(json.dumps(told, indent=2))
        return
    lines = []
    for each in requests:
        said = each.told or "the link has not done it yet"
        when = format_time(each.asked_at_ms)
        lines.append(f"{each.table} at {each.link}: {each.action} {each.stage} ({each.asked_by}, {when}): {said}")
    for change in skipped:
        place = f"{change.topic}/{change.partition} offset {change.offset}"
        lines.append(f"{change.table} at {change.link}: skipped {place} at {format_time(change.skipped_at_ms)}")
        lines += [f"  {change.reason}", f"  {change.row}"]
    for line in lines:
        open_console().print(name_file(line, str(file)), markup=False, highlight=False, soft_wrap=True)


def _say_what_came_of_it(file: Path, spec: PipelineSpec, found: Sequence[TableRequest]) -> None:
    """Say of each link at which the table was let go on whether it does: a table that stopped may stop again."""
    from penstock.cli.console import say_note  # noqa: PLC0415 - see `table`
    from penstock.wiring.table_requests import still_stopped  # noqa: PLC0415
    from penstock.wiring.table_sources import sources_to_name  # noqa: PLC0415

    sources = sources_to_name(spec, [(each.link, each.table) for each in found])
    stopped = {
        each.link: each for each in still_stopped(spec, found[0].table, [each.link for each in found], _GO_ON_SECONDS)
    }
    for each in found:
        if (still := stopped.get(each.link)) is None:
            say_note(f"{each.table} goes on at {each.link}")
            continue
        hint = name_file(still.hint, str(file), each.table, sources.get((each.link, each.table), ""))
        say_note(f"{each.table} is still stopped at {each.link}: {still.error}\n  what to do: {hint}")


def _say_open(file: Path, typed: str, *, is_running: bool) -> None:
    from penstock.cli.console import say_note  # noqa: PLC0415 - see `table`

    then = f"see what comes of it: penstock table {shell_word(file)} {typed}"
    start = "" if is_running else f"nobody runs the pipeline; to have it done: penstock run {shell_word(file)}; "
    say_note(f"{start}{then}")
