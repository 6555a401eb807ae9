"""Where a link stands, by what is in Kafka."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import structlog

from penstock.core.errors import PenstockError
from penstock.core.lag import NewestChange
from penstock.wiring.link_place import LinkPlace
from penstock.wiring.open import open_topic_log

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec
    from penstock.ports.state import State

_log = structlog.get_logger()


class KafkaMirror(ABC):
    """A `LinkMirror` with a connection to Kafka. While Kafka is away it knows no place."""

    def __init__(self, spec: PipelineSpec, name: str, state: State) -> None:
        """Read nothing yet of the link called `name`."""
        self.name = name
        self._spec = spec
        self._state = state
        self._topics = open_topic_log(spec)
        self._newest = NewestChange()

    def refresh(self) -> LinkPlace:
        """Ask Kafka for what is new."""
        try:
            return self.measure()
        except PenstockError as error:
            _log.debug("mirror waits for Kafka", error=error.message)
            return LinkPlace()

    def close(self) -> None:
        """Drop the connection to Kafka."""
        self._topics.close()

    def tables_ms(self) -> dict[str, int]:
        """The commit time of what the link carried last of each table."""
        return {table.table: table.last_timestamp_ms for table in self._state.tables() if table.link == self.name}

    @abstractmethod
    def measure(self) -> LinkPlace:
        """Return where the link stands. Raises PenstockError when Kafka does not answer."""
