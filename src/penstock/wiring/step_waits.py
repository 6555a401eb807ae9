"""A join that is made again waits for the steps that it reads: without all of their rows it would delete its own.

A step whose topic the join did not read before may just have been added to the file, and
have made nothing yet. It has to come to where its inputs ended when the join was first to be
made again: what the output holds by then is of no more than that, but for what comes meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.wiring.join_states import checkpoint_of, earlier_steps, newest_generation, newest_places
from penstock.wiring.joins import plan_of_join, read_join_record
from penstock.wiring.rebuild_marks import is_marked, read_mark, write_mark

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.adapters.kafka.reader import TopicReader
    from penstock.config.specs import PipelineSpec
    from penstock.links.joins.record import JoinRecord
    from penstock.ports.registry import Registry


def waits_for_step(spec: PipelineSpec, name: str) -> bool:
    """Whether a join that has waited should go on with that, as far as files say; Kafka knows when it is opened."""
    if is_step_made_again(spec, name):
        return True
    ends = read_mark(spec, name).step_ends
    made = [_noted_places(spec, step) for step in earlier_steps(spec, name)] if ends else []
    return any(_is_behind(places, {place: ends.get(place, 0) for place in places}) for places in made)


def is_step_made_again(spec: PipelineSpec, name: str) -> bool:
    """Whether the step that a join reads is made again itself: what it makes may have other fields then."""
    before = spec.join(name).step_before
    return before is not None and is_marked(spec, before)


def lacks_rows_of_steps(
    spec: PipelineSpec, name: str, record: JoinRecord, log: TopicReader, registry: Registry
) -> bool:
    """Whether steps that a join, which stands at `record`, is to read from now on have not made all of their rows."""
    if spec.join(name).step_before is None or spec.join(name).inputs[0].topic in record.ids:
        return False
    # One behind the other: where the inputs of the second one end is known once the first one has come far enough.
    for step in earlier_steps(spec, name):
        streams = plan_of_join(spec, step, log, registry).streams
        shapes = log.shapes([stream.topic for stream in streams])
        ends = _fixed_ends(spec, name, log, [(topic, n) for topic, (_, count) in shapes.items() for n in range(count)])
        made = read_join_record(spec, log, step)
        if _is_behind({} if made is None else made.places, ends):
            return True
    return False


def _fixed_ends(
    spec: PipelineSpec, name: str, log: TopicReader, partitions: Sequence[tuple[str, int]]
) -> Mapping[tuple[str, int], int]:
    """Where `partitions` ended when the join was first to be made again, which is now for those that are new."""
    mark = read_mark(spec, name)
    new = [place for place in partitions if place not in mark.step_ends]
    if new:
        mark = replace(mark, step_ends={**mark.step_ends, **log.ends(new)})
        write_mark(spec, name, mark)
    return {place: mark.step_ends[place] for place in partitions}


def _is_behind(places: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]) -> bool:
    """Whether what has come to `places` lacks something of what it reads; all of it before its first micro-batch."""
    return not places or any(places.get(place, 0) < end for place, end in ends.items())


def _noted_places(spec: PipelineSpec, step: str) -> Mapping[tuple[str, int], int]:
    """Where the state of a step stands; nothing where that goes away just now."""
    try:
        return newest_places(checkpoint_of(spec, step, newest_generation(spec, step)))
    except FileNotFoundError:
        return {}
