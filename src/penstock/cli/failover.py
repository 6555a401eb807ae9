"""`penstock failover`: a source is read from a new master from now on, at the place where we stand."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments import ConfigFile  # noqa: TC001 - Typer reads the annotations when it runs
from penstock.core.commands import shell_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.config.specs import PipelineSpec
    from penstock.core.positions import BinlogPosition
    from penstock.wiring.failover import FailedOver
    from penstock.wiring.postgres_failover import SlotFound

app = typer.Typer()

_PORT_MAX = 65_535


@app.command()
def failover(
    file: ConfigFile,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The source's name in the file.")],
    *,
    to: Annotated[str, typer.Option("--to", metavar="HOST:PORT", help="The new master, promoted already.")],
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="gtid|heartbeat", help="How to find the position; by GTIDs if it has any."),
    ] = None,
    new_slot: Annotated[
        bool,
        typer.Option("--new-slot", help="PostgreSQL: make a slot there, and have the rows of all tables read again."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with stable keys.")] = False,
) -> None:
    """Let a source be read from a new master that has replicated from the old one.

    It finds the position in the new master's log before which everything that was
    published lies, and nothing else; checks that nothing is skipped; and commits it.
    Of PostgreSQL it checks that the slot is there, with the log behind the position;
    else --new-slot goes on with a new slot and snapshots of all tables. Where it
    cannot be sure it changes nothing and says why. No instance of the pipeline may
    run meanwhile. The file is left as it is: write host and port into it afterwards.
    """
    from penstock.cli.logs import open_logs  # noqa: PLC0415 - --help must not wait for Kafka's library
    from penstock.config.load import load  # noqa: PLC0415
    from penstock.config.places import log_directory  # noqa: PLC0415
    from penstock.wiring.failover import fail_over, move_source  # noqa: PLC0415
    from penstock.wiring.postgres_failover import follow_slot, take_new_slot  # noqa: PLC0415

    spec = load(file)
    host, port = _address(to)
    moved = move_source(spec, source, host, port)
    known = spec.source(source)
    _require_fitting(known.kind, by=by, new_slot=new_slot)
    open_logs(log_directory(spec), console=False)
    is_in_file = (known.host, known.port) == (host, port)
    with _leading(spec, moved) as led:
        if known.kind == "postgres":
            found = (take_new_slot if new_slot else follow_slot)(led, source)
            described, lines = describe_slot(found, to), slot_lines(found, to, file=str(file), is_in_file=is_in_file)
        else:
            done = fail_over(led, source, "gtid" if by == "gtid" else "heartbeat" if by else None)
            described, lines = describe(done, to), report_lines(done, to, file=str(file), is_in_file=is_in_file)
    _print(described, lines, as_json=as_json)


def _print(described: dict[str, object], lines: Sequence[str], *, as_json: bool) -> None:
    from penstock.cli.console import open_console  # noqa: PLC0415 - see `failover`

    if as_json:
        typer.echo(json.dumps(described, indent=2))
        return
    for line in lines:
        open_console().print(line, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _leading(spec: PipelineSpec, moved: PipelineSpec) -> Iterator[PipelineSpec]:
    """Hold the pipeline's lock for a `with` block, its state of this release; give `moved` with its servers running."""
    from penstock.cli.console import say_note  # noqa: PLC0415 - see `failover`
    from penstock.cli.leading import leading  # noqa: PLC0415
    from penstock.embedded.servers import EmbeddedServers  # noqa: PLC0415
    from penstock.wiring.identity import prepare_state  # noqa: PLC0415
    from penstock.wiring.open import open_lock  # noqa: PLC0415

    with leading(spec.pipeline, open_lock(spec), say_note, None):
        prepare_state(spec)
        with EmbeddedServers(moved, say_note) as servers:
            yield servers.spec


def _require_fitting(kind: str, *, by: str | None, new_slot: bool) -> None:
    from penstock.core.errors import UsageError  # noqa: PLC0415 - see `failover`

    if by not in {None, "gtid", "heartbeat"}:
        message = f"--by {by} is no way to find a position"
        raise UsageError(message, "leave it out, or give gtid or heartbeat")
    if kind == "postgres" and by is not None:
        message = "--by is for MySQL and MariaDB: the position of a PostgreSQL source is that of its slot"
        raise UsageError(message, "leave it out")
    if kind != "postgres" and new_slot:
        message = "--new-slot is for PostgreSQL: other logs have no slots"
        raise UsageError(message, "leave it out")


def describe_slot(done: SlotFound, address: str) -> dict[str, object]:
    """The object that `--json` prints for a PostgreSQL source."""
    return {
        "source": done.source,
        "changed": done.is_new,
        "by": "new slot" if done.is_new else "slot",
        "address": address,
        "slot": done.slot,
        "before": {**done.before.to_mapping(), "server": done.server_before or None},
        "after": {**done.after.to_mapping(), "server": done.server},
        "read_again": list(done.read_again),
        "left": list(done.left),
        "notes": list(done.notes),
    }


def slot_lines(done: SlotFound, address: str, *, file: str, is_in_file: bool) -> Sequence[str]:
    """What became of a PostgreSQL source, line by line, for people; see `report_lines`."""
    from penstock.wiring.postgres_failover import wal_place_in_words  # noqa: PLC0415 - see `failover`

    lines = [
        f"{done.source} goes on at {address}",
        f"  old position  {wal_place_in_words(done.before)}",
        f"  new position  {wal_place_in_words(done.after)}",
        f"  slot          {done.slot}, {'made anew' if done.is_new else 'which has all that was not published yet'}",
    ]
    if done.is_new:
        lines.append(f"  read again    {len(done.read_again)} table(s), when the pipeline runs")
    lines += [f"  note          {note}" for note in done.notes]
    if done.left:
        lines.append(
            f"  left out      {', '.join(done.left)}: without a primary key, or not in the source; they stay stopped"
        )
    if not is_in_file:
        lines.append(f"Now write {address} into {file}, as host and port of {done.source}.")
    return [*lines, f"To go on: penstock run {shell_word(file)}"]


def describe(done: FailedOver, address: str) -> dict[str, object]:
    """The object that `--json` prints."""
    return {
        "source": done.source,
        "changed": done.way is not None,
        "by": done.way,
        "address": address,
        "before": {**_describe_place(done.before), "server": done.server_before or None},
        "after": {**_describe_place(done.after), "server": done.server},
        "transactions_behind": done.behind,
        "notes": list(done.notes),
    }


def report_lines(done: FailedOver, address: str, *, file: str, is_in_file: bool) -> Sequence[str]:
    """What a failover did, line by line, for people; `is_in_file` says that the file has the new address already."""
    from penstock.wiring.failover import place_in_words  # noqa: PLC0415 - see `failover`

    if done.way is None:
        return done.notes
    heartbeat, by = done.before.heartbeat, "GTIDs"
    if done.way == "heartbeat" and heartbeat is not None:
        by = f"heartbeat {heartbeat.serial}, and {heartbeat.transactions} transaction(s) after it that are the same"
    lines = [
        f"{done.source} goes on at {address}",
        f"  old position  {place_in_words(done.before)}, on {done.server_before or 'an unknown server'}",
        f"  new position  {place_in_words(done.after)}, on {done.server}",
        f"  found by      {by}",
        f"  after it      {done.behind} transaction(s) to be carried",
        *(f"  note          {note}" for note in done.notes),
    ]
    if not is_in_file:
        lines.append(f"Now write {address} into {file}, as host and port of {done.source}.")
    return [*lines, f"To go on: penstock run {shell_word(file)}"]


def _describe_place(place: BinlogPosition) -> dict[str, object]:
    return {
        "file": place.file,
        "offset": place.offset,
        "gtids": place.gtids or None,
        "era": place.timeline,
        "heartbeat": asdict(place.heartbeat) if place.heartbeat else None,
    }


def _address(text: str) -> tuple[str, int]:
    from penstock.core.errors import UsageError  # noqa: PLC0415 - see `failover`

    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) <= _PORT_MAX:
        message = f"--to {text} is no address"
        raise UsageError(message, "write it as HOST:PORT, such as db2.example.com:3306")
    return host.strip("[]"), int(port)
