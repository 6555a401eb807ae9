"""Timelines: what a failover to another server tells whoever reads a source's topics.

File names and offsets of two servers say nothing about each other. A timeline begins
with a failover, and with it each topic partition at some Kafka offset: messages
from there on are of that timeline, and behind all messages before it, whatever their
places in their logs are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

_VERSION = 1


@dataclass(frozen=True, slots=True)
class TimelineBegan:
    """`source` is read from another server from now on.

    `starts` has the first offset of each (topic, partition) that is of the new
    timeline; topics that are not in it came later. `before` and `after` are the places
    in the two logs, as operators write them, and `server` who answers now.
    """

    source: str
    timeline: int
    starts: Mapping[tuple[str, int], int]
    before: str
    after: str
    server: str
    timestamp_ms: int

    def to_json(self) -> bytes:
        """The message as it stands in the topic of timelines."""
        return json.dumps(
            {
                "version": _VERSION,
                "source": self.source,
                "era": self.timeline,
                "starts": [[topic, partition, offset] for (topic, partition), offset in self.starts.items()],
                "before": self.before,
                "after": self.after,
                "server": self.server,
                "timestamp_ms": self.timestamp_ms,
            }
        ).encode()

    @classmethod
    def from_json(cls, message: bytes) -> TimelineBegan:
        """Read a message of the topic of timelines; ValueError for a version we do not know."""
        fields = json.loads(message)
        version = fields.pop("version", None)
        if version != _VERSION:
            text = f"a timeline of version {version}; this release reads version {_VERSION}"
            raise ValueError(text)
        fields["timeline"] = fields.pop("era")
        fields["starts"] = {(topic, partition): offset for topic, partition, offset in fields["starts"]}
        return cls(**fields)


def timeline_starts(
    timelines: Iterable[TimelineBegan], topic: str, partition: int, first_timeline: int
) -> tuple[tuple[int, int], ...]:
    """Return (offset, timeline) of each beginning in a partition, in order; the topic came in `first_timeline`."""
    begun = [
        (e.starts[topic, partition], e.timeline)
        for e in timelines
        if (topic, partition) in e.starts and e.timeline > first_timeline
    ]
    return ((0, first_timeline), *sorted(begun))


def timelines_at(starts: tuple[tuple[int, int], ...], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the timeline of each message by its Kafka offset: int64[n]."""
    begins, timelines = (np.array(each, np.int64) for each in zip(*starts, strict=True))
    return timelines[np.searchsorted(begins, offsets, side="right") - 1]
