"""`penstock deadletters`: what spolts and joins could not process, shown, and that of spolts replayed."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments import ConfigFile  # noqa: TC001 - Typer reads the annotations when it runs
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.links.spolts.replay import FoundLetter, Replayed

app = typer.Typer(no_args_is_help=True, help="Show what spolts and joins could not process; replay that of spolts.")

_FAILED = 1
_SHOWN_CHARACTERS = 80


@app.command()
def show(
    file: ConfigFile,
    spolt: Annotated[
        str | None, typer.Argument(metavar="LINK", help="One spolt or join; all of them if left out.")
    ] = None,
    *,
    last: Annotated[int, typer.Option("--last", metavar="N", min=1, help="Of each the newest N.")] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with stable keys.")] = False,
) -> None:
    """List dead letters: where each came from, why it is one, and whether it was replayed."""
    from penstock.cli.console import format_time, open_console, say_note  # noqa: PLC0415 - --help must not wait
    from penstock.cli.console_tables import print_rows  # noqa: PLC0415
    from penstock.config.load import load  # noqa: PLC0415
    from penstock.embedded.reach import reach_embedded  # noqa: PLC0415
    from penstock.wiring.dead_letters import find_letters  # noqa: PLC0415

    spec = load(file)
    names = [*(join.name for join in spec.joins), *(each.name for each in spec.spolts)] if spolt is None else [spolt]
    with reach_embedded(spec, say_note) as reached:
        found = {name: find_letters(reached, name, last) for name in names}
    if as_json:
        listed = [describe(name, each) for name, letters in found.items() for each in letters]
        typer.echo(json.dumps({"pipeline": spec.pipeline, "letters": listed}, indent=2))
        return
    for name, letters in found.items():
        rows = [
            (
                str(each.offset),
                each.letter.message.place,
                format_time(each.letter.failed_at_ms),
                "yes" if each.replayed else "no",
                each.letter.error,
                _glimpse(each.letter.message.value),
            )
            for each in letters
        ]
        headings = ("offset", "message", "failed at", "replayed", "error", "value")
        print_rows(open_console(), f"{name}: {len(letters)} dead letter(s)", headings, rows)


@app.command()
def replay(
    file: ConfigFile,
    spolt: Annotated[str, typer.Argument(metavar="SPOLT", help="The spolt's name in the file.")],
    *,
    offset: Annotated[
        list[int] | None, typer.Option("--offset", metavar="N", help="One letter, as `show` numbers it; repeatable.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Also letters that were replayed before.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with stable keys.")] = False,
    answer_fd: Annotated[
        int | None, typer.Option(hidden=True, help="Start no servers, and write what came of it to this open file.")
    ] = None,
) -> None:
    """Process dead letters again, with the code as it is now, and publish what comes of them, each once.

    It may run while the pipeline does. Letters that fail again stay where they are;
    the exit code is 1 then. Those of a spolt with expressions cannot be replayed.
    """
    from penstock.cli.console import open_console, say_note  # noqa: PLC0415 - --help must not wait for Kafka's library
    from penstock.config.load import load  # noqa: PLC0415
    from penstock.embedded.reach import reach_embedded  # noqa: PLC0415
    from penstock.web.replay_answers import write_answer  # noqa: PLC0415
    from penstock.wiring.dead_letters import replay_letters, require_replayable  # noqa: PLC0415

    try:
        spec = load(file)
        require_replayable(spec, spolt)
        with reach_embedded(spec, say_note, may_start=answer_fd is None) as reached:
            done = replay_letters(reached, spolt, set(offset or ()), again=again)
    except PenstockError as error:
        if answer_fd is not None:
            write_answer(answer_fd, error)
        raise
    if answer_fd is not None:
        write_answer(answer_fd, done)
    if as_json:
        typer.echo(json.dumps(describe_replay(spolt, done), indent=2))
    else:
        for line in _report(done):
            open_console().print(line, markup=False, highlight=False, soft_wrap=True)
    if done.failed:
        raise typer.Exit(_FAILED)


def describe(spolt: str, found: FoundLetter) -> dict[str, object]:
    """One letter as `--json` prints it; key and value are in base 64, and as text where they are UTF-8."""
    letter = found.letter
    message = letter.message
    return {
        "spolt": spolt,
        "offset": found.offset,
        "topic": message.topic,
        "partition": message.partition,
        "message_offset": message.offset,
        "timestamp_ms": message.timestamp_ms,
        "failed_at_ms": letter.failed_at_ms,
        "error": letter.error,
        "replayed": found.replayed,
        "key": _base64(message.key),
        "value": _base64(message.value),
        "key_text": _text(message.key),
        "value_text": _text(message.value),
    }


def describe_replay(spolt: str, done: Replayed) -> dict[str, object]:
    """The object that `replay --json` prints; letters by their offset."""
    return {
        "spolt": spolt,
        "replayed": list(done.published),
        "replayed_before": list(done.before),
        "failed": {str(offset): reason for offset, reason in done.failed.items()},
    }


def _report(done: Replayed) -> Sequence[str]:
    lines = [f"{len(done.published)} letter(s) replayed"]
    if done.before:
        lines.append(f"{len(done.before)} letter(s) were replayed before, and left alone (--again replays them too)")
    lines += [f"the letter at offset {offset} fails again: {reason}" for offset, reason in done.failed.items()]
    return lines


def _glimpse(content: bytes | None) -> str:
    if content is None:
        return "(tombstone)"
    text = content[:_SHOWN_CHARACTERS].decode("utf-8", "backslashreplace")
    return text if len(content) <= _SHOWN_CHARACTERS else f"{text}..."


def _base64(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _text(content: bytes | None) -> str | None:
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return None
