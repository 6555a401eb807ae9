"""`penstock demo`: the main job, end to end, on real servers of this machine."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()

_DIRECTORY = Path(".penstock/demo")
_SECONDS_MAX = 86_400
_INTERRUPTED = 130


class DemoSource(StrEnum):
    """Kinds of source, as the config names them."""

    MYSQL = "mysql"
    POSTGRES = "postgres"


@app.command()
def demo(
    *,
    seconds: Annotated[
        int,
        typer.Option(
            min=1, max=_SECONDS_MAX, help="How long rows and tables are changed, at over 1,000 rows a second."
        ),
    ] = 60,
    source: Annotated[
        DemoSource, typer.Option(help="Where the marketplace is: mysql starts a MariaDB, postgres a PostgreSQL.")
    ] = DemoSource.MYSQL,
) -> None:
    """Run the main job end to end on real local servers, with a live page.

    Fills a marketplace database in a server of its own, carries it through Kafka
    into a DuckDB file while rows and tables change, and compares both row by row.
    Everything is kept in ./.penstock/demo; what an earlier demo left there is
    deleted. Ends with 0 only if source and warehouse are equal. Ctrl-C ends
    everything that it started.
    """
    # Imported here so that `demo --help` need not wait for Arrow, DuckDB and the drivers.
    from penstock.cli.console import open_console, say_note  # noqa: PLC0415
    from penstock.demo.phases import DemoOptions  # noqa: PLC0415
    from penstock.demo.run import run_demo  # noqa: PLC0415

    try:
        is_equal = run_demo(_DIRECTORY, DemoOptions(seconds=seconds), open_console(), source.value)
    except KeyboardInterrupt as error:
        say_note("stopped; the next demo begins with fresh data")
        raise typer.Exit(_INTERRUPTED) from error
    if not is_equal:
        raise typer.Exit(1)
