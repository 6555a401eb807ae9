"""A join by different keys as a chain of joins by one set of keys each: what a step makes, the next one reads."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from penstock.config.joins import JoinSpec, StepInputSpec, StepOutputSpec

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.config.joins import JoinInputSpec


def steps_of(join: JoinSpec) -> Sequence[JoinSpec]:
    """The joins that make `join`, which is the last of them: one for each change of left_keys.

    A field that the file excludes is in what a step makes while a later one joins by it. A join key that one
    stream excludes and another one shows is shown, as it is without steps.
    """
    first = join.inputs[0]
    default = tuple(first.field(name) for name in first.join_keys)
    groups = [(keys, list(each)) for keys, each in groupby(join.inputs[1:], lambda each: each.left_keys or default)]
    steps: list[JoinSpec] = []
    left = first
    for number, (keys, inputs) in enumerate(groups, 1):
        left = left.model_copy(update={"join_keys": tuple(left.column(key) for key in keys)})
        later = {key for others, _ in groups[number:] for key in others}
        members = [left, *inputs]
        shown = tuple(_with_fields(each, later) for each in members)
        is_last = number == len(groups)
        output = join.output if is_last else _step_output(join, number)
        steps.append(join.model_copy(update={"inputs": shown, "output": output}))
        excluded = {each.field(name) for each in members for name in each.exclude_fields} & later
        shown_keys = excluded & {name for each in members for name in _shown_keys(each)}
        topic = f"{output.source}.{output.namespace}.{output.source}"
        left = StepInputSpec(
            topic=topic,
            join_keys=keys,
            exclude_fields=tuple(sorted(excluded - shown_keys)),
            shown_keys=tuple(sorted(shown_keys)),
        )
    return steps


def as_begun(join: JoinSpec, fields: Collection[str]) -> JoinSpec:
    """A join on a state whose output has `fields`: what older releases hid of the step before comes with a rebuild."""
    first = join.inputs[0]
    hidden = tuple(name for name in first.shown_keys if name not in fields) if isinstance(first, StepInputSpec) else ()
    if not hidden:
        return join
    first = first.model_copy(update={"exclude_fields": (*first.exclude_fields, *hidden)})
    return join.model_copy(update={"inputs": (first, *join.inputs[1:])})


def _shown_keys(given: JoinInputSpec) -> Collection[str]:
    """The join keys of a stream that its entry shows, unless they are NULL where it has no match."""
    if given.type == "left":
        return ()
    return {given.field(name) for name in given.join_keys if name not in given.exclude_fields}


def _with_fields(given: JoinInputSpec, wanted: Collection[str]) -> JoinInputSpec:
    """A stream of which no field that is `wanted` is excluded."""
    excluded = tuple(name for name in given.exclude_fields if given.field(name) not in wanted)
    return given.model_copy(update={"exclude_fields": excluded})


def _step_output(join: JoinSpec, number: int) -> StepOutputSpec:
    output = join.output
    return StepOutputSpec(
        namespace=output.namespace,
        source=f"{output.source}_step{number}",
        doc=f"Step {number} of {output.source}",
        partitions=output.partitions,
    )
