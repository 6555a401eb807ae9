"""What registering a table comes to, or would come to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.schematizer.registry.topic_rule import Problem


@dataclass(frozen=True, slots=True)
class Registered:
    """What a shape was given; `follows` is the topic before this one, "" if this is the first.

    `known_as` is the registration's id where nothing was written: the shape was
    the newest already, and nothing was said beside it.
    """

    topic: str
    key_schema_id: int | None
    value_schema_id: int
    follows: str
    known_as: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a shape would go: `topic` is the table's newest one, "" if there is none yet.

    `is_known`: the shape has an answer already. It stays on the topic unless there
    are problems.
    """

    topic: str
    is_known: bool
    problems: tuple[Problem, ...]
