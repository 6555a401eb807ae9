"""Which capture is meant. Travels to executors; importing it costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec, SourceSpec


@dataclass(frozen=True, slots=True)
class CaptureSpec:
    """Which source of which pipeline is captured, and by which instance of the pipeline."""

    pipeline: PipelineSpec
    source_name: str
    epoch: int

    @property
    def source(self) -> SourceSpec:
        """The source's own spec."""
        return self.pipeline.source(self.source_name)
