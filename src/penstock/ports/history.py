"""What is remembered of a running pipeline for people and monitors: samples of the last hour, and its servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SAMPLE_SECONDS = 10
"""How far samples are apart."""

SAMPLES_MAX = 360
"""How many samples are kept of each link: an hour of them."""

ServerState: TypeAlias = Literal["running", "starting", "down"]


@dataclass(frozen=True, slots=True)
class Sample:
    """What a link had carried at `at_ms` since it first ran, and how far it was behind, None where unknown."""

    at_ms: int
    rows: int
    lag_seconds: float | None


@dataclass(frozen=True, slots=True)
class ServerCondition:
    """How an embedded server is, since when, and how often this run has started it again."""

    server: str
    state: ServerState
    since_ms: int
    restarts: int = 0


class History(Protocol):
    """One pipeline's history. Nothing that moves data reads it; losing it costs charts."""

    def add_samples(self, samples: Mapping[str, Sample]) -> None:
        """Keep a sample of each link; it takes the place of the one an hour older."""
        ...

    def samples(self, since_ms: int) -> Mapping[str, Sequence[Sample]]:
        """The samples of each link from `since_ms` on, oldest first."""
        ...

    def save_servers(self, servers: Sequence[ServerCondition]) -> None:
        """Replace what is known of the embedded servers."""
        ...

    def servers(self) -> Sequence[ServerCondition]:
        """The embedded servers, sorted by name."""
        ...

    def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        ...
