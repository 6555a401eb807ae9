"""`penstock audit`: prove that targets have what the sources have, or name what differs."""

from __future__ import annotations

import json
import os
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path  # noqa: TC003 - Typer reads the annotations when it runs
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from penstock.cli.arguments import OptionalConfigFile  # noqa: TC001 - Typer reads the annotations when it runs
from penstock.cli.audit_stages import refuse_without_file, stage_lines
from penstock.cli.console import format_seconds, open_console, say_note
from penstock.cli.console_tables import shown
from penstock.cli.option_groups import grouped
from penstock.core.commands import name_file, shell_word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from penstock.config.audits import AuditSpec
    from penstock.config.specs import PipelineSpec
    from penstock.core.audit.findings import DivergentRow, TableFindings
    from penstock.core.audit.report import AuditReport
    from penstock.core.audit.scores import Score
    from penstock.core.errors import PenstockError

app = typer.Typer()

_BELOW, _FAILED = 3, 1
_SHOWN_ROWS = 20
_REPAIR_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class UrlOptions:
    """Two tables to be compared without any pipeline."""

    from_url: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="URL",
            help="Instead of FILE: mysql://, postgresql://, redshift://, duckdb:///FILE, delta:///FOLDER, parquet:///FOLDER"
            " or topic://HOST:PORT/TOPIC?schematizer=URL.",
        ),
    ] = ""
    to_url: Annotated[str, typer.Option("--to", metavar="URL", help="What to compare it with.")] = ""
    table: Annotated[str, typer.Option(metavar="SCHEMA.TABLE", help="The table, with --from and --to.")] = ""
    to_table: Annotated[
        str, typer.Option(metavar="SCHEMA.TABLE", help="Its name on the second side, if that is another one.")
    ] = ""
    from_password_env: Annotated[
        str, typer.Option(metavar="NAME", help="The environment variable that has the first password.")
    ] = ""
    to_password_env: Annotated[
        str, typer.Option(metavar="NAME", help="The environment variable that has the second password.")
    ] = ""
    key: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Identifies a row, if not the primary key; repeatable.")
    ] = None
    form: Annotated[
        Literal["sha256", "classic"],
        typer.Option(help="sha256: SHA-256 of the columns, kept apart; classic: MD5 of their texts joined."),
    ] = "sha256"
    partition_size: Annotated[int, typer.Option(min=1, help="About how many rows have one signature.")] = 10_000
    where: Annotated[
        str, typer.Option(metavar="SQL", help="Compare only rows of which this is true, in the first side's SQL.")
    ] = ""
    float_tolerance: Annotated[
        float, typer.Option(min=0, max=1, help="By what share of the greater one floats may differ.")
    ] = 0.0
    rows_max: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many rows to name at most.")] = 1000
    k: Annotated[
        int, typer.Option("--k", min=1, max=64, help="MinHash values of a partition (`hashes` of the file).")
    ] = 16


@app.command()
@grouped
def audit(
    file: OptionalConfigFile = None,
    *,
    urls: UrlOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with stable keys.")] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Publish the rows that differ again, then audit once more.")
    ] = False,
    stages: Annotated[
        bool, typer.Option("--stages", help="Audit topics and files too, and say where each row is wrong first.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as one HTML file, too.", show_default=False)
    ] = None,
) -> None:
    """Compare every table of a source with its copy in a sink, and name the rows that differ.

    It works while the pipeline runs: a row is called wrong only if it still is once
    the sink has passed the position at which the source's row was read. The
    databases compute signatures; rows travel only where those differ. Nothing is
    written to either. With --from, --to and --table it compares any two tables.

    --stages audits the topic and the files of each table as well, and names the
    first of them in which each row is wrong, with the newest message of that row.

    --repair asks the running pipeline to read the named rows again, and to publish
    them or their deletion; without it nothing changes.

    Exit code 0: all that was compared is equal. 3: a table scores below the
    threshold of its audit, or a stage before it differs. 1: unknown, as a table
    lags or cannot be read; or the file of --html could not be written.
    """
    from penstock.core.audit.report import describe  # noqa: PLC0415 - `audit --help` need not wait for it

    if file is None and (stages or repair):
        refuse_without_file()
    if html is not None:
        _require_writable(html)
    reports = _audit_tables(urls) if file is None else _audit_pipeline(file, urls, repair=repair, stages=stages)
    if as_json:
        typer.echo(json.dumps(describe(reports), indent=2, ensure_ascii=False))
    else:
        for report in reports:
            _print(open_console(), report, str(file))
    is_written = html is None or _write_html(html, reports)
    raise typer.Exit(_exit_code(reports) or (0 if is_written else _FAILED))


def _require_writable(html: Path) -> None:
    """Raise UsageError where no report can be written: an audit may take an hour, and this is known before it."""
    from penstock.core.errors import UsageError  # noqa: PLC0415 - as above

    place = html if html.exists() else html.parent
    if html.is_dir() or not html.parent.is_dir() or not os.access(place, os.W_OK):
        message = f"the report {html} cannot be written"
        raise UsageError(message, "name a file with --html, in a folder that is there and that you may write to")


def _write_html(html: Path, reports: Sequence[AuditReport]) -> bool:
    """Write the report behind what is printed; if that fails, say so, as what was found is there already."""
    from penstock.core.audit.report_html import render_html  # noqa: PLC0415 - as above

    try:
        html.write_text(render_html(reports), encoding="utf-8")
    except OSError as error:
        say_note(f"the report {html} could not be written: {error.strerror}")
        return False
    return True


def _audit_pipeline(file: Path, urls: UrlOptions, *, repair: bool, stages: bool) -> Sequence[AuditReport]:
    # Imported here so that `audit --help` need not wait for databases' drivers.
    from penstock.config.load import load  # noqa: PLC0415
    from penstock.core.errors import PenstockError, UsageError  # noqa: PLC0415
    from penstock.embedded.reach import reach_embedded  # noqa: PLC0415
    from penstock.wiring.audits import require_audits  # noqa: PLC0415
    from penstock.wiring.pipeline_status import read_status  # noqa: PLC0415

    if replace(urls, key=urls.key or None) != UrlOptions():
        message = "FILE and options for two tables by URL are given at once"
        raise UsageError(message, "give FILE, and say the rest under `audits` in it; or --from, --to and --table")
    spec = load(file)
    is_running = bool(repair and read_status(spec).holder)
    with reach_embedded(spec, say_note) as reached:
        audits = require_audits(spec)
        reports = _run_all(reached, audits, stages=stages)
        if repair:
            try:
                if _repair(spec, file, reports, is_running=is_running):
                    return _run_all(reached, audits, stages=stages)
            except PenstockError as error:
                # What was found is told all the same.
                say_note(_told(error, file))
        elif any(table.rows for report in reports for table in report.tables):
            say_note(f"to have the rows that differ published again, type: penstock audit {shell_word(file)} --repair")
        return reports


def _run_all(spec: PipelineSpec, audits: Mapping[str, AuditSpec], *, stages: bool) -> Sequence[AuditReport]:
    """Audit; of several audits one that fails as a whole keeps nobody from what the others find."""
    from penstock.core.errors import PenstockError  # noqa: PLC0415 - as above
    from penstock.wiring.audit import failed_report  # noqa: PLC0415

    reports: list[AuditReport] = []
    for name, each in audits.items():
        try:
            reports.append(_run(spec, name, each, stages=stages))
        except PenstockError as error:
            if len(audits) == 1:
                raise
            reports.append(failed_report(spec, each, error))
    return reports


def _told(error: PenstockError, file: Path, table: str = "TABLE") -> str:
    return name_file(f"{error.message}; what to do: {error.hint}", str(file), table)


def _run(spec: PipelineSpec, name: str, audit: AuditSpec, *, stages: bool) -> AuditReport:
    """Audit, and keep what was found, so that `penstock status` tells it."""
    from penstock.core.errors import PenstockError  # noqa: PLC0415 - as above
    from penstock.wiring.audit import run_audit  # noqa: PLC0415
    from penstock.wiring.audits import last_reached, open_results, results_of  # noqa: PLC0415

    report = run_audit(spec, audit, _say_nothing, stages=stages, last_reached=last_reached(spec, name, audit))
    try:
        with closing(open_results(spec)) as results:
            results.add(results_of(name, report))
    except PenstockError as error:
        say_note(f"penstock status does not know of this audit: {error.message}")
    return report


def _repair(spec: PipelineSpec, file: Path, reports: Sequence[AuditReport], *, is_running: bool) -> bool:
    """Ask for the rows that were named, and wait for them; say whether it is worth another audit."""
    from penstock.wiring.audit_repair import ask_for_repairs, await_repairs  # noqa: PLC0415 - as above

    asked = ask_for_repairs(spec, reports)
    for table, error in asked.refused:
        say_note(f"{table} is not repaired: {_told(error, file, table)}")
    if not asked.snapshots:
        if not asked.refused:
            say_note("there are no rows to repair")
        return False
    for each in asked.snapshots:
        say_note(f"{each.table}: {len(each.options.keys)} row(s) are to be read again")
    if not is_running:
        say_note(f"the pipeline does not run; to have them repaired: penstock run {shell_word(file)}; then audit again")
        return False
    ended = await_repairs(spec, asked.snapshots, _REPAIR_SECONDS)
    for each in ended:
        if each.error or not each.status.has_ended:
            why = each.error or "the rows were not read again in time"
            say_note(f"{each.table}: {why}: see penstock snapshot {shell_word(file)} --status")
    return True


def _audit_tables(urls: UrlOptions) -> Sequence[AuditReport]:
    from penstock.config.secrets import secret  # noqa: PLC0415 - as above
    from penstock.core.errors import UsageError  # noqa: PLC0415
    from penstock.core.tables import TableId  # noqa: PLC0415
    from penstock.links.audit.compare import SUSPECTS_MIN, Bounds  # noqa: PLC0415
    from penstock.wiring.audit_urls import HowCompared, TableAt, audit_urls  # noqa: PLC0415

    if not (urls.from_url and urls.to_url and "." in urls.table):
        message = "it is not said what to audit"
        raise UsageError(message, "give a pipeline's FILE; or --from URL --to URL --table SCHEMA.TABLE")
    source, target = (
        TableAt(url, TableId.parse(table), secret(variable) if variable else "")
        for url, table, variable in (
            (urls.from_url, urls.table, urls.from_password_env),
            (urls.to_url, urls.to_table or urls.table, urls.to_password_env),
        )
    )
    rows_max = (max(SUSPECTS_MIN, urls.rows_max), urls.rows_max)
    bounds = Bounds(urls.partition_size, urls.k, *rows_max, urls.float_tolerance)
    how = HowCompared(tuple(urls.key or ()), urls.form, urls.where)
    return [audit_urls(source, target, bounds, how)]


def _exit_code(reports: Sequence[AuditReport]) -> int:
    if any(report.below or report.wrong_between for report in reports):
        return _BELOW
    return _FAILED if any(report.unknown for report in reports) else 0


def _say_nothing(_table: str) -> None:
    """Nobody watches."""


def _print(console: Console, report: AuditReport, file: str) -> None:
    from rich import box  # noqa: PLC0415 - `audit --help` need not wait for it
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=box.SIMPLE)
    for heading in ("table", "state", "score", "bounds", "partitions", "unequal", "source rows", "wrong rows"):
        table.add_column(heading, justify="left" if heading in {"table", "state"} else "right", overflow="fold")
    for each in report.tables:
        style = {"equal": "green", "different": "red"}.get(each.state, "yellow")
        state = Text(each.state, style=style)
        counted = (f"{each.equal + each.unequal:,}", f"{each.unequal:,}", f"{each.source_rows:,}")
        table.add_row(shown(each.table), state, *_score_texts(each.score), *counted, f"{each.wrong_rows:,}")
    console.print(table)
    for each in report.tables:
        for line in _lines(each):
            console.print(name_file(line, file, each.table), markup=False, highlight=False, soft_wrap=True)
    score, _ = _score_texts(report.score)
    compared = sum(each.score is not None for each in report.tables)
    differ = sum(each.state == "different" for each in report.tables)
    unknown = f", nothing is known of {len(report.unknown)}" if report.unknown else ""
    took = format_seconds(report.seconds)
    tables = f"{compared} table(s), {differ} differ{unknown}"
    text = f"{report.source} and {report.sink}: score {score} of {tables}, in {took}"
    console.print(text, style="bold", markup=False, highlight=False, soft_wrap=True)


def _score_texts(score: Score | None) -> tuple[str, str]:
    if score is None:
        return "?", "?"
    return f"{score.score:.6g}", f"{score.lower:.6g} to {score.upper:.6g}"


def _lines(table: TableFindings) -> Sequence[str]:
    lines = [f"{table.table}: {table.why}"] if table.why else []
    lines += [f"{table.table}.{each.column} is not compared: {each.why}" for each in table.not_compared]
    lines += [f"{table.table} {_row_line(table.key, row)}" for row in islice(table.rows, _SHOWN_ROWS)]
    if table.wrong_rows > _SHOWN_ROWS:
        lines.append(f"{table.table}: {table.wrong_rows - _SHOWN_ROWS} more wrong rows: see --json")
    if table.not_narrowed:
        lines.append(f"{table.table}: {table.not_narrowed} more partitions differ whose rows were not looked at")
    if table.in_flight:
        lines.append(f"{table.table}: {table.in_flight} rows changed all the while, so nothing is known of them")
    return [*lines, *stage_lines(table)]


def _row_line(names: Sequence[str], row: DivergentRow) -> str:
    key = ", ".join(f"{name} {text}" for name, text in zip(names, row.key, strict=True))
    if row.state == "missing":
        return f"{key}: missing in the target"
    if row.state == "extra":
        return f"{key}: only in the target"
    parts = [
        f"{name} is {_text(mine)} in the source, {_text(theirs)} there" for name, (mine, theirs) in row.columns.items()
    ]
    return f"{key}: {'; '.join(parts) or 'it is there more than once'}"


def _text(value: str | None) -> str:
    return "NULL" if value is None else json.dumps(value, ensure_ascii=False)
