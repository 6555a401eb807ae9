"""`penstock check`: a config in words, and with --connect whether the servers can do it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments import ConfigFile  # noqa: TC001 - Typer reads the annotations when it runs
from penstock.cli.console import open_console
from penstock.core.commands import shell_word
from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from penstock.core.findings import Finding

app = typer.Typer()

_MARKS = {"ok": ("ok", ""), "warning": ("note", "yellow"), "error": ("WRONG", "red")}


@app.command()
def check(
    file: ConfigFile,
    *,
    connect: Annotated[
        bool, typer.Option("--connect", help="Also ask the servers: are they there, fit, and do they take our logins?")
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Also show the DDL that the next loads would run in the sinks")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what --plan finds as one JSON object")] = False,
) -> None:
    """Explain a config in words, or list everything that is wrong with it.

    With --connect it also verifies this machine and every server that the config
    names: settings, grants, tables, reachability. With --plan it compares the
    source's present tables with those of every sink, and shows the SQL that would
    make them alike. It changes nothing, except for a small file that --connect
    writes to the object store and deletes.
    """
    # Imported here so that `check --help` need not wait for Kafka's and DuckDB's libraries.
    from penstock.cli.explain import explain_pipeline  # noqa: PLC0415
    from penstock.config.load import load  # noqa: PLC0415

    spec = load(file)
    if as_json and not plan:
        message, hint = "--json is for --plan alone", f"penstock check {shell_word(file)} --plan --json"
        raise UsageError(message, hint)
    if plan:
        from penstock.cli.load_plans import show_plans  # noqa: PLC0415

        show_plans(spec, as_json=as_json)
        return
    console = open_console()
    for line in explain_pipeline(spec):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if not connect:
        console.print(
            f"\nTo ask the servers too: penstock check {shell_word(file)} --connect", markup=False, highlight=False
        )
        return
    from penstock.cli.machine import look_everywhere  # noqa: PLC0415

    exit_codes = _print_findings(console, look_everywhere(spec))
    if exit_codes:
        raise typer.Exit(max(exit_codes))
    console.print(
        f"\nAll is well. To start it: penstock run {shell_word(file)}", style="green", markup=False, highlight=False
    )


def _print_findings(console: Console, findings: Iterable[Finding]) -> list[int]:
    """Print each finding as soon as it is there; return the exit codes of those that are errors."""
    console.print("\nServers")
    exit_codes: list[int] = []
    for finding in findings:
        mark, style = _MARKS[finding.level]
        line = f"  {mark:5} {finding.subject}: {finding.message}"
        console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)
        if finding.hint:
            console.print(f"        what to do: {finding.hint}", markup=False, highlight=False, soft_wrap=True)
        if finding.level == "error":
            exit_codes.append(finding.exit_code)
    return exit_codes
