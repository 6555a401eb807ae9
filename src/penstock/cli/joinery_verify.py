"""`penstock joinery verify`: what joins have published, beside what SQL makes of their topics."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments import ConfigFile  # noqa: TC001 - Typer reads the annotations when it runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.config.joins import JoinSpec
    from penstock.config.specs import PipelineSpec
    from penstock.links.joins.verify import Difference
    from penstock.wiring.join_verify import JoinVerification

_DIFFERS = 3

JoinName = Annotated[
    str | None, typer.Argument(metavar="JOIN", help="One join, by its output's `source`; else all.", show_default=False)
]


def verify(
    file: ConfigFile,
    join: JoinName = None,
    *,
    sample: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Compare about N keys, chosen at random, not all.")
    ] = None,
) -> None:
    """Compare what joins have published with a join of their topics in SQL, and name the keys that differ.

    It may be done while the pipeline runs: the topics are read as far as the output's
    position record says, and the output up to that record. DuckDB joins them in 1 GB
    of memory, with room on the disk below the pipeline's home for what the topics hold.
    Nothing is written anywhere else.

    Exit code 0: all that was compared is equal. 3: keys differ. 1 or 2: nobody knows.
    """
    # Imported here so that `joinery verify --help` need not wait for Kafka's library.
    from penstock.cli.console import open_console, say_error, say_note  # noqa: PLC0415
    from penstock.config.load import load  # noqa: PLC0415
    from penstock.core.commands import name_file  # noqa: PLC0415
    from penstock.core.errors import PenstockError  # noqa: PLC0415
    from penstock.embedded.reach import reach_embedded  # noqa: PLC0415
    from penstock.wiring.join_verify import run_verification  # noqa: PLC0415

    spec = load(file)
    chosen = chosen_joins(spec, str(file), join)
    exit_codes = [0]
    with reach_embedded(spec, say_note) as reached:
        for each in chosen:
            try:
                found = run_verification(reached, each.name, sample, secrets.randbits(31))
            except PenstockError as error:
                say_error(error.message, error.hint, error.error_code)
                exit_codes.append(error.exit_code)
                continue
            exit_codes.append(_DIFFERS if found.verified.differing else 0)
            for line in explain_verification(each.name, found, sampled=sample is not None):
                open_console().print(name_file(line, str(file)), markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(_worst(exit_codes))


def chosen_joins(spec: PipelineSpec, file: str, join: str | None) -> Sequence[JoinSpec]:
    """The joins of a pipeline, or the one that is called so. UsageError for none."""
    from penstock.core.errors import UsageError  # noqa: PLC0415 - see `verify`

    if not spec.joins:
        message = f"{file} has no joins"
        raise UsageError(message, "name their files: joins: [business_review.yaml]")
    chosen = [each for each in spec.joins if join in {None, each.name}]
    if not chosen:
        message = f"{file} has no join {join}"
        raise UsageError(message, f"its joins are: {', '.join(each.name for each in spec.joins)}")
    return chosen


def explain_verification(name: str, found: JoinVerification, *, sampled: bool) -> Iterator[str]:
    """Say line by line what came of a comparison."""
    verified, record = found.verified, found.record
    of_what = "about so many keys of the output, chosen at random" if sampled else "the whole output"
    yield f"Join {name}: {of_what}, at micro-batch {record.batch} of generation {record.generation}"
    for (topic, partition), offset in sorted(record.places.items()):
        yield f"  read   {topic}/{partition} up to {offset}"
    yield f"  rows   {verified.expected} expected, {verified.found} published"
    if not verified.differing:
        yield "  equal"
        return
    yield f"  {verified.differing} keys differ; the first of them:"
    for difference in verified.shown:
        yield from _explain_difference(difference)
    yield f"  to have it made again from its topics: penstock joinery rebuild FILE {name}"


def _explain_difference(difference: Difference) -> Iterator[str]:
    yield f"  key    {_said(difference.key)}"
    for word, row in (("join", difference.expected), ("output", difference.found)):
        yield f"         {word}: {'no row' if row is None else _said(row)}"


def _said(row: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in row.items())


def _worst(exit_codes: Sequence[int]) -> int:
    """What nobody knows outweighs what differs."""
    return max(exit_codes, key=lambda code: (code not in {0, _DIFFERS}, code))
