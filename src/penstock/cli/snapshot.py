"""`penstock snapshot`: read rows of tables again while live changes flow."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - Typer reads the fields when it runs
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments import ConfigFile  # noqa: TC001 - Typer reads the annotations when it runs
from penstock.cli.option_groups import grouped
from penstock.core.commands import name_file, shell_word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.config.specs import PipelineSpec
    from penstock.core.snapshots import SnapshotOptions
    from penstock.ports.snapshots import Snapshot

app = typer.Typer()


@dataclass(frozen=True)
class Which:
    """Whose rows."""

    tables: Annotated[
        list[str] | None, typer.Argument(metavar="TABLE...", help="Tables of a source, as schema.name.")
    ] = None
    source: Annotated[
        str, typer.Option("--source", metavar="SOURCE", help="Their source, where several have tables of these names.")
    ] = ""


@dataclass(frozen=True)
class Rows:
    """Which rows, and how fast."""

    where: Annotated[str, typer.Option("--where", metavar="SQL", help="Only rows that meet this condition.")] = ""
    keys: Annotated[
        Path | None,
        typer.Option("--keys", metavar="KEYS", help="Only rows with these primary keys, a line of JSON each; or -."),
    ] = None
    chunk_rows: Annotated[int, typer.Option("--chunk-rows", metavar="N", help="How many rows to read at once.")] = 4000
    rows_per_second: Annotated[
        int, typer.Option("--rows-per-second", metavar="N", help="How many rows to read at most; 0 for no limit.")
    ] = 0
    full_refresh: Annotated[
        bool, typer.Option("--full-refresh", help="Empty the table in targets first, even if a target refuses it.")
    ] = False
    link: Annotated[
        str,
        typer.Option("--link", metavar="LINK", help="Have --full-refresh empty it in the target of this link alone."),
    ] = ""


@dataclass(frozen=True)
class Locks:
    """How rows are read: by default without a lock (MySQL and MariaDB know all three ways)."""

    blackhole: Annotated[
        bool, typer.Option("--blackhole", help="Make the source copy rows into its own log, under short locks.")
    ] = False
    lock_ms: Annotated[
        int, typer.Option("--lock-ms", metavar="N", help="How many milliseconds a lock of --blackhole may last.")
    ] = 200
    full_lock: Annotated[
        bool, typer.Option("--full-lock", help="Lock the table until all of it is read; it needs no primary key.")
    ] = False


@dataclass(frozen=True)
class Action:
    """What to do with snapshots that were asked for before."""

    pause: Annotated[bool, typer.Option("--pause", help="Pause the tables' snapshots.")] = False
    resume: Annotated[bool, typer.Option("--resume", help="Resume paused snapshots.")] = False
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the tables' snapshots.")] = False
    status: Annotated[bool, typer.Option("--status", help="Show how far snapshots are, or how they ended.")] = False

    @property
    def names(self) -> list[str]:
        """What was chosen."""
        chosen = {"pause": self.pause, "resume": self.resume, "cancel": self.cancel, "status": self.status}
        return [name for name, is_set in chosen.items() if is_set]


@app.command()
@grouped
def snapshot(
    file: ConfigFile,
    *,
    which: Which,
    rows: Rows,
    locks: Locks,
    action: Action,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with stable keys.")] = False,
) -> None:
    """Read rows of tables again, and publish them in their topics, while live changes go on.

    The running pipeline does it, or the next run: this command asks for it and
    ends. Without --blackhole and --full-lock nothing is written to the source and
    no row is locked. A table that stopped, or is new in the file, starts over with
    it: targets empty it first.
    """
    # Imported here so that `snapshot --help` need not wait for SQLAlchemy.
    from penstock.cli.snapshot_request import change_snapshots, request_snapshots  # noqa: PLC0415
    from penstock.config.load import load  # noqa: PLC0415
    from penstock.wiring.snapshots import read_snapshots  # noqa: PLC0415

    _require_one_meaning(which.tables, rows, locks, action)
    spec, named = load(file), list(dict.fromkeys(which.tables or ()))
    match action.names:
        case ["status"]:
            found = read_snapshots(spec, named, which.source)
        case [what]:
            found = change_snapshots(spec, named, what, which.source)
        case _:
            found = request_snapshots(spec, named, _options(rows, locks), rows.keys, which.source)
    _show(spec, found, file, as_json=as_json)
    if not as_json:
        _say_who_does_it(spec, found, file)


def _require_one_meaning(tables: list[str] | None, rows: Rows, locks: Locks, action: Action) -> None:
    from penstock.core.errors import UsageError  # noqa: PLC0415 - see `snapshot`

    if len(action.names) > 1:
        message = f"--{' and --'.join(action.names)} exclude each other"
        raise UsageError(message, "give one of them")
    if not tables and action.names != ["status"]:
        message = "no table is named"
        raise UsageError(message, "name tables as schema.name, or give --status")
    if action.names and (rows, locks) != (Rows(), Locks()):
        message = f"--{action.names[0]} takes no options: a snapshot keeps those that it was asked for with"
        hint = "leave them out; to have others: penstock snapshot FILE TABLE --cancel, then ask for it again with them"
        raise UsageError(message, hint)


def _options(rows: Rows, locks: Locks) -> SnapshotOptions:
    from penstock.core.errors import UsageError  # noqa: PLC0415 - see `snapshot`
    from penstock.core.snapshots import LOCK_MS, Method, SnapshotOptions  # noqa: PLC0415

    if locks.blackhole and locks.full_lock:
        message = "--blackhole and --full-lock exclude each other"
        raise UsageError(message, "give --full-lock for a table without a primary key, else --blackhole")
    if locks.lock_ms != LOCK_MS and not locks.blackhole:
        message = "--lock-ms is for the locks of --blackhole"
        raise UsageError(message, "give --blackhole, too, or leave --lock-ms out")
    method = Method.BLACKHOLE if locks.blackhole else Method.FULL_LOCK if locks.full_lock else Method.READ_ONLY
    return SnapshotOptions(
        where=rows.where,
        chunk_rows=rows.chunk_rows,
        rows_per_second=rows.rows_per_second,
        full_refresh=rows.full_refresh or locks.full_lock,
        method=method,
        lock_ms=locks.lock_ms,
        link=rows.link,
    )


def _show(spec: PipelineSpec, found: Sequence[Snapshot], file: Path, *, as_json: bool) -> None:
    from penstock.cli.console import open_console  # noqa: PLC0415 - see `snapshot`
    from penstock.cli.snapshot_words import describe_snapshot, snapshot_line  # noqa: PLC0415
    from penstock.wiring.table_sources import sources_to_name  # noqa: PLC0415

    if as_json:
        typer.echo(json.dumps({"snapshots": [describe_snapshot(each) for each in found]}, indent=2))
        return
    lines = [] if found else [f"no table had a snapshot yet; to take one: penstock snapshot {shell_word(file)} TABLE"]
    sources = sources_to_name(spec, [(each.source, each.table) for each in found])
    for each in found:
        source = sources.get((each.source, each.table), "")
        lines.append(snapshot_line(each, source))
        hint = name_file(each.hint, str(file), each.table, source)
        lines += [f"  {each.error}", f"  what to do: {hint}"] if each.error else []
    for line in lines:
        open_console().print(name_file(line, str(file)), markup=False, highlight=False, soft_wrap=True)


def _say_who_does_it(spec: PipelineSpec, found: Sequence[Snapshot], file: Path) -> None:
    """Say what is needed where something is to be done, and nobody runs the pipeline."""
    from penstock.cli.console import say_note  # noqa: PLC0415 - see `snapshot`
    from penstock.wiring.pipeline_status import read_status  # noqa: PLC0415

    if any(not each.status.has_ended for each in found) and read_status(spec).holder == "":
        say_note(f"nobody runs the pipeline; to have it done: penstock run {shell_word(file)}")
