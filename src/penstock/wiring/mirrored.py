"""Holds Kafka against the state database, which mirrors it and so is never ahead of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.adapters.kafka.topics import position_topic
from penstock.core.topic_fingerprints import require_mirrored

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec
    from penstock.ports.state import State
    from penstock.ports.topics import TopicLog

_LOOKS = 4
_PAUSE_SECONDS = 0.5


def require_newest_kafka(spec: PipelineSpec, source: str, state: State, log: TopicLog) -> None:
    """Raise PositionError if `state` has seen more of a source's topics than Kafka, which `log` reads, has now.

    Kafka with an older disk explains itself: its records and topics fit each other.
    What they lack would be published again, behind what targets have of it already.
    """
    mirrored = dict(state.topic_offsets(source))
    position, records = state.position(source), f"{position_topic(spec.pipeline, source)}/0"
    if position is not None:
        mirrored[records] = position[1]
    if not mirrored:
        return
    places = {place: _parse(place) for place in mirrored}
    for _ in range(_LOOKS):
        ends = log.ends(list(places.values()))
        found = {place: ends[parsed] for place, parsed in places.items() if parsed in ends}
        if all(found.get(place, 0) >= end for place, end in mirrored.items()):
            return
        # A broker that has just begun to lead a partition may tell an older end for a moment.
        time.sleep(_PAUSE_SECONDS)
    require_mirrored(records, mirrored, found)


def _parse(place: str) -> tuple[str, int]:
    topic, _, partition = place.rpartition("/")
    return topic, int(partition)
