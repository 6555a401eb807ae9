"""`penstock joinery`: what the joins of a pipeline read, and what they make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from penstock.cli.arguments import ConfigFile  # noqa: TC001 - Typer reads the annotations when it runs
from penstock.cli.joinery_inspect import inspect
from penstock.cli.joinery_rebuild import rebuild
from penstock.cli.joinery_verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.config.joins import JoinSpec
    from penstock.links.joins.estimate import InputEstimate
    from penstock.links.joins.spec import JoinJob

app = typer.Typer(no_args_is_help=True, help="Look at joins of streams.")
app.command()(inspect)
app.command()(verify)
app.command()(rebuild)


@app.callback()
def joinery() -> None:
    """Look at joins of streams."""


@app.command()
def check(file: ConfigFile) -> None:
    """Find the streams that a pipeline's joins read, and show what each join makes: fields, their types, the key.

    It says whether the declared pkey identifies a row, and which key takes its place
    where it does not, and about how large the state will be. It changes nothing.
    Streams are known once their source was carried: run the pipeline first, with or
    without the join.
    """
    # Imported here so that `joinery check --help` need not wait for Kafka's library.
    from contextlib import closing  # noqa: PLC0415

    from penstock.cli.console import open_console, say_error, say_note  # noqa: PLC0415
    from penstock.config.load import load  # noqa: PLC0415
    from penstock.core.errors import PenstockError, UsageError  # noqa: PLC0415
    from penstock.embedded.reach import reach_embedded  # noqa: PLC0415
    from penstock.wiring.join_topics import forgetful_inputs, require_kept  # noqa: PLC0415
    from penstock.wiring.joins import NOT_MADE, estimate_of_join, plan_ahead  # noqa: PLC0415
    from penstock.wiring.open import open_registry, open_topic_log  # noqa: PLC0415

    spec = load(file)
    if not spec.joins:
        message = f"{file} has no joins"
        raise UsageError(message, "name their files: joins: [business_review.yaml]")
    console = open_console()
    exit_codes: list[int] = []
    with (
        reach_embedded(spec, say_note) as reached,
        closing(open_topic_log(reached)) as log,
        closing(open_registry(reached)) as registry,
    ):
        for join in reached.joins:
            try:
                job = plan_ahead(reached, join.name, log, registry)
                is_made = all(stream.schema_id != NOT_MADE for stream in job.streams)
                notes = list(explain_estimates(estimate_of_join(log, registry, job))) if is_made else []
                if is_made:
                    require_kept(log, job)
                    notes += explain_forgetful(forgetful_inputs(log, job))
            except PenstockError as error:
                say_error(error.message, error.hint, error.error_code)
                exit_codes.append(error.exit_code)
                continue
            for line in [*explain_join(join, job), *notes]:
                console.print(line, markup=False, highlight=False, soft_wrap=True)
    if exit_codes:
        raise typer.Exit(max(exit_codes))


def explain_estimates(estimates: Sequence[InputEstimate]) -> Iterator[str]:
    """Say how large the state will be."""
    from penstock.cli.console import format_bytes  # noqa: PLC0415 - see `check`

    whole = format_bytes(sum(each.size_bytes for each in estimates))
    sampled = sum(each.sampled for each in estimates)
    yield f"  state  about {whole} for what the topics hold now, by {sampled} of their messages:"
    for each in estimates:
        size = format_bytes(round(each.row_bytes))
        yield f"         {each.topic}: about {each.rows} rows (at most {each.messages}) of {size}"


def explain_forgetful(topics: Sequence[str]) -> Iterator[str]:
    """Say what it means that topics throw old messages away."""
    for topic in topics:
        yield f"  note   {topic} throws old messages away: if the join's state is lost then, it cannot be made again"
        yield f"         to keep them: set retention.ms=-1 and retention.bytes=-1 on {topic}"


def explain_join(join: JoinSpec, job: JoinJob) -> Iterator[str]:
    """Say line by line what a join reads and makes."""
    from penstock.core.arrow_types import arrow_type  # noqa: PLC0415 - see `check`
    from penstock.core.joins.stand_ins import stand_in_text  # noqa: PLC0415

    plan = job.plan
    yield f"Join {job.name}: {join.output.doc or 'no doc'}"
    yield from _explain_inputs(job)
    yield f"  makes  {plan.output.table}"
    for column in plan.output.columns:
        is_null = "null or " if column.nullable else ""
        type_ = column.declaration or str(arrow_type(column.type))
        yield f"         {column.name}: {is_null}{type_}  ({column.comment})"
    declared, key = ", ".join(join.output.pkey), ", ".join(plan.output.key)
    stand_ins = [column for column in plan.output.columns if column.name in plan.stand_ins]
    if plan.is_declared_key:
        yield f"  key    {key}, which identifies a row"
    else:
        yield f"  key    {key}, made of the keys of what is joined"
    if declared and not plan.is_declared_key:
        yield f"         the pkey of the file, {declared}, does not identify a row, for several rows can have the same"
    kept = [name for name in plan.kept if name not in plan.stand_ins]
    if kept and not plan.is_declared_key:
        yield f"         {', '.join(kept)} is in the output for that, though the file excludes it"
    for column in stand_ins:
        zero = stand_in_text(column.type)
        yield f"         {column.name} is added: {zero} where there is no match, for a key cannot be NULL"
    if declared and not plan.is_declared_key and not stand_ins:
        yield f"         to say so in the file: pkey: [{key}]"


def _explain_inputs(job: JoinJob) -> Iterator[str]:
    """Say what a join reads, and what it keeps of it."""
    for stream, given in zip(job.streams, job.plan.inputs, strict=True):
        keys, own = ", ".join(given.join_keys), ", ".join(given.row_key)
        stored = ", ".join(column.name for column in given.stored.columns) or "keys alone"
        schema = "not made yet" if stream.schema_id < 0 else f"schema_id {stream.schema_id}"
        yield f"  reads  {stream.topic} ({schema}) by {keys}; its key is {own}; keeps {stored}"
        if given.where:
            yield f"         only rows where {given.where}"
        if given.is_partial:
            yield "         rows that lack columns are made whole by what is kept of the rows before them, once more"
        if given.is_optional:
            yield "         type: left, so rows go on without a match in it, with NULL in its fields"
