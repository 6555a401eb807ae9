"""Compatibility levels of a subject.

Source: Confluent Schema Registry documentation, "Schema Evolution and
Compatibility", table of compatibility types.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from penstock.core.compatibility import Reading, reading_problems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.avro_types import AvroSchema


class Level(StrEnum):
    """What a new version of a subject must be able to do with the older ones."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def transitive(self) -> bool:
        """Whether every older version counts, not only the newest."""
        return self.value.endswith("_TRANSITIVE")


def level_problems(level: Level, reading: Reading, new: AvroSchema, old: Sequence[AvroSchema]) -> tuple[str, ...]:
    """List what keeps `new` from following `old` (oldest first) at `level`; empty if nothing does."""
    counted = old if level.transitive else old[-1:]
    return tuple(problem for schema in counted for problem in pair_problems(level, reading, new, schema))


def pair_problems(level: Level, reading: Reading, new: AvroSchema, old: AvroSchema) -> tuple[str, ...]:
    """List what keeps `new` from following one older schema."""
    problems: list[str] = []
    if level in {Level.BACKWARD, Level.BACKWARD_TRANSITIVE, Level.FULL, Level.FULL_TRANSITIVE}:
        problems += [f"new reads old: {problem}" for problem in reading_problems(new, old, reading)]
    if level in {Level.FORWARD, Level.FORWARD_TRANSITIVE, Level.FULL, Level.FULL_TRANSITIVE}:
        problems += [f"old reads new: {problem}" for problem in reading_problems(old, new, reading)]
    return tuple(problems)
