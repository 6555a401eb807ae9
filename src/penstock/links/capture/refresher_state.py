"""What refreshers know of the snapshots of a capture: what is read, what is locked, and what all of them share."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from penstock.core.errors import UnavailableError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from penstock.core.snapshots import Window
    from penstock.core.tables import TableId
    from penstock.ports.snapshots import Chunk, Definition, Snapshot

What: TypeAlias = "Chunk | Definition"
# The config may have publications ten seconds apart.
_NEAR_SECONDS = 12.0


@dataclass(frozen=True, slots=True)
class Reading:
    """What is being read for a snapshot, and what the log has told of its table since it began, at `began`.

    `is_probe` says that it is only looked how far the capture is behind the source.
    """

    snapshot: Snapshot
    table: TableId
    topic: str
    future: Future[What]
    window: Window
    began: float
    is_probe: bool


@dataclass(frozen=True, slots=True)
class Locked:
    """The table that a snapshot has locked; what the log tells of it since it began anew makes `window` void."""

    snapshot: Snapshot
    table: TableId
    topic: str
    window: Window


@dataclass(frozen=True, slots=True)
class Near:
    """The capture was seen near the end of the source's log, for a snapshot that locks; that counts `until`."""

    snapshot_id: str
    until: float

    def holds(self, snapshot: Snapshot) -> bool:
        """Whether `snapshot` may lock its table now."""
        return snapshot.id == self.snapshot_id and time.monotonic() < self.until


def near_since(probe: Reading) -> Near:
    """Tell that the capture has just come to where the source was when it was probed.

    Raises UnavailableError if that took long.
    """
    now = time.monotonic()
    behind = now - probe.began
    if behind > _NEAR_SECONDS:
        message = f"{probe.table} is not locked yet: the capture is about {behind:.0f} seconds behind the source"
        raise UnavailableError(message, f"it is locked once that is less than {_NEAR_SECONDS:.0f} seconds")
    return Near(probe.snapshot.id, now + _NEAR_SECONDS)


@dataclass(slots=True)
class Known:
    """What all refreshers of a capture know of its snapshots, by their ids; `taken` says by which of them.

    `paused` are the tables whose snapshots wait for people.
    """

    taken: dict[str, object] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    chunk_rows: dict[str, int] = field(default_factory=dict)
    not_before: dict[str, float] = field(default_factory=dict)
    tell_at: dict[str, float] = field(default_factory=dict)
    paused: frozenset[str] = frozenset()
