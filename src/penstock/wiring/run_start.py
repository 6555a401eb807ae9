"""Writes down that a run begins, for whoever looks before its links do anything."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.core.errors import PenstockError
from penstock.ports.state import STARTING
from penstock.wiring.identity import own_identity, require_identity
from penstock.wiring.open import open_pipeline_state
from penstock.wiring.pipeline_status import ALIVE, has_state

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec


def tell_start(spec: PipelineSpec) -> None:
    """Say of the links that a run which was killed left as running that they are starting. We hold the lock.

    When each was measured last stays: its lag counts from there. This is for people alone, so a state
    database that is away, or another pipeline's, is left as it is; whoever needs it says so.
    """
    if not has_state(spec):
        return
    with suppress(PenstockError), closing(open_pipeline_state(spec)) as state:
        require_identity(spec, state.identity(), own_identity(spec, ask_kafka=False))
        now_ms = time.time_ns() // 1_000_000
        for link in state.links():
            if link.state in ALIVE:
                state.save_link(replace(link, state=STARTING, error="", hint="", running_since_ms=now_ms))
