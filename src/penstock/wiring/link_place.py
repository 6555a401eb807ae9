"""Where a link stands in its log, as a mirror sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class LinkPlace:
    """Where a link stands now, and what lies ahead of it; what cannot be measured now is None, the position "".

    `carried_ms` is the commit time of the newest change it has carried, 0 if
    unknown. `tables` maps those whose standing differs from the link's own to
    whether they are behind, and to the commit time of their newest change.
    `dead_letters` counts those of a spolt or a join.
    """

    position: str = ""
    is_behind: bool | None = None
    carried_ms: int = 0
    lag_bytes: int | None = None
    lag_messages: int | None = None
    tables: Mapping[str, tuple[bool, int]] = field(default_factory=dict)
    dead_letters: int | None = None


class LinkMirror(Protocol):
    """Measures one link."""

    name: str

    def refresh(self) -> LinkPlace:
        """Measure now. Never raises for a server that is away: what it knows is None then."""
        ...

    def close(self) -> None:
        """Drop the connections."""
        ...
