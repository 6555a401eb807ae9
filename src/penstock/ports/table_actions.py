"""What people ask for of one table at one link, and changes that were passed over."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Action(StrEnum):
    """What may be done to a table at a link."""

    PAUSE = "pause"
    RESUME = "resume"
    SKIP = "skip"
    DROP = "drop"


class Stage(StrEnum):
    """How far a request is: asked for, taken up by its link, done, refused by it; or done, and no longer so."""

    ASKED = "asked"
    BEGUN = "begun"
    DONE = "done"
    REFUSED = "refused"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class TableRequest:
    """The newest request for a table at a link. `told` is what came of it, "" until it has ended.

    A table is paused from a request for PAUSE until the next one for something else.
    """

    id: str
    link: str
    table: str
    action: Action
    asked_by: str
    stage: Stage = Stage.ASKED
    asked_at_ms: int = 0
    ended_at_ms: int = 0
    told: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the link still has to do it."""
        return self.stage in {Stage.ASKED, Stage.BEGUN}

    @property
    def pauses(self) -> bool:
        """Whether the table is to wait until somebody says otherwise."""
        return self.action is Action.PAUSE and self.stage is not Stage.REFUSED

    @property
    def has_dropped(self) -> bool:
        """Whether the link has forgotten the table."""
        return self.action is Action.DROP and self.stage is Stage.DONE


@dataclass(frozen=True, slots=True)
class SkippedChange:
    """A change that a target refused and that its link passed over: where it was, the row as JSON, and why.

    `request` is the id of the request that it was passed over for.
    """

    link: str
    table: str
    topic: str
    partition: int
    offset: int
    row: str
    reason: str
    request: str
    skipped_at_ms: int = 0


class TableActions(Protocol):
    """A pipeline's requests and skipped changes, in the state database.

    Whoever loses them loses pauses, which end then, and what was kept of skipped
    changes. What a link has loaded, and what it has dropped, its target knows.
    """

    def ask(self, *requests: TableRequest) -> None:
        """Ask for some things, all or none, each in the place of what was asked before.

        Raises UsageError while that is being done, and for a table that was dropped and has not begun anew.
        """
        ...

    def begin(self, request: TableRequest) -> bool:
        """Take a request up; False if somebody has asked for something else meanwhile."""
        ...

    def end(self, request: TableRequest, stage: Stage, told: str) -> None:
        """Write down what came of a request, unless it has been replaced."""
        ...

    def requests(self, link: str | None = None) -> Sequence[TableRequest]:
        """The newest request for each table at `link` (None: at all links), by link and table."""
        ...

    def keep_skipped(self, change: SkippedChange) -> None:
        """Keep a change that will be passed over. Safe to repeat."""
        ...

    def forget_skipped(self, request: TableRequest) -> None:
        """Forget the changes that were kept for a request: it passes over none. Safe to repeat."""
        ...

    def skipped(self, link: str, table: str) -> Sequence[SkippedChange]:
        """What was passed over of a table, oldest first."""
        ...

    def skipped_counts(self) -> Mapping[tuple[str, str], int]:
        """How many changes were passed over, by link and table."""
        ...

    def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        ...
