"""Opens both ends of a link for an audit, and audits the link's tables one by one."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from penstock.core.audit.findings import TableFindings, unread
from penstock.core.audit.report import AuditReport
from penstock.core.audit.scores import Score
from penstock.core.audit.table_plan import plan_table
from penstock.core.errors import PenstockError, UsageError
from penstock.core.patterns import TablePatterns
from penstock.links.audit.pace import OUT_OF_TIME, Pace
from penstock.links.audit.table import audit_table
from penstock.ports.audit_results import NOT_REACHED
from penstock.wiring.audit_landing import as_treated, await_merged, unlike_columns
from penstock.wiring.audit_progress import LinkProgress
from penstock.wiring.audit_stages import StageAudits
from penstock.wiring.audited_link import AuditedLink, treatments, with_masks
from penstock.wiring.audited_target import open_target
from penstock.wiring.capture_kinds import capture_kind
from penstock.wiring.open import OBJECTS_LINK
from penstock.wiring.pipeline_status import read_status

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from penstock.config.audits import AuditSpec
    from penstock.config.specs import PipelineSpec, SourceSpec
    from penstock.core.audit.table_plan import TablePlan
    from penstock.core.tables import TableId, TableSchema
    from penstock.ports.audited import AuditedSource
    from penstock.ports.state import TableProgress

_TOO_LONG = "it takes longer than the whole audit may; what to do: give the audit more `seconds_max`"
_ALTERED = "the source altered or dropped it while its target was waited for; what to do: audit again"
_EVERY_TABLE = "*.*"
_MISSING = "no table of this link is called so, in the source or the target; what to do: correct the audit's `tables`"
_NO_TABLE = (
    "no table of this link is there, in the source or the target, so nothing was compared; what to do: correct "
    "`tables` of the source, the link or the audit, or audit again when there is one"
)
_NO_SUCH = "has no such table, or does not show it to our user"


def run_audit(
    spec: PipelineSpec,
    audit: AuditSpec,
    say: Callable[[str], None],
    *,
    stages: bool = False,
    last_reached: Mapping[str, int] = MappingProxyType({}),
) -> AuditReport:
    """Audit what `audit` names; `say` is told of each table. The pipeline's Kafka must be reachable.

    With `stages` what lies between source and target is audited, too. Tables that were
    reached long ago, as `last_reached` has it, are first. One that cannot be read, or
    that there is no time for, is a part of the report. Raises UsageError for a link or sink that
    cannot be audited, and UnavailableError for a server that is away.
    """
    began, began_at_ms = time.monotonic(), time.time_ns() // 1_000_000
    with ExitStack() as stack:
        opened = _open(spec, audit, stack)
        between = stack.enter_context(closing(StageAudits(opened))) if stages else None
        wanted, tables = _tables(opened), list[TableFindings]()
        for table in sorted(wanted, key=lambda each: last_reached.get(str(each), 0)):
            say(str(table))
            at = time.monotonic()
            found = _audit_safely(opened, table, is_first=not tables)
            if between is not None and found.state != NOT_REACHED:
                found = replace(found, stages=between.audit(table, found))
            opened.source.release()
            found = with_masks(spec, table, found)
            tables.append(replace(found, seconds=time.monotonic() - at, position=str(opened.source.position)))
        tables += _missing(audit, wanted)
    seconds = time.monotonic() - began
    names = (spec.pipeline, audit.source, audit.sink)
    tables.sort(key=lambda each: each.table)
    return AuditReport(*names, audit.threshold, audit.hashes, began_at_ms, seconds, tuple(tables))


def failed_report(spec: PipelineSpec, audit: AuditSpec, error: PenstockError) -> AuditReport:
    """Return the report of an audit that ended with what `run_audit` raised."""
    names, now_ms = (spec.pipeline, audit.source, audit.sink), time.time_ns() // 1_000_000
    return AuditReport(*names, audit.threshold, audit.hashes, now_ms, 0.0, (unread(_EVERY_TABLE, error),))


def _open(spec: PipelineSpec, audit: AuditSpec, stack: ExitStack) -> AuditedLink:
    link = next((each for each in spec.links if (each.source, each.sink) == (audit.source, audit.sink)), None)
    if link is None:
        message = f"no link leads from {audit.source} to {audit.sink}"
        raise UsageError(message, "name a source and a sink that a link of the file connects")
    if link.source not in {source.name for source in spec.sources}:
        message = f"{link.source} is a join, and an audit compares the tables of a source"
        raise UsageError(message, f"compare it with its inputs: penstock joinery verify FILE {link.source}")
    ends_at = None if audit.seconds_max is None else time.monotonic() + audit.seconds_max
    source = stack.enter_context(closing(_audited(spec.source(link.source), audit)))
    source.limit(audit.query_seconds, ends_at)
    target, state = open_target(spec, link, stack)
    progress = stack.enter_context(closing(LinkProgress(spec, link, state.batch_offset)))
    status = read_status(spec)
    mine = {link.name, link.source, OBJECTS_LINK}
    stopped = {each.table: _why_stopped(each) for each in status.tables if each.error and each.link in mine}
    pace = Pace(ends_at, audit.partitions_per_second, audit.query_seconds)
    return AuditedLink(spec, audit, link, source, target, state, progress, stopped, pace)


def _why_stopped(table: TableProgress) -> str:
    return f"{table.error}; what to do: {table.hint}" if table.hint else table.error


def _audited(source: SourceSpec, audit: AuditSpec) -> AuditedSource:
    return capture_kind(source).audited(source, audit)


def _tables(opened: AuditedLink) -> Sequence[TableId]:
    """Tables of the source, and those that the target has and the source should have."""
    opened.target.renew()
    known = opened.state.living()
    patterns = (opened.spec.source(opened.link.source).patterns, opened.link.patterns, opened.audit.patterns)
    return sorted(table for table in {*opened.source.tables(), *known} if all(each.matches(table) for each in patterns))


def _missing(audit: AuditSpec, found: Collection[TableId]) -> Iterator[TableFindings]:
    """Say of which names of the audit there is no table: one that is mistyped must not pass for one that is right.

    Nor must an audit of no table at all.
    """
    names = [each for each in audit.tables if not each.startswith("!") and each != _EVERY_TABLE]
    if not found and not names:
        yield TableFindings(_EVERY_TABLE, "failed", why=_NO_TABLE)
    for name in names:
        is_pattern = "*" in name or "?" in name
        if not any(map(TablePatterns((name,)).matches, found)) and not (is_pattern and found):
            yield TableFindings(name, "failed", why=_MISSING)


def _audit_safely(opened: AuditedLink, table: TableId, *, is_first: bool) -> TableFindings:
    try:
        opened.pace.require_time()
        if (left := opened.pace.seconds_left) is not None:
            query_seconds = max(1, min(opened.audit.query_seconds, math.ceil(left)))
            opened.source.limit(query_seconds, opened.pace.ends_at)
        found = _audit(opened, table)
    except PenstockError as error:
        found = unread(str(table), error)
    if found.state in {"failed", "lagging"} and opened.pace.is_over:
        if is_first:
            # With all the time that there is; others have their turn first the next time.
            return TableFindings(str(table), "failed", why=_TOO_LONG)
        return TableFindings(str(table), NOT_REACHED, why=OUT_OF_TIME)
    return found


def _audit(opened: AuditedLink, table: TableId) -> TableFindings:
    if why := opened.stopped.get(str(table)):
        return TableFindings(str(table), "failed", why=f"it has stopped, so its target is behind: {why}")
    opened.source.renew()
    as_it_was = opened.source.schema(table)
    if why := _await_target(opened, table):
        return TableFindings(str(table), "lagging", why=why)
    opened.target.renew()
    # No snapshot of MySQL has the schema. Read last, an equal one is that which the target was to have by now.
    known, schema = opened.state.table(table), opened.source.schema(table)
    if schema is None and (known is None or known.ended):
        return TableFindings(str(table), "equal", Score(1.0, 1.0, 1.0), why="it was dropped meanwhile")
    if schema != as_it_was:
        return TableFindings(str(table), "lagging", why=_ALTERED)
    if schema is None or known is None or known.ended:
        side = opened.link.source if schema is None else opened.link.sink
        return TableFindings(str(table), "different", Score(0.0, 0.0, 0.0), why=f"{side} {_NO_SUCH}")
    unlike = unlike_columns(opened, known.schema)
    excluded = _excluded(opened, table, unlike)
    known = replace(known, overflow=opened.link.overflow)
    dialects = (opened.source.dialect, opened.target.dialect)
    plan = plan_table(schema, known, dialects, excluded, where=opened.audit.condition(table))
    plan = as_treated(opened, known.schema, plan, unlike)
    if plan.source is not None:
        plan = replace(plan, source=replace(plan.source, rows=opened.source.rows_of(schema)))
    found = _compare(opened, schema, plan)
    if known.out_of_range:
        note = f"{known.out_of_range} values became others as `overflow` of the link says, and are compared as such"
        found = replace(found, why="; ".join(part for part in (found.why, note) if part))
    return found


def _compare(opened: AuditedLink, schema: TableSchema, plan: TablePlan) -> TableFindings:
    """Compare the table; one that the source altered between two looks at it is not told to be wrong."""
    table = schema.table
    try:
        found = audit_table(
            str(table), opened.databases(), plan, opened.bounds(table), lambda: _await_target(opened, table)
        )
    except PenstockError:
        # PostgreSQL answers nothing in a transaction of which a query has failed.
        opened.source.release()
        if opened.source.schema(table) == schema:
            raise
        return TableFindings(str(table), "lagging", why=_ALTERED)
    if found.state != "equal" and opened.source.schema(table) != schema:
        return TableFindings(str(table), "lagging", why=_ALTERED)
    return found


def _await_target(opened: AuditedLink, table: TableId) -> str:
    if why := opened.progress.await_passed(opened.source.position, opened.wait_seconds):
        return why
    opened.target.renew()
    if table in opened.state.waiting():
        return f"{opened.link.sink} holds the table back: see penstock status FILE"
    return await_merged(opened, table)


def _excluded(opened: AuditedLink, table: TableId, unlike: Mapping[str, str]) -> Callable[[str], str]:
    said = [("the audit's exclude_columns names it", opened.audit.excluded), *treatments(opened.link)]

    def why(column: str) -> str:
        named = next((text for text, patterns in said if patterns.matches(table, column)), "")
        return named or unlike.get(column, "")

    return why
