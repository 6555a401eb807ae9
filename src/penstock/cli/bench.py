"""`penstock bench`: us and our peers, measured in one run on this machine."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from penstock.bench.bench import Bench

app = typer.Typer()

_NAMES = (
    "capture",
    "schematizer",
    "warehouse",
    "redshift",
    "steady",
    "snapshot",
    "audit",
    "joinery",
    "postgres",
    "snowflake",
)
_SECONDS_MAX = 86_400
_ROWS_MIN = 1_000
_MEGABYTES_MIN = 10


@app.command()
def bench(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"Which bench: {', '.join(_NAMES)}.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    rows: Annotated[
        int, typer.Option(min=_ROWS_MIN, help="Rows of bulk; a tenth of it as one-row transactions, or as schemas.")
    ] = (1_000_000),
    seconds: Annotated[
        int | None, typer.Option(min=1, max=_SECONDS_MAX, help="Of each live stretch: 60, and snowflake's 600.")
    ] = None,
    transaction_megabytes: Annotated[
        int, typer.Option(min=_MEGABYTES_MIN, help="The size of the one very large transaction.")
    ] = 2048,
    only: Annotated[list[str] | None, typer.Option("--only", metavar="PART", help="Measure one part alone.")] = None,
) -> None:
    """Measure Penstock beside comparable tools, on real servers that are started for it and ended after it.

    CPU is that of whole process trees, user and system; the source and the broker
    count for neither side. Prints a table and writes ./bench-NAME.svg and
    ./bench-NAME.json; with --json it prints what is in the latter, and writes
    nothing. Needs some GB in the temporary directory (TMPDIR).
    """
    # Imported here so that `bench --help` need not wait for Arrow and the drivers.
    from penstock.bench.lab import Settings  # noqa: PLC0415
    from penstock.bench.picture import render_picture  # noqa: PLC0415
    from penstock.bench.table import print_report  # noqa: PLC0415
    from penstock.cli.console import open_console, say_note  # noqa: PLC0415

    chosen = _bench(name)
    parts = chosen.choose(only or ())
    settings = Settings(rows, seconds or chosen.seconds, transaction_megabytes)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as home:
        report = chosen.run(parts, Path(home), settings, say_note)
    if as_json:
        typer.echo(report.to_json())
        return
    print_report(open_console(), report)
    Path(f"bench-{name}.json").write_text(report.to_json() + "\n", encoding="utf-8")
    Path(f"bench-{name}.svg").write_text(render_picture(report), encoding="utf-8")
    say_note(f"the same is in bench-{name}.json, and as a picture in bench-{name}.svg")


def _bench(name: str) -> Bench:
    """The bench called `name`; UsageError for none."""
    from penstock.bench.audit.suite import AUDIT  # noqa: PLC0415
    from penstock.bench.capture.suite import CAPTURE  # noqa: PLC0415
    from penstock.bench.joinery.suite import JOINERY  # noqa: PLC0415
    from penstock.bench.postgres.suite import POSTGRES  # noqa: PLC0415
    from penstock.bench.redshift.suite import REDSHIFT  # noqa: PLC0415
    from penstock.bench.schematizer.suite import SCHEMATIZER  # noqa: PLC0415
    from penstock.bench.snapshot.suite import SNAPSHOT  # noqa: PLC0415
    from penstock.bench.snowflake.suite import SNOWFLAKE  # noqa: PLC0415
    from penstock.bench.steady.suite import STEADY  # noqa: PLC0415
    from penstock.bench.warehouse.suite import WAREHOUSE  # noqa: PLC0415
    from penstock.core.errors import UsageError  # noqa: PLC0415

    suites = (CAPTURE, SCHEMATIZER, WAREHOUSE, REDSHIFT, STEADY, SNAPSHOT, AUDIT, JOINERY, POSTGRES, SNOWFLAKE)
    for suite in suites:
        if suite.name == name:
            return suite
    message = f"there is no bench {name}"
    raise UsageError(message, f"choose from: {', '.join(suite.name for suite in suites)}")
