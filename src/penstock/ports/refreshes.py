"""Where the Schematizer is told how snapshots are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.ports.snapshots import Snapshot


class Refreshes(Protocol):
    """Tells of snapshots; whatever goes wrong, telling again does no harm."""

    def tell(self, snapshot: Snapshot) -> None:
        """Bring the refresh of `snapshot`, which is made if it is missing, to how the snapshot is.

        Raises UnavailableError when the Schematizer is away, and PenstockError when it refuses.
        """
        ...

    def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        ...
