"""What an audit by stage finds: where on its way from the source to the target a row became wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.audit.findings import StagedRow

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.core.audit.findings import LastMessage, Stage
    from penstock.core.audit.queries import RowKey

STAGES: Final[tuple[Stage, ...]] = ("topic", "files", "landing", "target")
"""In the order of the way. The source is what all of them are compared with."""


@dataclass(frozen=True, slots=True)
class StageLook:
    """What one stage says of the rows that were looked up: those that are wrong in it, and those it has nothing of."""

    wrong: frozenset[RowKey] = frozenset()
    unknown: frozenset[RowKey] = frozenset()


def find_first_wrong(
    keys: Sequence[RowKey],
    looks: Mapping[Stage, StageLook],
    wrong_in_target: Collection[RowKey],
    messages: Mapping[RowKey, LastMessage],
) -> tuple[StagedRow, ...]:
    """Say of each of `keys` in which stage it is wrong first; those that turned out to be right everywhere go."""
    found = []
    for key in keys:
        unknown = tuple(stage for stage in STAGES if stage in looks and key in looks[stage].unknown)
        first = next((stage for stage in STAGES if stage in looks and key in looks[stage].wrong), None)
        if first is None and key in wrong_in_target:
            first = "target"
        if first is not None:
            before = tuple(stage for stage in unknown if STAGES.index(stage) < STAGES.index(first))
            found.append(StagedRow(key, first, before, messages.get(key)))
    return tuple(found)
