"""The results of a pipeline's audits (ports/audit_results.AuditResults), in the state database."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, func, select

from penstock.adapters.state.database import transaction
from penstock.adapters.state.migrate import open_current
from penstock.adapters.state.tables import AUDIT_RESULTS
from penstock.adapters.state.upserts import upsert
from penstock.ports.audit_results import NO_RESULT, NOT_REACHED, RESULTS_MAX, WHOLE, AuditResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Engine, Row, Select

# SQLite lets a reader become a writer only if nobody else wrote in between.
_WRITE = "BEGIN IMMEDIATE"


def open_audit_results(url: str, pipeline: str) -> SqlAuditResults:
    """Open the state database at `url`, as `open_state` does."""
    return SqlAuditResults(open_current(url), pipeline)


class SqlAuditResults:
    """An `AuditResults`. Every method raises UnavailableError when the database is away, busy or full."""

    def __init__(self, engine: Engine, pipeline: str) -> None:
        """Take over an engine whose database has this release's tables."""
        self._engine = engine
        self._pipeline = pipeline

    def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        self._engine.dispose()

    def add(self, results: Sequence[AuditResult]) -> None:
        """See ports/audit_results.AuditResults."""
        with transaction(self._engine, _WRITE) as connection:
            upsert(connection, AUDIT_RESULTS, [_row(self._pipeline, each) for each in results])
            for each in results:
                self._drop_old(connection, each)

    def newest(self) -> Sequence[AuditResult]:
        """See ports/audit_results.AuditResults."""
        wanted = self._newest_of(AUDIT_RESULTS.c.table_name == WHOLE)
        with transaction(self._engine) as connection:
            found = [_result(row) for row in connection.execute(wanted).all()]
            lacks = any(each.state in NO_RESULT for each in found)
            known = [_result(row) for row in connection.execute(self._newest_scored())] if lacks else []
        before = {(each.audit, each.table): each for each in known}
        return sorted((_with_score(each, before) for each in found), key=lambda each: (each.audit, each.table))

    def _newest_scored(self) -> Select[tuple[Any, ...]]:
        columns = AUDIT_RESULTS.c
        return self._newest_of(columns.table_name, columns.score.is_not(None), columns.table_name != WHOLE)

    def _newest_of(self, part: ColumnElement[Any], *conditions: ColumnElement[bool]) -> Select[tuple[Any, ...]]:
        """Choose the results of the last run of each audit and `part` that had any under `conditions`."""
        columns, mine = AUDIT_RESULTS.c, (AUDIT_RESULTS.c.pipeline == self._pipeline, *conditions)
        last = select(columns.audit, part.label("part"), func.max(columns.began_at_ms).label("last")).where(*mine)
        newest = last.group_by(columns.audit, part).subquery()
        is_last = (columns.audit == newest.c.audit) & (part == newest.c.part) & (columns.began_at_ms == newest.c.last)
        return select(AUDIT_RESULTS).join(newest, is_last).where(*mine)

    def last_reached(self, audit: str) -> Mapping[str, int]:
        """See ports/audit_results.AuditResults."""
        columns = AUDIT_RESULTS.c
        wanted = select(columns.table_name, func.max(columns.began_at_ms)).where(
            columns.pipeline == self._pipeline, columns.audit == audit, columns.state != NOT_REACHED
        )
        with transaction(self._engine) as connection:
            return {row[0]: row[1] for row in connection.execute(wanted.group_by(columns.table_name))}

    def history(self, audit: str, table: str) -> Sequence[AuditResult]:
        """See ports/audit_results.AuditResults."""
        columns = AUDIT_RESULTS.c
        wanted = select(AUDIT_RESULTS).where(
            columns.pipeline == self._pipeline, columns.audit == audit, columns.table_name == table
        )
        with transaction(self._engine) as connection:
            return [_result(row) for row in connection.execute(wanted.order_by(columns.began_at_ms.desc()))]

    def _drop_old(self, connection: Connection, result: AuditResult) -> None:
        columns = AUDIT_RESULTS.c
        mine = (
            columns.pipeline == self._pipeline,
            columns.audit == result.audit,
            columns.table_name == result.table,
        )
        kept = select(columns.began_at_ms).where(*mine).order_by(columns.began_at_ms.desc())
        oldest = connection.execute(kept.offset(RESULTS_MAX - 1).limit(1)).scalar()
        if oldest is not None:
            connection.execute(delete(AUDIT_RESULTS).where(*mine, columns.began_at_ms < oldest))


def _with_score(found: AuditResult, before: Mapping[tuple[str, str], AuditResult]) -> AuditResult:
    """Return a run that came to no result with the score from before, if that was below the threshold."""
    known = before.get((found.audit, found.table))
    if found.state not in NO_RESULT or known is None or not known.is_below:
        return found
    return replace(
        found,
        score=known.score,
        lower=known.lower,
        upper=known.upper,
        threshold=known.threshold,
        is_below=True,
        wrong_rows=known.wrong_rows,
    )


def _row(pipeline: str, result: AuditResult) -> dict[str, object]:
    told = asdict(result)
    table, rows, is_below = told.pop("table"), told.pop("rows"), told.pop("is_below")
    told["why"] = result.why.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
    return {**told, "pipeline": pipeline, "table_name": table, "row_count": rows, "is_below": int(is_below)}


def _result(row: Row[tuple[object, ...]]) -> AuditResult:
    return AuditResult(
        audit=row.audit,
        table=row.table_name,
        began_at_ms=row.began_at_ms,
        state=row.state,
        score=row.score,
        lower=row.lower,
        upper=row.upper,
        threshold=row.threshold,
        is_below=bool(row.is_below),
        partitions=row.partitions,
        unequal=row.unequal,
        rows=row.row_count,
        wrong_rows=row.wrong_rows,
        seconds=row.seconds,
        why=row.why,
        not_compared=row.not_compared,
    )
