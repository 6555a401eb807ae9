"""What `penstock status` says of a join."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from penstock.wiring.join_mirror import JoinMirror
from penstock.wiring.open import open_pipeline_state

if TYPE_CHECKING:
    from tests.servers.pipeline.conftest import PipelineCase


def status_of(case: PipelineCase, name: str) -> str:
    """Where a join is, in words."""
    with closing(open_pipeline_state(case.spec)) as state, closing(JoinMirror(case.spec, name, state)) as mirror:
        return mirror.refresh().position
