"""`penstock police`: how a pipeline's topics are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments import ConfigFile  # noqa: TC001 - Typer reads the annotations when it runs

if TYPE_CHECKING:
    from penstock.core.topic_policy import PolicyReport

app = typer.Typer()


@app.command()
def police(
    file: ConfigFile,
    *,
    apply: Annotated[bool, typer.Option("--apply", help="Change what can be changed; else nothing is.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with stable keys.")] = False,
) -> None:
    """Compare topics with the rules of the file: partitions, replication, retention and compaction.

    Without --apply nothing is changed. A change that would delete messages, or put
    them out of order, is never made: it is shown with what to type.
    """
    from penstock.cli.console import say_note  # noqa: PLC0415 - --help must not wait
    from penstock.config.load import load  # noqa: PLC0415
    from penstock.embedded.reach import reach_embedded  # noqa: PLC0415
    from penstock.wiring.police import describe_report, police_topics  # noqa: PLC0415

    spec = load(file)
    with reach_embedded(spec, say_note) as reached:
        report = police_topics(reached, apply=apply)
    if as_json:
        typer.echo(describe_report(spec.pipeline, report, applied=apply))
    else:
        _show(report, applied=apply)


def _show(report: PolicyReport, *, applied: bool) -> None:
    words = {"set": "set", "drift": "would set", "refused": "not set"}
    for each in report.findings:
        change = f"from {each.found_in_words} to {each.wanted_in_words}"
        typer.echo(f"{each.topic}: {words[each.outcome]} {each.what} {change}")
        if each.reason:
            typer.echo(f"  why:        {each.reason}")
            typer.echo(f"  what to do: {each.hint}")
    for topic in report.without_rule:
        typer.echo(f"{topic}: no rule matches it; it stays as it is")
    counted = {outcome: sum(each.outcome == outcome for each in report.findings) for outcome in words}
    said = f"{counted['set']} set" if applied else f"{counted['drift']} to set, with --apply"
    typer.echo(f"{report.topics} topic(s): {said}; {counted['refused']} cannot be")
