"""The report of an audit, and what it says as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from penstock.core.audit.scores import Score

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.audit.findings import StagesFound, TableFindings

_UNKNOWN = frozenset({"lagging", "not reached", "failed"})
"""States of a table of which nothing can be said."""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """One source against one sink. `k` is how many MinHash values were taken of a partition."""

    pipeline: str
    source: str
    sink: str
    threshold: float
    k: int
    began_at_ms: int
    seconds: float
    tables: tuple[TableFindings, ...]

    @property
    def score(self) -> Score | None:
        """Of all partitions of all tables together, as `overall` has it."""
        return overall(self.tables)

    @property
    def below(self) -> tuple[TableFindings, ...]:
        """The tables below the threshold. With one of 1, a single row that differs is enough."""
        return tuple(table for table in self.tables if self._is_below(table))

    @property
    def unknown(self) -> tuple[TableFindings, ...]:
        """The tables of which nothing can be said, though they were to be compared: they lag, or were not read."""
        return tuple(table for table in self.tables if _UNKNOWN & {table.state, *_stage_states(table)})

    @property
    def is_only_unfinished(self) -> bool:
        """Whether of all that is unknown nothing is amiss but that the time was over."""
        return bool(self.unknown) and all(table.state == "not reached" for table in self.unknown)

    @property
    def wrong_between(self) -> tuple[TableFindings, ...]:
        """The tables that differ from the source in a stage before the target."""
        return tuple(table for table in self.tables if table.stages is not None and table.stages.wrong)

    def _is_below(self, table: TableFindings) -> bool:
        if table.score is None:
            return False
        return table.score.score < self.threshold or (self.threshold == 1 and table.state == "different")


def _stage_states(table: TableFindings) -> tuple[str, ...]:
    return () if table.stages is None else tuple(found.state for _, found in table.stages.stages)


def overall(tables: Sequence[TableFindings]) -> Score | None:
    """Return the score of several tables, each by as many partitions as it has; one without any counts as one.

    None where nothing was compared, and where a table lags or could not be read: no number would tell of it.
    """
    compared = [(max(1, table.equal + table.unequal), table.score) for table in tables if table.score is not None]
    if not compared or any(table.state in _UNKNOWN for table in tables):
        return None
    total = sum(weight for weight, _ in compared)
    return Score(
        sum(weight * each.score for weight, each in compared) / total,
        sum(weight * each.lower for weight, each in compared) / total,
        sum(weight * each.upper for weight, each in compared) / total,
    )


def describe(reports: Sequence[AuditReport]) -> dict[str, object]:
    """Return what `penstock audit --json` prints; keys are never renamed."""
    tables = [table for report in reports for table in report.tables]
    return {
        "passed": not any(report.below or report.unknown or report.wrong_between for report in reports),
        **_score(overall(tables)),
        "began_at_ms": min((report.began_at_ms for report in reports), default=0),
        "seconds": round(sum(report.seconds for report in reports), 3),
        "tables": [_table(report, table) for report in reports for table in report.tables],
    }


def _table(report: AuditReport, table: TableFindings) -> dict[str, object]:
    return {
        "pipeline": report.pipeline,
        "source": report.source,
        "sink": report.sink,
        "table": table.table,
        "state": table.state,
        **_score(table.score),
        "threshold": report.threshold,
        "hashes": report.k,
        "partitions_equal": table.equal,
        "partitions_unequal": table.unequal,
        "source_rows": table.source_rows,
        "target_rows": table.target_rows,
        "key": list(table.key),
        "divergent_rows": table.wrong_rows,
        "rows": [
            {
                "key": list(row.key),
                "state": row.state,
                "columns": {name: {"source": mine, "target": theirs} for name, (mine, theirs) in row.columns.items()},
            }
            for row in table.rows
        ],
        "rows_in_flight": table.in_flight,
        "partitions_not_narrowed": table.not_narrowed,
        "not_compared": [asdict(each) for each in table.not_compared],
        "why": table.why,
        "position": table.position,
        "seconds": round(table.seconds, 3),
        "stages": None if table.stages is None else _stages(table.stages),
    }


def _stages(found: StagesFound) -> dict[str, object]:
    return {
        "audited": [
            {
                "stage": stage,
                "state": each.state,
                **_score(each.score),
                "rows": each.target_rows,
                "divergent_rows": each.wrong_rows,
                "not_compared": [asdict(column) for column in each.not_compared],
                "why": each.why,
            }
            for stage, each in found.stages
        ],
        "rows": [
            {
                "key": list(row.key),
                "first_wrong": row.first_wrong,
                "unknown_in": list(row.unknown_in),
                "message": None if row.message is None else asdict(row.message),
            }
            for row in found.rows
        ],
    }


def _score(score: Score | None) -> dict[str, float | None]:
    if score is None:
        return {"score": None, "lower": None, "upper": None}
    return {"score": score.score, "lower": score.lower, "upper": score.upper}
