"""The pipelines that there are to break."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.faults.sources import MariadbSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.faults.sources import FaultSource

SECOND_SOURCE: Final = "second source"
SECOND_TARGET: Final = "second target"
SOURCE_NAMES: Final = {"source": "db", SECOND_SOURCE: "branch_db"}
"""What the pipeline's file calls them."""

_TRACKERS: Final = {"source": "tracker", SECOND_SOURCE: "second tracker"}
_SECOND_SCHEMA: Final = "branch"


@dataclass(frozen=True, slots=True)
class BrokenPipeline:
    """A pipeline from `source` into DuckDB.

    With `has_join` a join is one of its links, and there is one instance: a second one
    would keep a state of its own, and make it anew whenever it leads. With `is_double` it
    has a second source, a MariaDB, and every source goes into a PostgreSQL as well.
    """

    source: FaultSource
    has_join: bool = False
    is_double: bool = False

    @property
    def sources(self) -> Mapping[str, FaultSource]:
        """Its sources by the part that each is."""
        second = {SECOND_SOURCE: MariadbSource(_SECOND_SCHEMA)} if self.is_double else {}
        return {"source": self.source, **second}

    @property
    def trackers(self) -> Mapping[str, str]:
        """The schema tracker of each source that needs one: shared by the instances, so a server of its own."""
        return {part: _TRACKERS[part] for part, source in self.sources.items() if source.has_tracker}

    @property
    def parts(self) -> tuple[str, ...]:
        """Its servers."""
        target = (SECOND_TARGET,) if self.is_double else ()
        return (*self.sources, *self.trackers.values(), "kafka", "schematizer", "zookeeper", *target)
