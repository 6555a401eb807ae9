"""What one run of a bench found out, and the JSON of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.bench.figure import Figure


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of bench `bench`, with the machine, the versions and the settings they were measured with."""

    bench: str
    machine: Mapping[str, str | float]
    versions: Mapping[str, str]
    settings: Mapping[str, float]
    figures: Sequence[Figure]

    def to_json(self) -> str:
        """One JSON object."""
        fields = {
            "bench": self.bench,
            "machine": self.machine,
            "versions": self.versions,
            "settings": self.settings,
            "figures": [figure.to_mapping() for figure in self.figures],
        }
        return json.dumps(fields, indent=1)
