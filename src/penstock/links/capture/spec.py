"""Which capture is meant, and how it begins. Travels to executors; importing it costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec, SourceSpec


PIECE_BYTES_MAX = 32 << 20


@dataclass(frozen=True, slots=True)
class CaptureSpec:
    """Which source of which pipeline is captured, and by which instance of the pipeline.

    Transactions of more than `piece_bytes` are published in pieces, which grow while they pass quickly.
    """

    pipeline: PipelineSpec
    source_name: str
    epoch: int
    piece_bytes: int = PIECE_BYTES_MAX

    @property
    def source(self) -> SourceSpec:
        """The source's own spec."""
        return self.pipeline.source(self.source_name)
