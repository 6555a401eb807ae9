"""Which files of a backlog are carried by which task, and what became of them. Importing it costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from penstock.core.publish_tokens import PublishToken, TokenState

if TYPE_CHECKING:
    from penstock.core.positions import Position


@dataclass(frozen=True, slots=True)
class BacklogSlice:
    """File `number`, counted from 0, of those that the micro-batch `plan` carries. It begins at `begin`."""

    plan: str
    number: int
    begin: Position
    is_last: bool

    def publish_token(self, state: TokenState) -> PublishToken:
        """Its publish token, as records tell of it."""
        return PublishToken(self.plan, self.number, state)


@dataclass(frozen=True, slots=True)
class SlicePublished:
    """What a slice did, for the driver. `goes_on` says whether the next one has the publish token."""

    position: Position
    publications: int
    rows: int
    goes_on: bool


@dataclass(frozen=True, slots=True)
class SliceDropped:
    """A slice that never got the publish token, for the driver: it is planned again.

    `waited_seconds` is for how long nobody published, where that is the reason.
    """

    begin: Position
    waited_seconds: float = 0.0
    goes_on: ClassVar[bool] = False
