"""For how long a snapshot has run: by that its pace is told, and what is left."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(slots=True)
class RunningTime:
    """Counted from chunk to chunk; while nobody reads one for it (`stop`), nothing is."""

    seconds: float
    _counted_to: float = 0.0
    _stands: bool = True

    def count(self, began: float) -> int:
        """Count up to now, and return all of it in milliseconds. A chunk was read that `began` then."""
        now = time.monotonic()
        since = max(began, self._counted_to) if self._stands else self._counted_to
        self.seconds += now - since
        self._counted_to, self._stands = now, False
        return round(1000 * self.seconds)

    def stop(self) -> None:
        """Count nothing until the next chunk is begun."""
        self._stands = True
