"""Audits one table: compares it, looks at what differs again, and says what was found."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.core.audit.findings import NamedRows, TableFindings, score_of
from penstock.core.audit.repair import RepairKeys
from penstock.core.audit.scores import Score
from penstock.core.audit.suspects import HASH_BYTES
from penstock.links.audit.compare import Bounds, compare
from penstock.links.audit.describe import VALUES_MAX, describe_rows
from penstock.links.audit.pace import Pace
from penstock.links.audit.pair import Pair
from penstock.links.audit.settle import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.core.audit.findings import Comparison, DivergentRow
    from penstock.core.audit.side import AuditSide
    from penstock.core.audit.suspects import Suspects
    from penstock.core.audit.table_plan import TablePlan
    from penstock.links.audit.settle import LookedAt
    from penstock.ports.audited import AuditedDatabase

_AGAIN_MAX: Final = 2
"""So often a table is compared anew in which more rows are in flight than are looked at."""
_CHANGING: Final = (
    "more rows changed while it was compared than are looked at; what to do: audit when it is written to less"
)


@dataclass(frozen=True, slots=True)
class Databases:
    """Where the source and the target are, and how fast they may be read; `release` as of a `Pair`."""

    source: AuditedDatabase
    target: AuditedDatabase
    pace: Pace = field(default_factory=Pace)
    release: Callable[[], None] = lambda: None

    def pair(self, source_side: AuditSide, target_side: AuditSide) -> Pair:
        """A table that is in both."""
        return Pair(self.source, self.target, source_side, target_side, self.pace, release=self.release)


def audit_table(
    table: str, databases: Databases, plan: TablePlan, bounds: Bounds, await_target: Callable[[], str]
) -> TableFindings:
    """Audit a table, of which the target has passed the place where the source was renewed.

    `await_target` is as `settle` wants it. Raises what `compare` does.
    """
    findings = TableFindings(table, "not compared", not_compared=plan.not_compared, why=plan.refusal)
    if plan.source is None or plan.target is None:
        # Where the target lacks a column of the key, no row of it is right, though none can be looked at.
        is_wrong = any(each.is_wrong for each in plan.not_compared)
        return replace(findings, state="different", score=Score(0.0, 0.0, 0.0)) if is_wrong else findings
    findings = replace(findings, key=tuple(column.name for column in plan.source.key))
    databases.target.renew()
    pair = databases.pair(plan.source, plan.target)
    comparison, looked = _look(pair, bounds, await_target)
    if bounds.float_tolerance:
        looked = replace(looked, wrong=_beyond(pair, looked.wrong, bounds.float_tolerance))
    return _judge(findings, comparison, looked, pair, bounds)


def _look(pair: Pair, bounds: Bounds, await_target: Callable[[], str]) -> tuple[Comparison, LookedAt]:
    """Compare, and look at what differs again; all of it anew where more rows may be in flight than are looked at."""
    comparison = compare(pair, bounds)
    looked = settle(pair, comparison.suspects, await_target)
    for _ in range(_AGAIN_MAX):
        if looked.why or not _may_be_in_flight(comparison, looked):
            return comparison, looked
        pair.source.renew()
        if why := await_target():
            return comparison, replace(looked, why=why)
        pair.target.renew()
        comparison = compare(pair, bounds)
        looked = settle(pair, comparison.suspects, await_target)
    if not looked.why and _may_be_in_flight(comparison, looked):
        looked = replace(looked, why=_CHANGING)
    return comparison, looked


def _may_be_in_flight(comparison: Comparison, looked: LookedAt) -> bool:
    """Whether rows differ that nobody looked at, and most of those that were looked at are not wrong."""
    return bool(comparison.not_narrowed) and 2 * len(looked.wrong) < len(comparison.suspects)


def _beyond(pair: Pair, wrong: Suspects, tolerance: float) -> Suspects:
    """Return the rows that differ in more than floats that are alike."""
    kinds = {column.name: column.kind for column in pair.source_side.columns}
    beyond: list[int] = []
    for place, (suspect, row) in enumerate(zip(wrong, describe_rows(pair, wrong), strict=True)):
        alike = (kinds[name] == "float" and _is_close(*both, tolerance) for name, both in row.columns.items())
        is_one = len(suspect.source) == len(suspect.target) == HASH_BYTES
        if not is_one or not row.columns or not all(alike):
            beyond.append(place)
    return wrong.take(np.array(beyond, np.int64))


def _is_close(text: str | None, other: str | None, tolerance: float) -> bool:
    if text is None or other is None:
        return False
    try:
        return math.isclose(float(text), float(other), rel_tol=tolerance)
    except ValueError:
        # Of what is no number the text is shown as databases compare it.
        return False


def _named(pair: Pair, rows: Suspects) -> Sequence[DivergentRow]:
    valued = tuple(describe_rows(pair, rows.first(VALUES_MAX)))
    return NamedRows(valued, rows.between(VALUES_MAX, len(rows))) if len(rows) > VALUES_MAX else valued


def _judge(
    findings: TableFindings, comparison: Comparison, looked: LookedAt, pair: Pair, bounds: Bounds
) -> TableFindings:
    score, unequal = score_of(comparison, looked.wrong, looked.in_flight, bounds.k)
    wrong_columns = [each for each in findings.not_compared if each.is_wrong]
    if wrong_columns:
        # No row is equal to one that has other columns.
        score = Score(0.0, 0.0, score.upper)
    named = looked.wrong.in_order().first(bounds.rows_max)
    found = replace(
        findings,
        score=score,
        equal=comparison.equal + len(comparison.unequal) - unequal,
        unequal=unequal,
        source_rows=comparison.source_rows,
        target_rows=comparison.target_rows,
        rows=_named(pair, named),
        repair_keys=RepairKeys(pair.source_side.key, named),
        wrong_rows=len(looked.wrong),
        in_flight=len(looked.in_flight),
        not_narrowed=len(comparison.not_narrowed),
    )
    if len(looked.wrong) or wrong_columns or (comparison.not_narrowed and not looked.why):
        return replace(found, state="different", why=looked.why)
    if looked.why or len(looked.in_flight):
        why = looked.why or "rows changed all the while they were looked at"
        return replace(found, state="lagging", why=why, score=None)
    return replace(found, state="equal")
