"""Which files of a backlog are carried by which task, and what became of them. Importing it costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from penstock.core.turns import Turn, TurnState

if TYPE_CHECKING:
    from penstock.core.positions import Position


@dataclass(frozen=True, slots=True)
class Range:
    """File `number`, counted from 0, of those that the micro-batch `plan` carries. It begins at `begin`."""

    plan: str
    number: int
    begin: Position
    is_last: bool

    def turn(self, state: TurnState) -> Turn:
        """Its turn, as records tell of it."""
        return Turn(self.plan, self.number, state)


@dataclass(frozen=True, slots=True)
class RangePublished:
    """What a range did, for the driver. `goes_on` says whether the next one has its turn."""

    position: Position
    publications: int
    rows: int
    goes_on: bool


@dataclass(frozen=True, slots=True)
class RangeDropped:
    """A range that had no turn, for the driver: it is planned again.

    `waited_seconds` is for how long nobody published, where that is the reason.
    """

    begin: Position
    waited_seconds: float = 0.0
    goes_on: ClassVar[bool] = False
