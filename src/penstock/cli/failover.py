"""`penstock failover`: a source is read from a new master from now on, at the place where we stand."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments import ConfigFile  # noqa: TC001 - Typer reads the annotations when it runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.positions import BinlogPosition
    from penstock.wiring.failover import FailedOver

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
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with stable keys.")] = False,
) -> None:
    """Let a source be read from a new master that has replicated from the old one.

    It finds the position in the new master's log before which everything that was
    published lies, and nothing else; checks that nothing is skipped; and commits it.
    Where it cannot be sure it changes nothing and says why. No
    instance of the pipeline may run meanwhile. The file is left as it is: write
    the new host and port into it afterwards.
    """
    from penstock.cli.console import open_console, say_note  # noqa: PLC0415 - --help must not wait for Kafka's library
    from penstock.cli.leading import leading  # noqa: PLC0415
    from penstock.cli.logs import open_logs  # noqa: PLC0415
    from penstock.config.load import load  # noqa: PLC0415
    from penstock.config.places import log_directory  # noqa: PLC0415
    from penstock.core.errors import UsageError  # noqa: PLC0415
    from penstock.embedded.servers import EmbeddedServers  # noqa: PLC0415
    from penstock.wiring.failover import fail_over, move_source  # noqa: PLC0415
    from penstock.wiring.open import open_lock  # noqa: PLC0415

    if by not in {None, "gtid", "heartbeat"}:
        message = f"--by {by} is no way to find a position"
        raise UsageError(message, "leave it out, or give gtid or heartbeat")
    spec = load(file)
    host, port = _address(to)
    moved = move_source(spec, source, host, port)
    open_logs(log_directory(spec), console=False)
    with leading(spec.pipeline, open_lock(spec), say_note, None), EmbeddedServers(moved, say_note) as servers:
        done = fail_over(servers.spec, source, "gtid" if by == "gtid" else "heartbeat" if by else None)
    known = spec.source(source)
    is_in_file = (known.host, known.port) == (host, port)
    if as_json:
        typer.echo(json.dumps(describe(done, to), indent=2))
        return
    for line in report_lines(done, to, file=str(file), is_in_file=is_in_file):
        open_console().print(line, markup=False, highlight=False, soft_wrap=True)


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
    return [*lines, f"To go on: penstock run {file}"]


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
