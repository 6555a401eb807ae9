"""Audits the landing table before a public table of Snowflake, and waits until tasks have merged what landed."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.core.audit.findings import Stage, TableFindings, unread
from penstock.core.audit.landing import (
    LACKED,
    describe_foreign,
    folded_rows,
    foreign_query,
    lacking_query,
    last_position_query,
    unmerged_query,
    untreated_rows,
    why_unknown,
)
from penstock.core.audit.stages import StageLook
from penstock.core.audit.suspects import Suspects
from penstock.core.audit.table_plan import KnownTarget, TablePlan, plan_table
from penstock.core.errors import PenstockError
from penstock.links.audit.settle import settle
from penstock.links.audit.table import audit_table
from penstock.wiring.audited_link import treatments
from penstock.wiring.sink_kinds.table import landing_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.core.audit.findings import LastMessage
    from penstock.core.audit.queries import RowKey
    from penstock.core.tables import TableId, TableSchema
    from penstock.links.audit.pair import Pair
    from penstock.wiring.audited_link import AuditedLink
    from penstock.wiring.sink_kinds.snowflake import SnowflakeKind

_POLL_SECONDS: Final = 0.5
_CONVERTED: Final = "the sink's rule converts it"


def await_merged(opened: AuditedLink, table: TableId) -> str:
    """Wait, at most twice `wait_seconds`, until what has landed of a table is merged.

    Return "", or why it is not: a task runs by its schedule. Nothing is waited for without a landing zone.
    """
    kind = landing_kind(opened.spec, opened.spec.sink(opened.link.sink))
    known = opened.state.table(table) if kind else None
    if kind is None or known is None or known.ended:
        return ""
    seconds = 2 * opened.wait_seconds
    deadline = time.monotonic() + seconds
    landed = known.schema.table
    ((position,),) = opened.target.fetch(last_position_query(kind.zone, landed))
    while position is not None and opened.target.fetch(unmerged_query(kind.zone, landed, str(position))):
        if time.monotonic() > deadline:
            where = f"its task has not merged what landed, in {seconds:g} s"
            more = "give the audit more `wait_seconds` than half the task's schedule"
            return f"{where}: see penstock status FILE, and {more}"
        time.sleep(_POLL_SECONDS)
    return ""


def as_treated(opened: AuditedLink, schema: TableSchema, plan: TablePlan, unlike: Mapping[str, str]) -> TablePlan:
    """Compare a public table with the rows that the sink's rule keeps out of it, as the landing table has those.

    `unlike` are the columns that are not compared.
    """
    kind = landing_kind(opened.spec, opened.spec.sink(opened.link.sink))
    if kind is None or plan.target is None:
        return plan
    if why := why_unknown(kind.zone, schema, [name for name, said in unlike.items() if said == LACKED]):
        return TablePlan(None, None, plan.not_compared, why)
    return replace(plan, target=replace(plan.target, rows=untreated_rows(kind.zone, schema, plan.target.rows)))


def unlike_columns(opened: AuditedLink, landed: TableSchema) -> Mapping[str, str]:
    """The columns that are not compared because of the sink's rule for a table, each with the reason.

    The rule makes something else of some. Rows that it keeps out are read from messages, which may lack others.
    """
    kind = landing_kind(opened.spec, opened.spec.sink(opened.link.sink))
    rule = kind.zone.rule(landed.table) if kind else None
    if kind is None or rule is None:
        return {}
    lacked = _lacked(opened, kind, landed) if rule.where else ()
    return {name: _CONVERTED for name, _ in rule.columns} | dict.fromkeys(lacked, LACKED)


def _lacked(opened: AuditedLink, kind: SnowflakeKind, landed: TableSchema) -> set[str]:
    (counts,) = opened.target.fetch(lacking_query(kind.zone, landed))
    return {column.name for column, rows in zip(landed.columns, counts, strict=True) if rows}


def landing_stage(opened: AuditedLink, table: TableId, schema: TableSchema) -> LandingStage | None:
    """The landing table of a table that the source has with `schema`; None for a sink without a landing zone."""
    kind = landing_kind(opened.spec, opened.spec.sink(opened.link.sink))
    return LandingStage(opened, kind, table, schema) if kind else None


class LandingStage:
    """The landing table of one table."""

    name: Stage = "landing"

    def __init__(self, opened: AuditedLink, kind: SnowflakeKind, table: TableId, schema: TableSchema) -> None:
        """Look at nothing yet."""
        self._opened = opened
        self._kind = kind
        self._table = table
        self._schema = schema
        self._pair: Pair | None = None

    def audit(self) -> TableFindings:
        """Compare the messages, folded by key, with the source."""
        try:
            return self._audit(str(self._table))
        except PenstockError as error:
            self._pair = None
            return unread(str(self._table), error)

    def look_up(self, keys: Sequence[RowKey]) -> tuple[StageLook, dict[RowKey, LastMessage]]:
        """Look at rows that are wrong somewhere; return what is wrong here. The topic knows their messages."""
        if self._pair is None or not keys:
            return StageLook(unknown=frozenset(keys)), {}
        try:
            looked = settle(self._pair, Suspects.of_keys(keys), self._await)
        except PenstockError:
            return StageLook(unknown=frozenset(keys)), {}
        wrong = frozenset(looked.wrong.row_keys())
        return StageLook(wrong, frozenset(looked.in_flight.row_keys())), {}

    def _audit(self, table: str) -> TableFindings:
        opened, zone = self._opened, self._kind.zone
        opened.source.renew()
        why = self._await()
        opened.target.renew()
        known = opened.state.table(self._table)
        if known is None or known.ended:
            return TableFindings(table, "not compared", why="nothing of it has landed")
        whose = (opened.spec.pipeline, opened.link.source)
        landed = known.schema.table
        foreign = opened.target.fetch(foreign_query(zone, landed, whose))
        fault = describe_foreign(zone.table(landed), self._table, foreign)
        plan = self._plan(known.schema)
        if plan.source is None or plan.target is None:
            found = TableFindings(table, "not compared", not_compared=plan.not_compared, why=plan.refusal)
        elif why:
            found = TableFindings(table, "lagging", why=why)
        else:
            databases = opened.databases()
            self._pair = databases.pair(plan.source, plan.target)
            found = audit_table(table, databases, plan, opened.bounds(self._table), self._await)
        if fault:
            why = "; ".join(part for part in (found.why, fault) if part)
            return replace(found, state="different", why=why)
        return found

    def _plan(self, landed: TableSchema) -> TablePlan:
        """Compare what the source has with what the messages amount to, as the public table's types are."""
        lacked = _lacked(self._opened, self._kind, landed)
        dialects = (self._opened.source.dialect, self._opened.target.dialect)
        where = self._opened.audit.condition(self._table)
        plan = plan_table(self._schema, KnownTarget(landed, "hard"), dialects, self._excluded(lacked), where=where)
        if plan.source is None or plan.target is None:
            return plan
        source = replace(plan.source, rows=self._opened.source.rows_of(self._schema))
        return replace(plan, source=source, target=replace(plan.target, rows=folded_rows(self._kind.zone, landed)))

    def _excluded(self, lacked: set[str]) -> Callable[[str], str]:
        said = [("the audit's exclude_columns names it", self._opened.audit.excluded), *treatments(self._opened.link)]

        def why(column: str) -> str:
            named = next((text for text, patterns in said if patterns.matches(self._table, column)), "")
            return named or (LACKED if column in lacked else "")

        return why

    def _await(self) -> str:
        opened = self._opened
        return opened.progress.await_passed(opened.source.position, opened.wait_seconds)
