"""`penstock snowflake`: what landing zones are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments import ConfigFile  # noqa: TC001 - Typer reads the annotations when it runs
from penstock.cli.console import say_error
from penstock.cli.plain_text import printable
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.wiring.load_plans import TablePlan

app = typer.Typer(no_args_is_help=True, help="Show or make the landing tables, streams and tasks of Snowflake sinks.")


@app.command("plan")
def plan(file: ConfigFile) -> None:
    """Print the SQL for the source's tables, and what differs in Snowflake from it. Nothing is changed."""
    from penstock.config.load import load  # noqa: PLC0415 - `--help` need not wait for it
    from penstock.wiring.landing_plans import plan_zones  # noqa: PLC0415

    _show(plan_zones(load(file)))


@app.command("apply")
def apply(file: ConfigFile) -> None:
    """Make what `plan` prints, where it is missing. A run of the pipeline does it by itself, too."""
    from penstock.config.load import load  # noqa: PLC0415 - `--help` need not wait for it
    from penstock.wiring.landing_plans import apply_zones  # noqa: PLC0415

    _show(apply_zones(load(file)))


@app.command("rebuild")
def rebuild(
    file: ConfigFile,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="As the source names it, as in shop.orders.")],
) -> None:
    """Recreate a table's stream and task. The task's next run merges all that may be missing; nothing is lost."""
    from penstock.config.load import load  # noqa: PLC0415 - `--help` need not wait for it
    from penstock.wiring.landing_plans import rebuild_table  # noqa: PLC0415

    _show(rebuild_table(load(file), table))


def _show(plans: Iterable[TablePlan]) -> None:
    """Print statements table by table; exit with 1 if one of them has none."""
    failed = False
    for each in plans:
        # A comment ends with its line, and a name may have several.
        typer.echo(f"-- {each.link}: {printable(each.table).replace(chr(10), ' ')}")
        for statement in each.statements:
            typer.echo(f"{statement};")
        if each.error:
            failed = True
            say_error(each.error, each.hint)
    if failed:
        raise typer.Exit(PenstockError.exit_code)
