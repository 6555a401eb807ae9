"""`penstock joinery rebuild`: have a join made again from its topics."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.arguments import ConfigFile  # noqa: TC001 - Typer reads the annotations when it runs


def rebuild(
    file: ConfigFile,
    join: Annotated[str, typer.Argument(metavar="JOIN", help="The join, by its output's `source`.")],
) -> None:
    """Remove the state of a join: the next run empties its table, and fills it from the topics as the file is then.

    For a file whose change the state cannot follow, or an output that `penstock
    joinery verify` found wrong. The topics must have all of their messages. Stop the
    pipeline first.
    """
    # Imported here so that `joinery rebuild --help` need not wait for Kafka's library.
    from penstock.cli.console import say_note  # noqa: PLC0415
    from penstock.cli.joinery_verify import chosen_joins  # noqa: PLC0415
    from penstock.config.load import load  # noqa: PLC0415
    from penstock.core.errors import UsageError  # noqa: PLC0415
    from penstock.wiring.joins import remove_state  # noqa: PLC0415
    from penstock.wiring.open import open_lock  # noqa: PLC0415

    spec = load(file)
    (chosen,) = chosen_joins(spec, str(file), join)
    lock = open_lock(spec)
    if not lock.acquire(0.0):
        message = f"the pipeline {spec.pipeline} runs, and its join {join} writes to its state"
        raise UsageError(message, "stop it first, then type this again")
    try:
        remove_state(spec, chosen.name)
    finally:
        lock.release()
    say_note(f"the next run makes {chosen.name} again from its topics: penstock run {file}")
