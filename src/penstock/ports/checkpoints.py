"""Where a link stands, kept outside of Kafka: for brokers that cannot do transactions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.topic_fingerprints import TopicState


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A link's record ("" before its first), and where its topics ended when that was written.

    `ahead` is what it was about to publish, "" for nothing. Both texts are the publisher's own.
    """

    record: str = ""
    ahead: str = ""
    topics: Mapping[str, TopicState] = field(default_factory=dict)


class Checkpoints(Protocol):
    """One link's checkpoint. What is saved is durable, all of it or nothing, when `save` returns."""

    def read(self) -> Checkpoint:
        """The newest checkpoint. Raises UnavailableError."""
        ...

    def take_over(self) -> Checkpoint:
        """Become the one who may save, and return what there is. Whoever could save before no longer can."""
        ...

    def save(self, topics: Mapping[str, TopicState], *, record: str | None = None, ahead: str | None = None) -> None:
        """Replace what is given, and keep the rest: of topics, too.

        Raises DisplacedError, and saves nothing, if somebody has taken over since we did.
        """
        ...

    def close(self) -> None:
        """Drop the connection."""
        ...
