"""What a source itself says of a pipeline's standing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.core.positions import Position
    from penstock.core.retention import Retention


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How far a source's log reaches behind and ahead of `position`, None before the first start.

    `oldest_ahead_ms` is when the first change that was not carried yet was logged, 0 if
    there is none. All is None that could not be asked: `unanswered` says why then,
    and `hint` what to do. `incomplete` has why the log may lack changes, each with what to do.
    """

    source: str
    position: Position | None
    head: Position | None = None
    lag_bytes: int | None = None
    oldest_ahead_ms: int | None = None
    retention: Retention | None = None
    unanswered: str = ""
    hint: str = ""
    incomplete: tuple[tuple[str, str], ...] = ()
