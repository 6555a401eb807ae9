"""What the tasks of a join need to know; frozen, so that it travels to executors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.core.joins.described import Described
    from penstock.core.joins.plan import JoinPlan
    from penstock.core.tables import TableId


@dataclass(frozen=True, slots=True)
class JoinStream:
    """An input: the changes of `table` of `source`, in `topic`; `schema_id` is that of the values it was planned with.

    `topic_id` tells the topic from others of its name. `timelines` has for each partition
    the offsets at which timelines begin, each with its timeline. `described` is what was
    announced of the table's columns by the time that the join was opened, oldest first.
    """

    source: str
    table: TableId
    topic: str
    schema_id: int
    topic_id: str = ""
    timelines: tuple[tuple[tuple[int, int], ...], ...] = ()
    described: tuple[Described, ...] = ()


@dataclass(frozen=True, slots=True)
class JoinJob:
    """A join of a pipeline: how its `streams` are joined, and where captures announce what becomes of tables."""

    name: str
    plan: JoinPlan
    streams: tuple[JoinStream, ...]
    schemas_topic: str

    @property
    def topics(self) -> tuple[str, ...]:
        """Every topic that it reads."""
        return tuple(sorted({self.schemas_topic, *(stream.topic for stream in self.streams)}))

    @property
    def schemas(self) -> Mapping[str, int]:
        """The schema of each topic, in the order of the inputs; a topic that is joined with itself is there once."""
        return {stream.topic: stream.schema_id for stream in self.streams}


@dataclass(frozen=True, slots=True)
class StandingState:
    """A state of a join: that of `job` in `checkpoint`, as micro-batch `batch` left it, which came to `places`."""

    job: JoinJob
    checkpoint: Path
    batch: int
    places: Mapping[tuple[str, int], int]
