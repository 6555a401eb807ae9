"""Where a pipeline stands, read from its lock and its state database only, whether it runs or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.adapters.lock.file import FileLock
from penstock.adapters.state.store import open_state
from penstock.config.places import lock_file, state_file, state_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.config.specs import PipelineSpec
    from penstock.ports.state import LinkProgress, TableProgress


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a pipeline. `holder` says who runs it, "" if nobody does."""

    holder: str
    links: Sequence[LinkProgress]
    tables: Sequence[TableProgress]


def read_standing(spec: PipelineSpec) -> Standing:
    """Read where the pipeline stands; nothing is known of one that never ran.

    Starts and creates nothing. Raises UnavailableError when the state database
    is away, UsageError when it cannot be opened at all.
    """
    holder = FileLock(lock_file(spec)).holder()
    if spec.is_embedded("state") and not state_file(spec).exists():
        return Standing(holder, (), ())
    state = open_state(state_url(spec), spec.pipeline)
    try:
        return Standing(holder, state.links(), state.tables())
    finally:
        state.close()
