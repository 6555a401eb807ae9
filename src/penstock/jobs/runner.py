"""What runs the links of a pipeline: Spark, or this very process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.core.errors import UsageError
from penstock.wiring.open import OBJECTS_LINK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.core.errors import PenstockError
    from penstock.core.transforms.changes import Evaluate
    from penstock.jobs.link import Link
    from penstock.ports.sink import Sink
    from penstock.wiring.mirror import Conditions


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """What to run: all links or the one called `only`; for ever, or `once` up to what is committed now."""

    spec: PipelineSpec
    once: bool = False
    only: str | None = None

    def link_names(self) -> tuple[str, ...]:
        """Every link of the pipeline."""
        sources = [source.name for source in self.spec.sources]
        spolts = [spolt.name for spolt in self.spec.spolts]
        joins = [join.name for join in self.spec.joins]
        return (*sources, *joins, *spolts, OBJECTS_LINK, *(link.name for link in self.spec.links))

    def require_known(self) -> None:
        """Raise UsageError unless `only` is a link of the pipeline."""
        if self.only is not None and self.only not in self.link_names():
            message = f'there is no link "{self.only}" in this pipeline'
            raise UsageError(message, f"its links are: {', '.join(self.link_names())}")


class Runner(Protocol):
    """Runs links, and gives them what they need of it."""

    @property
    def slots(self) -> int:
        """How many tasks can run at once."""
        ...

    @property
    def offsets_per_task(self) -> int:
        """How many messages are worth a task of their own."""
        ...

    def open_sinks(self, spec: PipelineSpec, link: LinkSpec) -> Sequence[Sink]:
        """Open the target of `link`, as often as tables are to be loaded side by side."""
        ...

    def open_expressions(self) -> Evaluate:
        """Open what evaluates expressions of spolts, on the driver."""
        ...

    def run(self, run: PipelineRun, links: Sequence[Link], conditions: Conditions) -> PenstockError | None:
        """Run links of `run` side by side, until each is done or has given up; return the first error of those.

        How each is goes into `conditions`. Raises FencedError when another instance
        has taken over, and whatever else ends all links at once.
        """
        ...
