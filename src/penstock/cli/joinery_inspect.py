"""`penstock joinery inspect`: what the states of joins hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments import ConfigFile  # noqa: TC001 - Typer reads the annotations when it runs
from penstock.cli.console import format_bytes
from penstock.cli.joinery_verify import JoinName, chosen_joins

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from penstock.spark.join_state import JoinContents, StoredRow
    from penstock.wiring.joins import StandingJoin

_HOTTEST = 10
_ROWS_MAX = 100


def inspect(
    file: ConfigFile,
    join: JoinName = None,
    *,
    key: Annotated[
        str | None,
        typer.Option(metavar="VALUES", help="Show the rows of this join key: its values with commas between them."),
    ] = None,
) -> None:
    """Show what the states of joins hold: rows of each input, their bytes, the join keys with the most rows, offsets.

    With --key it shows the rows that the state has of one join key, 100 at most. It
    may be done while the pipeline runs, and changes nothing; it starts a Spark of its
    own for a moment.
    """
    # Imported here so that `joinery inspect --help` need not wait for PySpark.
    from contextlib import closing  # noqa: PLC0415

    from penstock.cli.console import open_console, say_note  # noqa: PLC0415
    from penstock.cli.spark_session import plan_session  # noqa: PLC0415
    from penstock.config.load import load  # noqa: PLC0415
    from penstock.core.joins.shown_keys import parse_key  # noqa: PLC0415
    from penstock.embedded.reach import reach_embedded  # noqa: PLC0415
    from penstock.spark.session import close_session, open_session  # noqa: PLC0415
    from penstock.wiring.join_states import checkpoint_of  # noqa: PLC0415
    from penstock.wiring.joins import standing_join  # noqa: PLC0415
    from penstock.wiring.open import open_registry, open_topic_log  # noqa: PLC0415

    spec = load(file)
    chosen = chosen_joins(spec, str(file), join)
    with (
        reach_embedded(spec, say_note) as reached,
        closing(open_topic_log(reached)) as log,
        closing(open_registry(reached)) as registry,
    ):
        standing = [standing_join(reached, each.name, log, registry) for each in chosen]
    join_keys = [None if key is None else parse_key(each.join_key_types, key) for each in standing]
    session = open_session(replace(plan_session(spec, "penstock joinery inspect"), master="local[2]"))
    try:
        for each, join_key in zip(standing, join_keys, strict=True):
            checkpoint = checkpoint_of(spec, each.job.name, each.record.generation)
            for line in _explain(session, each, checkpoint, join_key):
                open_console().print(line, markup=False, highlight=False, soft_wrap=True)
    finally:
        close_session(session)


def _explain(session: SparkSession, standing: StandingJoin, checkpoint: Path, join_key: bytes | None) -> Iterator[str]:
    from penstock.spark.join_state import JoinStateReader  # noqa: PLC0415 - see `inspect`
    from penstock.wiring.join_states import read_places  # noqa: PLC0415

    plan = standing.job.plan
    reader = JoinStateReader(session, checkpoint)
    generation = standing.record.generation
    yield f"Join {standing.job.name}: its state at micro-batch {reader.batch} of generation {generation}"
    if join_key is not None:
        yield from explain_rows(standing, join_key, reader.rows(plan, join_key, _ROWS_MAX))
        return
    for (topic, partition), offset in sorted(read_places(checkpoint, reader.batch).items()):
        yield f"  read   {topic}/{partition} up to {offset}"
    yield from explain_contents(standing, reader.contents(len(plan.inputs), _HOTTEST))


def explain_rows(standing: StandingJoin, join_key: bytes, rows: Sequence[StoredRow]) -> Iterator[str]:
    """Say which rows the state has of one join key."""
    from penstock.core.joins.shown_keys import show_key, split_key  # noqa: PLC0415 - see `inspect`

    inputs = standing.job.plan.inputs
    key = show_key(standing.join_key_types, join_key)
    yield f"  key    {key}: {len(rows) or 'no'} rows" + (" and maybe more" if len(rows) == _ROWS_MAX else "")
    for row in rows:
        values = ", ".join(f"{name}={value!r}" for name, value in row.values.items())
        row_key = ", ".join(each.decode("utf-8", "backslashreplace") for each in split_key(row.row_key))
        yield f"         {inputs[row.input].name}: key {row_key}; {values or 'nothing else is kept'}"


def explain_contents(standing: StandingJoin, contents: JoinContents) -> Iterator[str]:
    """Say line by line what a state holds."""
    from penstock.core.joins.shown_keys import show_key  # noqa: PLC0415 - see `inspect`

    inputs = standing.job.plan.inputs
    for given, held in zip(inputs, contents.inputs, strict=True):
        size = format_bytes(held.size_bytes)
        yield f"  holds  {given.name}: {held.rows} rows of {size} under {held.join_keys} join keys"
    yield f"         {contents.remembered} join keys of rows whose own key does not identify them"
    yield f"  disk   {format_bytes(contents.disk_bytes)} of checkpoint, with changes that are kept to begin again from"
    for each in contents.hottest:
        key = show_key(standing.join_key_types, each.join_key)
        yield f"  key    {key}: {each.rows} rows of {inputs[each.input].name}, {format_bytes(each.size_bytes)}"
