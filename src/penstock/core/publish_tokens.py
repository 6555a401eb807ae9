"""Which of the slices of a backlog, read side by side, may publish: the one that has the publish token.

A slice says in the records that it commits who has the token: itself, the next
slice, or nobody any more. So the token passes on in the transaction that
makes what came before it visible, and a crash can neither lose it nor double it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto


class TokenState(StrEnum):
    """Who has the token. OPEN: this slice. PASSED: the next one. OVER: no slice of the plan."""

    OPEN = "open"
    PASSED = "passed"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class PublishToken:
    """The token with which a record was committed: of slice `number`, counted from 0, of the micro-batch `plan`."""

    plan: str
    number: int
    state: TokenState


class Outlook(Enum):
    """When a slice that waits gets the token: NOW, LATER, or NEVER."""

    NOW = auto()
    LATER = auto()
    NEVER = auto()


def outlook(newest: PublishToken | None, plan: str, number: int) -> Outlook:
    """Tell when slice `number` of `plan` gets the token, given that of the newest record.

    The first slice has it as soon as its plan is made. A slice that had it once
    never gets it again: another attempt at the same task was here.
    """
    if newest is None or newest.plan != plan:
        return Outlook.LATER if number else Outlook.NOW
    if newest.state is TokenState.OVER or newest.number >= number:
        return Outlook.NEVER
    is_next = newest.state is TokenState.PASSED and newest.number == number - 1
    return Outlook.NOW if is_next else Outlook.LATER


def is_held(newest: PublishToken | None, publish_token: PublishToken) -> bool:
    """Tell whether nobody has gone on behind the slice that `publish_token` was opened for."""
    if newest is None or newest.plan != publish_token.plan:
        return publish_token.number == 0
    return newest.number < publish_token.number or (
        newest.number == publish_token.number and newest.state is TokenState.OPEN
    )
