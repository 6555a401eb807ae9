"""What a link is to whoever runs it: work in micro-batches, and a driver side that takes what came of each.

Executors import this module and nothing else of a link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypeGuard

from penstock.core.errors import FencedError, PenstockError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from penstock.core.joins.unreadable import Unreadable
    from penstock.links.joins.spec import JoinJob, StandingState


Until: TypeAlias = "Callable[[float], bool]"
"""Waits for so many seconds at most; True, and at once, when a link is to end."""


class Task(Protocol):
    """Work of one micro-batch for one executor. Frozen and picklable; opens its own connections."""

    def run(self) -> Iterator[object]:
        """Do the work and yield what the driver must know, as picklable objects."""
        ...


class Planner(Protocol):
    """Decides what the next micro-batch does, on the driver."""

    def fix_end(self) -> None:
        """Remember the end of the log as it is now, and never plan past it."""
        ...

    def has_work(self) -> bool:
        """Whether another micro-batch is wanted now."""
        ...

    def plan(self) -> Sequence[Task]:
        """Plan the next micro-batch from the target's committed position."""
        ...


class PlannerFactory(Protocol):
    """Makes a planner."""

    def __call__(self) -> Planner:
        """Open a planner."""
        ...


@dataclass(frozen=True, slots=True)
class PlannedWork:
    """Micro-batches of tasks. `take` gets what those of each yielded, task by task, on the driver.

    Tasks that read a source's log wait for each other: all of a micro-batch must
    run at once. Those that read topics do not, and have a process to themselves or
    run one after the other, because they keep connections for the next one.

    A run without an end calls `follow` before each micro-batch, on the driver: it
    carries what comes by itself while that is little, and returns when it is more.
    """

    reads: Literal["mysql", "topics"]
    planning: PlannerFactory
    take: Callable[[Iterable[object]], None]
    follow: Callable[[Until], None] | None = None


@dataclass(frozen=True, slots=True)
class MessageWork:
    """Messages of the batch topic from `start` on, some at a time. `take` gets (offset, value), in order.

    A run without an end takes some at most every `pace_seconds`, and calls `go_on` before:
    it does what is to be done while no messages come, until the link is closed, and tells
    `failed` what ends it.
    """

    start: int
    take: Callable[[Sequence[tuple[int, bytes]]], None]
    go_on: Callable[[Callable[[BaseException], None]], None]
    pace_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class JoinWork:
    """Micro-batches of all messages of some topics, from their beginnings on, joined with a state that is kept.

    `checkpoint` is the state's, the runner's own; `places` are those that are taken:
    the first offset of each (topic, partition) that is not. `take` gets the number of a
    micro-batch, the places that it comes to, its differences
    (core/joins/blocks.unpack_differences) and the messages that could not be read,
    unless it `has` that micro-batch already. A state that is begun has so much `parallelism`, or what
    suits the machine.

    A join that goes on as it was lasts `until` that says so, and is to be opened again then; its
    `stand_still` gets what its inputs cannot be read with any more, and the link does not fail of it.
    """

    job: JoinJob
    checkpoint: Path
    places: Mapping[tuple[str, int], int]
    batch: int
    has: Callable[[int], bool]
    take: Callable[[int, Mapping[tuple[str, int], int], Sequence[pa.Table], Sequence[Unreadable]], None]
    parallelism: int | None = None
    until: Callable[[], bool] | None = None
    stand_still: Callable[[PenstockError], None] | None = None

    def gives_up(self, error: BaseException) -> bool:
        """Stand still, if it is a join that goes on as it was and cannot do so with what it has; say whether it is.

        Where another instance goes on, it is not.
        """
        if self.stand_still is None or not _is_final(error):
            return False
        self.stand_still(error)
        return True


@dataclass(frozen=True, slots=True)
class RebuildWork:
    """A state of a join that is made from the beginnings of its topics, beside the output of another one.

    Micro-batches are joined, and nothing of them is published; `set_aside` gets what cannot
    be read. Meanwhile `going_on` does, the join as it was, unless it cannot. When the state
    is close to it, that ends, and the link is opened again to say what there is to do then.
    At rest, the state has to come to `reaches` at least. Then `switch` gets the number of its last
    micro-batch, the places that it came to, and all joined rows of the `standing` state, if there is
    one, and of this one (columns as of differences from nothing). Behind that the link is to be opened again.
    `refuse` gets what keeps the state from being made, and the link is opened again without it.
    """

    job: JoinJob
    checkpoint: Path
    reaches: Mapping[tuple[str, int], int]
    standing: StandingState | None
    going_on: JoinWork | None
    set_aside: Callable[[Sequence[Unreadable]], None]
    switch: Callable[[int, Mapping[tuple[str, int], int], Sequence[pa.Table], Sequence[pa.Table]], None]
    refuse: Callable[[PenstockError], None]
    parallelism: int | None = None

    def without_it(self, error: BaseException) -> BaseException:
        """What ends the link where `error` ended the making of the state: nothing for long, if the join goes on."""
        if self.going_on is None or not _is_final(error):
            return error
        self.refuse(error)
        message = f"the join {self.job.name} is not made again: {error.message}"
        return UnavailableError(message, "it goes on as it was; see penstock status FILE")


def _is_final(error: BaseException) -> TypeGuard[PenstockError]:
    """Whether it comes again however often this is tried: nobody is away, and no other instance goes on."""
    return isinstance(error, PenstockError) and not error.retryable and not isinstance(error, FencedError)


Work: TypeAlias = PlannedWork | MessageWork | JoinWork | RebuildWork


class Link(Protocol):
    """One link of a running pipeline. After a failure, `close` and `open` it again."""

    @property
    def name(self) -> str:
        """What operators call it."""
        ...

    @property
    def brings_changes_in(self) -> bool:
        """Whether it reads something that no other link of the pipeline writes."""
        ...

    def open(self) -> Work:
        """Open what the driver side needs, and say what there is to do."""
        ...

    def close(self) -> None:
        """Let go of what the driver side holds. Safe to call twice."""
        ...
