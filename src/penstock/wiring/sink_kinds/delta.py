"""Sinks of kind `delta`: folders of tables that Spark reads and writes, which is above this layer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from penstock.config.places import lake_url
from penstock.wiring.ground import writable_ground
from penstock.wiring.open import open_lake_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.config.sinks import DeltaSinkSpec
    from penstock.config.specs import PipelineSpec


@dataclass(frozen=True, slots=True)
class DeltaKind:
    """See `SinkKind`."""

    spec: PipelineSpec
    sink: DeltaSinkSpec

    def explain(self) -> Iterator[str]:
        """See `SinkKind`."""
        yield f"the folder of Delta tables {lake_url(self.spec, self.sink)}"
        yield "commits  one per table and step; Spark reads and writes them"

    def examine(self) -> str:
        """See `SinkKind`."""
        url = lake_url(self.spec, self.sink)
        parts = urlsplit(url)
        if parts.scheme == "file":
            # Opening the store would make the folder.
            return f"tables can be made under {writable_ground(Path(unquote(parts.path)))}"
        open_lake_store(self.spec, self.sink).exists("penstock-check")
        return f"{url} can be read; Spark needs Hadoop's library for it too, type: penstock docs delta"
