"""Eras: what a failover to another server tells whoever reads a source's topics.

File names and offsets of two servers say nothing about each other. An era begins
with a failover, and with it each topic partition at some Kafka offset: messages
from there on are of that era, and behind all messages before it, whatever their
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
class EraBegan:
    """`source` is read from another server from now on.

    `starts` has the first offset of each (topic, partition) that is of the new
    era; topics that are not in it came later. `before` and `after` are the places
    in the two logs, as operators write them, and `server` who answers now.
    """

    source: str
    era: int
    starts: Mapping[tuple[str, int], int]
    before: str
    after: str
    server: str
    timestamp_ms: int

    def to_json(self) -> bytes:
        """The message as it stands in the topic of eras."""
        return json.dumps(
            {
                "version": _VERSION,
                "source": self.source,
                "era": self.era,
                "starts": [[topic, partition, offset] for (topic, partition), offset in self.starts.items()],
                "before": self.before,
                "after": self.after,
                "server": self.server,
                "timestamp_ms": self.timestamp_ms,
            }
        ).encode()

    @classmethod
    def from_json(cls, message: bytes) -> EraBegan:
        """Read a message of the topic of eras; ValueError for a version we do not know."""
        fields = json.loads(message)
        version = fields.pop("version", None)
        if version != _VERSION:
            text = f"an era of version {version}; this release reads version {_VERSION}"
            raise ValueError(text)
        fields["starts"] = {(topic, partition): offset for topic, partition, offset in fields["starts"]}
        return cls(**fields)


def era_starts(eras: Iterable[EraBegan], topic: str, partition: int, first_era: int) -> tuple[tuple[int, int], ...]:
    """Return (offset, era) wherever an era begins in a topic partition, in order; the topic came in `first_era`."""
    begun = [(e.starts[topic, partition], e.era) for e in eras if (topic, partition) in e.starts and e.era > first_era]
    return ((0, first_era), *sorted(begun))


def eras_at(starts: tuple[tuple[int, int], ...], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the era of each message by its Kafka offset: int64[n]."""
    begins, eras = (np.array(each, np.int64) for each in zip(*starts, strict=True))
    return eras[np.searchsorted(begins, offsets, side="right") - 1]
