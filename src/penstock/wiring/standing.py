"""Where a pipeline stands: what its lock and its state database tell, and its sources where they answer."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.adapters.state.store import open_state
from penstock.config.places import state_file, state_url
from penstock.core.errors import UnavailableError, UsageError
from penstock.core.lag import lag_seconds
from penstock.wiring.identity import own_identity, require_identity
from penstock.wiring.open import open_lock
from penstock.wiring.source_standing import ask_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.config.specs import PipelineSpec
    from penstock.ports.standing import SourceStanding
    from penstock.ports.state import LinkProgress, State, TableProgress


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a pipeline at `now_ms`.

    `holder` says who runs it, "" if nobody does, and None if the server that
    knows does not answer: `unanswered` says so then. `stranger` says that the rows
    are those of another pipeline, and what to do.
    """

    holder: str | None
    links: Sequence[LinkProgress]
    tables: Sequence[TableProgress]
    unanswered: str = ""
    sources: Sequence[SourceStanding] = ()
    now_ms: int = 0
    stranger: tuple[str, str] | None = None

    def lag_seconds(self, link: LinkProgress) -> float | None:
        """How long ago the oldest change was committed that the link has not carried, at most; None if unknown."""
        return lag_seconds(link.behind_since_ms, self.now_ms)

    def table_lag_seconds(self, table: TableProgress) -> float | None:
        """The same of one table; of a stopped one, since it stopped."""
        if table.error:
            return lag_seconds(table.stopped_at_ms or None, self.now_ms)
        link = next((link for link in self.links if link.link == table.link), None)
        if table.behind_since_ms is None:
            return None if link is None else self.lag_seconds(link)
        return lag_seconds(table.behind_since_ms, self.now_ms)

    def stuck_seconds(self, link: LinkProgress) -> float | None:
        """For how long the link's position has not moved although something was ahead of it; None if unknown."""
        if not link.behind_since_ms:
            return link.behind_since_ms
        return max(0.0, (self.now_ms - max(link.behind_since_ms, link.moved_at_ms)) / 1000)


def read_standing(spec: PipelineSpec, *, ask_sources: bool = False) -> Standing:
    """Read where the pipeline stands; nothing is known of one that never ran.

    Starts and creates nothing. Sources are asked for their log's ends only if
    `ask_sources`; one that is away is a part of the answer. Raises UnavailableError
    when the state database is away, UsageError when it cannot be opened at all.
    """
    holder, unanswered = _ask_holder(spec)
    standing = Standing(holder, (), (), unanswered, now_ms=_now_ms())
    if spec.is_embedded("state") and not state_file(spec).exists():
        return standing
    state = open_state(state_url(spec), spec.pipeline)
    try:
        standing = replace(standing, links=state.links(), tables=state.tables(), stranger=_stranger(spec, state))
        sources = _ask_sources(spec, state) if ask_sources else ()
    finally:
        state.close()
    links = [_as_the_source_says(link, sources) for link in standing.links]
    return replace(standing, links=links, sources=sources, now_ms=_now_ms())


def _stranger(spec: PipelineSpec, state: State) -> tuple[str, str] | None:
    """What tells that the rows are another pipeline's, as far as that shows without asking Kafka."""
    try:
        require_identity(spec, state.identity(), own_identity(spec, ask_kafka=False))
    except UsageError as error:
        return error.message, error.hint
    return None


def _ask_sources(spec: PipelineSpec, state: State) -> Sequence[SourceStanding]:
    asked = []
    for source in spec.sources:
        mirrored = state.position(source.name)
        asked.append(ask_source(source, mirrored[0] if mirrored else None))
    return asked


def _as_the_source_says(link: LinkProgress, sources: Sequence[SourceStanding]) -> LinkProgress:
    """A capture's lag as its source tells it, which is true also while nobody mirrors the capture."""
    told = next((source for source in sources if source.source == link.link), None)
    if told is None or told.position is None:
        return link
    if told.lag_bytes is None:
        # The mirror may be from before it fell behind.
        return replace(link, lag_seconds=None, lag_bytes=None, behind_since_ms=None)
    behind_since_ms = told.oldest_ahead_ms
    if behind_since_ms is None:
        behind_since_ms = link.behind_since_ms or link.updated_at_ms
    return replace(link, lag_bytes=told.lag_bytes, behind_since_ms=behind_since_ms, position=str(told.position))


def _ask_holder(spec: PipelineSpec) -> tuple[str | None, str]:
    """Who runs the pipeline; or None, and why nobody knows."""
    lock = open_lock(spec)
    try:
        return lock.holder(), ""
    except UnavailableError as error:
        return None, error.message


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
