"""What the page and the metrics serve, as it was read at one moment."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.wiring.overview import Overview


_STALE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is served until the next look, rendered once for everybody; `read_at` is by the monotonic clock.

    `parts` are the page's parts by their names, with what may be done to tables; `parts_to_read` have
    no buttons. `has_asked`: sources and landing zones have been asked; before, nobody knows whether
    they are well.
    """

    overview: Overview
    metrics: bytes
    parts: Mapping[str, str]
    parts_to_read: Mapping[str, str]
    read_at: float
    has_asked: bool

    @property
    def is_stale(self) -> bool:
        """Whether it tells nothing of now."""
        return time.monotonic() - self.read_at > _STALE_SECONDS
