"""The position record of a join."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.joins.upgrade import MadeJoin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NO_BATCH = -1


@dataclass(frozen=True, slots=True)
class JoinRecord:
    """Committed with the messages of one micro-batch.

    `batch` is its number in the state's checkpoint, NO_BATCH before the first one,
    and `places` what of every (topic, partition) is in: the first offset that is not.
    `generation` counts the states that this output was made from: the rows of one are
    all there are, whatever was before, but where it `follows` so many others whose rows
    stay until it publishes them anew. `digest` is the plan's, `ids` what tells the topic of
    each input from others of its name (KIP-516), and `schema_ids` the schema of each of
    those topics, in the same order. Topics may share one.
    `made` is what the state keeps and the output shows of it, which `upgrades` changes
    of the file have changed in this generation.
    `letters` counts the messages that could not be read.
    """

    epoch: int
    generation: int
    batch: int
    digest: str
    schema_ids: tuple[int, ...]
    places: Mapping[tuple[str, int], int] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    made: MadeJoin | None = None
    upgrades: int = 0
    letters: int = 0
    follows: int = 0

    @property
    def schemas(self) -> Mapping[str, int]:
        """The schema that the plan was made of, of each topic for which it is known."""
        # Where it is known of one, it is of all.
        return dict(zip(self.ids, self.schema_ids, strict=bool(self.schema_ids)))

    def to_mapping(self) -> dict[str, object]:
        """The record as JSON values."""
        return {
            "epoch": self.epoch,
            "generation": self.generation,
            "batch": self.batch,
            "digest": self.digest,
            "schema_ids": list(self.schema_ids),
            "places": [[topic, partition, offset] for (topic, partition), offset in sorted(self.places.items())],
            "ids": dict(self.ids),
            "made": None if self.made is None else self.made.to_mapping(),
            "upgrades": self.upgrades,
            "letters": self.letters,
            "follows": self.follows,
        }

    @classmethod
    def from_mapping(cls, record: Mapping[str, object]) -> JoinRecord:
        """Read a record back; KeyError or ValueError if it is not one of ours."""
        # What older releases wrote does not say what is kept.
        made = record.get("made")
        places, ids, schema_ids = record["places"], record["ids"], record["schema_ids"]
        if not (isinstance(places, list) and isinstance(ids, dict) and isinstance(schema_ids, list)):
            message = "a position record of a join without its places"
            raise ValueError(message)  # noqa: TRY004 - bad data, not a bad call
        return cls(
            epoch=int(str(record["epoch"])),
            generation=int(str(record["generation"])),
            batch=int(str(record["batch"])),
            digest=str(record["digest"]),
            schema_ids=_one_per_topic([int(each) for each in schema_ids], len(ids)),
            places={(str(topic), int(partition)): int(offset) for topic, partition, offset in places},
            ids={str(topic): str(topic_id) for topic, topic_id in ids.items()},
            made=MadeJoin.from_mapping(made) if isinstance(made, dict) else None,
            upgrades=int(str(record.get("upgrades", 0))),
            letters=int(str(record.get("letters", 0))),
            follows=int(str(record.get("follows", 0))),
        )


def _one_per_topic(schema_ids: Sequence[int], topics: int) -> tuple[int, ...]:
    """The schema of each topic; () where which is whose cannot be told.

    Older releases wrote one per input, and so that of a topic that is joined with itself twice.
    """
    if len(schema_ids) == topics:
        return tuple(schema_ids)
    distinct = tuple(dict.fromkeys(schema_ids))
    return distinct if len(distinct) == topics else ()
