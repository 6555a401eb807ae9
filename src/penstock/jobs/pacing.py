"""How often something begins anew, whatever hurries or delays it."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(slots=True)
class Pacing:
    """One beginning in `seconds`, on the average.

    After a late beginning the next is due as if it had been in time: who begins when
    another has ended, just as often, would else trail behind it ever after.
    """

    seconds: float
    due: float = -math.inf

    def begin(self, now: float) -> None:
        """Something begins at `now`, of any clock that only goes forward."""
        is_late = 0 <= now - self.due < self.seconds
        self.due = (self.due if is_late else now) + self.seconds

    def wait_seconds(self, now: float) -> float:
        """How long it is until the next may begin."""
        return max(0.0, self.due - now)
