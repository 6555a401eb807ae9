"""`penstock check --plan`: what the next loads would make of the tables of every sink."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from penstock.cli.console import open_console
from penstock.core.errors import PenstockError
from penstock.wiring.load_plans import plan_loads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from penstock.config.specs import PipelineSpec
    from penstock.wiring.load_plans import TablePlan


def show_plans(spec: PipelineSpec, *, as_json: bool) -> None:
    """Print the plan of every table; exit with 1 if one of them would stop, or a server is away."""
    plans = list(plan_loads(spec))
    if as_json:
        typer.echo(json.dumps({"pipeline": spec.pipeline, "tables": [asdict(plan) for plan in plans]}, indent=2))
    else:
        _print(open_console(), plans)
    if any(plan.error for plan in plans):
        raise typer.Exit(PenstockError.exit_code)


def _print(console: Console, plans: Sequence[TablePlan]) -> None:
    changed = [plan for plan in plans if plan.statements or plan.error]
    for plan in changed:
        _line(console, f"{plan.link}: {plan.table or 'all tables'}")
        for statement in plan.statements:
            _line(console, f"    {statement};")
        if plan.error:
            _line(console, f"    WRONG {plan.error}")
            _line(console, f"    what to do: {plan.hint}")
    if any(not plan.table for plan in changed):
        _line(console, "what could not be asked is not planned; nothing was changed")
        return
    stopped, same = sum(bool(plan.error) for plan in changed), len(plans) - len(changed)
    would = [f"{len(changed) - stopped} table(s) would change", f"{stopped} would stop or are stopped"]
    _line(console, f"{', '.join(would)}, {same} would stay as they are; nothing was changed")


def _line(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
