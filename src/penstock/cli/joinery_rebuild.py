"""`penstock joinery rebuild`: have a join made again from its topics."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.arguments import ConfigFile  # noqa: TC001 - Typer reads the annotations when it runs
from penstock.core.commands import shell_word


def rebuild(
    file: ConfigFile,
    join: Annotated[str, typer.Argument(metavar="JOIN", help="The join, by its output's `source`.")],
    *,
    empty: Annotated[
        bool, typer.Option("--empty", help="Empty its table first: for an output that does not fit its state.")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Take back what was asked for, if it is not done yet.")
    ] = False,
) -> None:
    """Have the next run make a join again from its topics, as the file is then, beside the table that there is.

    The join as it was goes on until the new state has caught up. Then what differs is
    published in one transaction, and the join goes on with the new state. For a file
    whose change the state cannot follow, and for more `parallelism`. The topics must
    have all of their messages. Stop the pipeline first.
    """
    # Imported here so that `joinery rebuild --help` need not wait for Kafka's library.
    from penstock.cli.console import say_note  # noqa: PLC0415
    from penstock.cli.joinery_verify import chosen_joins  # noqa: PLC0415
    from penstock.config.load import load  # noqa: PLC0415
    from penstock.core.errors import UsageError  # noqa: PLC0415
    from penstock.wiring.join_states import remove_states  # noqa: PLC0415
    from penstock.wiring.open import open_lock  # noqa: PLC0415
    from penstock.wiring.rebuild_marks import ask_for_rebuild, take_back_rebuild  # noqa: PLC0415

    if empty and cancel:
        message = "--empty and --cancel contradict each other"
        raise UsageError(message, "give one of them")
    spec, typed = load(file), shell_word(file)
    (chosen,) = chosen_joins(spec, str(file), join)
    lock = open_lock(spec)
    try:
        if not lock.acquire(0.0):
            message = f"the pipeline {spec.pipeline} runs, and its join {join} writes to its state"
            raise UsageError(message, "stop it first, then type this again")
        if cancel:
            take_back_rebuild(spec, chosen.name)
            say_note(f"the next run goes on with the state of {chosen.name} that there is: penstock run {typed}")
            return
        if empty:
            remove_states(spec, chosen.name)
        else:
            ask_for_rebuild(spec, chosen.name)
    finally:
        # Also of the place in the line of ZooKeeper, which would be in the way of who types this again.
        lock.release()
    how = "empties its table, and fills it from its topics" if empty else "makes it again beside its table"
    say_note(f"the next run of {chosen.name} {how}: penstock run {typed}")
