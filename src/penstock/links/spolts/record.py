"""The position records of a spolt, and of the link that replays its dead letters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class SpoltRecord:
    """Committed with the messages it covers.

    `places` has, for every (topic, partition) that was read, the first offset that
    was not; `ids` what tells each topic from others of its name (KIP-516). `epoch`
    is the number of the instance that wrote it. `letters` counts the dead letters
    so far. `told` is the first offset of the schemas topic whose schema-change event
    was not known when that was planned; -1 where nobody wrote it down.
    """

    places: Mapping[tuple[str, int], int] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    epoch: int = 0
    letters: int = 0
    told: int = -1

    def to_mapping(self) -> dict[str, object]:
        """The record as JSON values."""
        return {
            "places": [[topic, partition, offset] for (topic, partition), offset in sorted(self.places.items())],
            "ids": dict(self.ids),
            "epoch": self.epoch,
            "letters": self.letters,
            "told": self.told,
        }

    @classmethod
    def from_mapping(cls, record: Mapping[str, object]) -> SpoltRecord:
        """Read a record back; KeyError or ValueError if it is not one of ours."""
        places, ids = record["places"], record["ids"]
        if not (isinstance(places, list) and isinstance(ids, dict)):
            message = "a position record of a spolt without its places"
            raise ValueError(message)  # noqa: TRY004 - bad data, not a bad call
        return cls(
            places={(str(topic), int(partition)): int(offset) for topic, partition, offset in places},
            ids={str(topic): str(topic_id) for topic, topic_id in ids.items()},
            epoch=int(str(record["epoch"])),
            letters=int(str(record["letters"])),
            told=int(str(record.get("told", -1))),
        )


@dataclass(frozen=True, slots=True)
class ReplayRecord:
    """Which dead letters were replayed: offsets in their topic, as ranges `[start, end)`, sorted and apart."""

    replayed: Sequence[tuple[int, int]] = ()

    def has(self, offset: int) -> bool:
        """Whether the letter at `offset` was replayed."""
        return any(start <= offset < end for start, end in self.replayed)

    def with_offsets(self, offsets: Collection[int]) -> ReplayRecord:
        """Return the record with more letters in it."""
        merged: list[tuple[int, int]] = []
        for start, end in sorted([*self.replayed, *((offset, offset + 1) for offset in offsets)]):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return ReplayRecord(tuple(merged))

    def to_mapping(self) -> dict[str, object]:
        """The record as JSON values. Its epoch is 0: whoever replays last fences the others, whatever their number."""
        return {"replayed": [list(each) for each in self.replayed], "epoch": 0}

    @classmethod
    def from_mapping(cls, record: Mapping[str, object]) -> ReplayRecord:
        """Read a record back; KeyError or ValueError if it is not one of ours."""
        replayed = record["replayed"]
        if not isinstance(replayed, list):
            message = "a position record of a replay without its letters"
            raise ValueError(message)  # noqa: TRY004 - bad data, not a bad call
        return cls(tuple((int(start), int(end)) for start, end in replayed))
