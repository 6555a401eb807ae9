"""Where a pipeline stands, read from its lock and its state database only, whether it runs or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.adapters.state.store import open_state
from penstock.config.places import state_file, state_url
from penstock.core.errors import UnavailableError
from penstock.wiring.open import open_lock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.config.specs import PipelineSpec
    from penstock.ports.state import LinkProgress, TableProgress


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a pipeline.

    `holder` says who runs it, "" if nobody does, and None if the server that
    knows does not answer: `unanswered` says so then.
    """

    holder: str | None
    links: Sequence[LinkProgress]
    tables: Sequence[TableProgress]
    unanswered: str = ""


def read_standing(spec: PipelineSpec) -> Standing:
    """Read where the pipeline stands; nothing is known of one that never ran.

    Starts and creates nothing. Raises UnavailableError when the state database
    is away, UsageError when it cannot be opened at all.
    """
    holder, unanswered = _ask_holder(spec)
    if spec.is_embedded("state") and not state_file(spec).exists():
        return Standing(holder, (), (), unanswered)
    state = open_state(state_url(spec), spec.pipeline)
    try:
        return Standing(holder, state.links(), state.tables(), unanswered)
    finally:
        state.close()


def _ask_holder(spec: PipelineSpec) -> tuple[str | None, str]:
    """Who runs the pipeline; or None, and why nobody knows."""
    lock = open_lock(spec)
    try:
        return lock.holder(), ""
    except UnavailableError as error:
        return None, error.message
