"""`penstock sql`: query a sink, also while the pipeline runs."""

from __future__ import annotations

import json
import math
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments import ConfigFile  # noqa: TC001 - Typer reads the annotations when it runs
from penstock.cli.console import open_console, say_note
from penstock.cli.console_tables import shown
from penstock.core.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table

    from penstock.config.sinks import DeltaSinkSpec, SinkSpec
    from penstock.config.specs import PipelineSpec
    from penstock.ports.queries import QueryResult, ReadLimits

app = typer.Typer()

_TABLE_ROWS_MAX = 1000
_JSON_ROWS_MAX = 100_000


@app.command()
def sql(
    file: ConfigFile,
    statement: Annotated[
        str, typer.Argument(metavar="SQL", help="One SELECT, DESCRIBE, SHOW or EXPLAIN.", show_default=False)
    ],
    *,
    sink: Annotated[str | None, typer.Option(help="The sink to ask; needed only if there are several.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row.")] = False,
) -> None:
    """Query a sink, also while the pipeline runs.

    A source's table shop.orders is there as shop.orders. The answer shows one
    committed state of all tables. At most 1,000 rows are shown, with --json
    100,000, and a query is ended after a minute. JSON has no NaN and no infinite
    numbers: they are the texts "NaN", "Infinity" and "-Infinity".
    """
    # Imported here so that `sql --help` need not wait for databases' drivers.
    from penstock.config.load import load  # noqa: PLC0415
    from penstock.config.sinks import DeltaSinkSpec  # noqa: PLC0415
    from penstock.ports.queries import ReadLimits  # noqa: PLC0415
    from penstock.wiring.pipeline_status import has_loaded  # noqa: PLC0415
    from penstock.wiring.sink_kinds.table import queried_kind  # noqa: PLC0415

    spec = load(file)
    limits = ReadLimits(rows_max=_JSON_ROWS_MAX if as_json else _TABLE_ROWS_MAX)
    chosen = choose_sink(spec, sink)
    try:
        if isinstance(chosen, DeltaSinkSpec):
            result = _query_lake(spec, chosen, statement, limits)
        else:
            result = queried_kind(spec, chosen).query(statement, limits)
    except UsageError as error:
        if has_loaded(spec, chosen.name):
            raise
        hint = f"nothing has been loaded into {chosen.name} yet: wait until penstock status FILE shows rows there"
        raise UsageError(error.message, hint) from error
    print_answer(result.rows, as_json=as_json)
    if result.truncated:
        say_note(f"these are the first {result.rows.num_rows} rows; there are more")


def choose_sink(spec: PipelineSpec, name: str | None) -> SinkSpec:
    """Return the sink called `name`, or the only one; UsageError if that is none or several."""
    names = ", ".join(sink.name for sink in spec.sinks) or "none"
    chosen = [sink for sink in spec.sinks if name in {None, sink.name}]
    if len(chosen) != 1:
        asked = f"there is no sink {name}" if name else f"there are {len(spec.sinks)} sinks"
        message = f"{asked} in pipeline {spec.pipeline}"
        raise UsageError(message, f"choose with --sink one of: {names}")
    return chosen[0]


def _query_lake(spec: PipelineSpec, sink: DeltaSinkSpec, statement: str, limits: ReadLimits) -> QueryResult:
    """Start a Spark of our own, ask it, and end it."""
    from penstock.cli.spark_session import plan_session  # noqa: PLC0415 - `sql --help` need not wait for it
    from penstock.config.places import lake_url  # noqa: PLC0415
    from penstock.spark.delta.query import query_lake  # noqa: PLC0415
    from penstock.spark.session import close_session, open_session  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="penstock-sql-") as directory:
        plan = plan_session(spec, f"penstock sql {spec.pipeline}")
        session = open_session(replace(plan, conf={**plan.conf, "spark.sql.warehouse.dir": directory}))
        try:
            return query_lake(session, lake_url(spec, sink), statement, limits)
        finally:
            close_session(session)


def print_answer(rows: pa.Table, *, as_json: bool) -> None:
    """Print rows as a table, or each as a line of JSON."""
    named = rows.rename_columns(_distinct(rows.column_names))
    if as_json:
        for row in named.to_pylist():
            typer.echo(json.dumps(_finite(row), default=_plain, ensure_ascii=False, allow_nan=False))
    else:
        open_console().print(_table(named))


def _table(rows: pa.Table) -> Table:
    from rich import box  # noqa: PLC0415 - `sql --help` need not wait for it
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=box.SIMPLE)
    for name in rows.column_names:
        table.add_column(shown(name), overflow="fold")
    for row in rows.to_pylist():
        table.add_row(*(Text("NULL", style="dim") if value is None else shown(_text(value)) for value in row.values()))
    return table


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(_plain(value))


def _plain(value: object) -> str:
    """Write what JSON has no way for: bytes in hexadecimal, the rest (decimals, dates) as their text."""
    return value.hex() if isinstance(value, bytes) else str(value)


def _finite(value: object) -> object:
    """Write floats that JSON has no number for as their text, in lists and structs too."""
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {name: _finite(each) for name, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
        case _:
            return value


def _distinct(names: list[str]) -> list[str]:
    """Tell columns of one name apart as a, a_2, a_3, so that none is lost in a row's object."""
    found: list[str] = []
    for name in names:
        number = names[: len(found)].count(name) + 1
        found.append(name if number == 1 else f"{name}_{number}")
    return found
