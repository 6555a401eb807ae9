"""Repairs what an audit found: asks the capture to read exactly those rows again and publish them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError
from penstock.core.snapshots import SnapshotOptions
from penstock.wiring.snapshots import ask_for_snapshots, read_snapshots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.config.specs import PipelineSpec
    from penstock.core.audit.report import AuditReport
    from penstock.ports.snapshots import Snapshot

_POLL_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class AskedRepairs:
    """The repairs that were asked for, and the tables of which none could be, with what `ask_for_snapshots` raised."""

    snapshots: Sequence[Snapshot]
    refused: Sequence[tuple[str, PenstockError]] = ()


def ask_for_repairs(spec: PipelineSpec, reports: Sequence[AuditReport]) -> AskedRepairs:
    """Ask for the rows that `reports` name, each source's table once; one that is refused keeps no other from it.

    The source's row, or its deletion, goes the way that every change goes: to all
    of the source's targets, which take it for the newest.
    """
    keys: dict[tuple[str, str], dict[str, None]] = {}
    for report in reports:
        for table in report.tables:
            if wanted := dict.fromkeys(table.repair_keys):
                keys.setdefault((report.source, table.table), {}).update(wanted)
    asked: list[Snapshot] = []
    refused: list[tuple[str, PenstockError]] = []
    for (source, name), some in keys.items():
        try:
            asked += ask_for_snapshots(spec, [name], SnapshotOptions(keys=tuple(some)), source)
        except PenstockError as error:
            refused.append((name, error))
    return AskedRepairs(asked, refused)


def await_repairs(spec: PipelineSpec, asked: Sequence[Snapshot], seconds: float) -> Sequence[Snapshot]:
    """Wait until all of `asked` have ended, at most `seconds`, and return how they are then."""
    deadline = time.monotonic() + seconds
    ids = {each.id for each in asked}
    while True:
        found = [each for each in read_snapshots(spec, [each.table for each in asked]) if each.id in ids]
        if all(each.status.has_ended for each in found) or time.monotonic() > deadline:
            return found
        time.sleep(_POLL_SECONDS)
