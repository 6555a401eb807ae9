"""Whose turn it is to publish, of the ranges of a backlog that are read side by side.

A range says in the records that it commits whose turn it is: its own, the next
range's, or nobody's any more. So the turn passes on in the transaction that
makes what came before it visible, and a crash can neither lose it nor double it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto


class TokenState(StrEnum):
    """What becomes of a turn. OPEN: it goes on. PASSED: it is the next range's. OVER: no range of the plan has one."""

    OPEN = "open"
    PASSED = "passed"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class PublishToken:
    """The turn in which a record was committed: of range `number`, counted from 0, of the micro-batch called `plan`."""

    plan: str
    number: int
    state: TokenState


class Outlook(Enum):
    """What a range that waits has to expect: its turn NOW, or LATER, or NEVER."""

    NOW = auto()
    LATER = auto()
    NEVER = auto()


def outlook(newest: PublishToken | None, plan: str, number: int) -> Outlook:
    """Tell what range `number` of `plan` has to expect, given the turn in the newest record.

    The first range's turn is as soon as its plan is made. A range whose turn
    was, or is, has none: another attempt at the same task was here.
    """
    if newest is None or newest.plan != plan:
        return Outlook.LATER if number else Outlook.NOW
    if newest.state is TokenState.OVER or newest.number >= number:
        return Outlook.NEVER
    is_next = newest.state is TokenState.PASSED and newest.number == number - 1
    return Outlook.NOW if is_next else Outlook.LATER


def is_held(newest: PublishToken | None, publish_token: PublishToken) -> bool:
    """Tell whether nobody has gone on behind the range of `publish_token`, which was opened, given the newest record's turn."""
    if newest is None or newest.plan != publish_token.plan:
        return publish_token.number == 0
    return newest.number < publish_token.number or (
        newest.number == publish_token.number and newest.state is TokenState.OPEN
    )
