"""What is remembered of a running pipeline for people and monitors: samples of its links, and its servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.topic_policy import PolicyLook


@dataclass(frozen=True, slots=True)
class Ring:
    """Samples of each link, `seconds` apart; of each link the newest `size` are kept."""

    seconds: int
    size: int

    @property
    def span_ms(self) -> int:
        """How far back it reaches."""
        return self.size * self.seconds * 1000


HOUR = Ring(10, 360)
DAY = Ring(300, 288)
"""A sample of the day has the rows of the last one of its five minutes, and the greatest lag of them."""

ServerState: TypeAlias = Literal["running", "starting", "down"]

SPARK: Final = "Spark"
"""What a run calls Spark's JVM among its servers, once it had to be started again."""


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
        """Keep a sample of each link in both rings, in the place of those an hour and a day older."""
        ...

    def samples(self, ring: Ring, since_ms: int) -> Mapping[str, Sequence[Sample]]:
        """The samples of each link that `ring` has from `since_ms` on, oldest first."""
        ...

    def save_servers(self, servers: Sequence[ServerCondition]) -> None:
        """Replace what is known of the embedded servers."""
        ...

    def servers(self) -> Sequence[ServerCondition]:
        """The embedded servers, sorted by name."""
        ...

    def save_police(self, look: PolicyLook) -> None:
        """Replace what the look before has found."""
        ...

    def police(self) -> PolicyLook | None:
        """The newest look at how topics are kept, None if nobody ever looked."""
        ...

    def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        ...
