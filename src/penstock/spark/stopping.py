"""When a link that follows its log on the driver is to end."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Stopping:
    """One link's end, and that of all links: `halted` is set in the moment in which nothing may be written any more."""

    halted: threading.Event
    _stopped: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """Let this link end."""
        self._stopped.set()

    def wait(self, seconds: float) -> bool:
        """Wait for so long, or until the link is to end; whether it is."""
        return self._stopped.wait(seconds) or self.halted.is_set()
