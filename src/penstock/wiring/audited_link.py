"""What is open while a link is audited, and what nobody is shown of its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.core.audit.partition_size import partition_size
from penstock.core.transforms.column_patterns import ColumnPatterns
from penstock.links.audit.compare import SUSPECTS_MIN, Bounds
from penstock.links.audit.table import Databases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.config.audits import AuditSpec
    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.core.audit.findings import TableFindings
    from penstock.core.audit.queries import RowKey
    from penstock.core.tables import TableId
    from penstock.links.audit.pace import Pace
    from penstock.ports.audited import AuditedDatabase, AuditedSource, AuditedState
    from penstock.wiring.audit_progress import LinkProgress

_MASKED = "(masked)"


@dataclass(frozen=True, slots=True)
class AuditedLink:
    """What is open while a link is audited, and how fast. `stopped` says of tables why they do not go on."""

    spec: PipelineSpec
    audit: AuditSpec
    link: LinkSpec
    source: AuditedSource
    target: AuditedDatabase
    state: AuditedState
    progress: LinkProgress
    stopped: Mapping[str, str]
    pace: Pace

    def bounds(self, table: TableId) -> Bounds:
        """How a table of the source is cut, and how much is looked at."""
        audit = self.audit
        size = audit.partition_size or partition_size(self.source.row_bytes(table))
        rows_max = (max(SUSPECTS_MIN, audit.rows_max), audit.rows_max)
        return Bounds(size, audit.hashes, *rows_max, audit.float_tolerance)

    def databases(self, target: AuditedDatabase | None = None) -> Databases:
        """The source, and `target` or the link's own."""
        return Databases(self.source, target or self.target, self.pace, self.source.release)

    @property
    def wait_seconds(self) -> float:
        """For how long a target that is behind is waited for."""
        return self.pace.at_most(self.audit.wait_seconds)


def treatments(link: LinkSpec) -> list[tuple[str, ColumnPatterns]]:
    """What a link does to columns, in words, and to which."""
    rules = link.columns
    masks = [mask.columns for mask in rules.mask]
    lists = [("drops", rules.drop), ("hashes", rules.hash), *(("masks", columns) for columns in masks)]
    return [(f"the link {verb} it", ColumnPatterns(columns)) for verb, columns in lists if columns]


def with_masks(spec: PipelineSpec, table: TableId, found: TableFindings) -> TableFindings:
    """Hide what any link of the source hides from its target."""
    rules = [patterns for link in spec.links for _, patterns in treatments(link)]

    def is_hidden(column: str) -> bool:
        return any(patterns.matches(table, column) for patterns in rules)

    def mask(names: tuple[str, ...], key: RowKey) -> RowKey:
        # Without the key's columns, of a table of which nothing was compared, there are no rows either.
        return tuple(_MASKED if is_hidden(name) else text for name, text in zip(names, key, strict=True))

    def hide(findings: TableFindings) -> TableFindings:
        rows = [
            replace(
                row,
                key=mask(findings.key, row.key),
                columns={name: (_MASKED, _MASKED) if is_hidden(name) else both for name, both in row.columns.items()},
            )
            for row in findings.rows
        ]
        return replace(findings, rows=tuple(rows))

    if found.stages is None:
        return hide(found)
    names = next((each.key for each in (found, *(each for _, each in found.stages.stages)) if each.key), ())
    stages = replace(
        found.stages,
        stages=tuple((stage, hide(each)) for stage, each in found.stages.stages),
        rows=tuple(replace(row, key=mask(names, row.key)) for row in found.stages.rows),
    )
    return replace(hide(found), stages=stages)
