"""How fast an audit reads, and for how long."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

QUERY_SECONDS: Final = 3600.0
"""What a query of an audit may take, unless less is allowed."""
OUT_OF_TIME: Final = "the audit's time was over before it was compared"


@dataclass(frozen=True, slots=True)
class Pace:
    """At `ends_at` (by the monotonic clock) an audit's time is over; None for as long as it takes.

    With `partitions_per_second` a table is not read in one scan but piece by piece.
    A query that takes longer than `query_seconds` may be ended.
    """

    ends_at: float | None = None
    partitions_per_second: int | None = None
    query_seconds: float = QUERY_SECONDS

    @property
    def seconds_left(self) -> float | None:
        """How many seconds are left, 0 or less where none are."""
        return None if self.ends_at is None else self.ends_at - time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.ends_at is not None and time.monotonic() >= self.ends_at

    def at_most(self, seconds: float) -> float:
        """For how long of so many seconds may be waited."""
        left = self.seconds_left
        return seconds if left is None else max(0.0, min(seconds, left))

    def require_time(self) -> None:
        """Raise UnavailableError where no time is left."""
        if self.is_over:
            raise UnavailableError(OUT_OF_TIME, "give the audit more `seconds_max`")

    @contextmanager
    def for_a_second(self) -> Iterator[None]:
        """Do what is in the block, and let a second pass since it began."""
        began = time.monotonic()
        yield
        time.sleep(max(0.0, began + 1 - time.monotonic()))
