"""Audits what lies between a source and a target: its topics and its files, folded by key in a folder that goes."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from penstock.core.audit.findings import StagesFound, TableFindings, unread
from penstock.core.audit.stage_columns import left_out
from penstock.core.audit.stages import StageLook, find_first_wrong
from penstock.core.audit.suspects import Suspects
from penstock.core.audit.table_plan import KnownTarget, plan_table
from penstock.core.errors import PenstockError
from penstock.links.audit.files_stage import FilesStage
from penstock.links.audit.last_messages import read_last_messages
from penstock.links.audit.settle import settle
from penstock.links.audit.table import audit_table
from penstock.links.audit.table_changes import TableChanges
from penstock.links.audit.told_table import ToldTables
from penstock.links.audit.topic_stage import TopicStage
from penstock.links.large_messages import WholeLog
from penstock.wiring.audit_landing import LandingStage, landing_stage
from penstock.wiring.batch_messages import read_batch_messages, read_objects_record
from penstock.wiring.open import (
    OBJECTS_LINK,
    batch_topic,
    committed_end,
    failovers_topic,
    open_large_store,
    open_object_store,
    open_registry,
    open_topic_log,
    schema_changes_topic,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.audit.findings import LastMessage, Stage
    from penstock.core.audit.queries import RowKey
    from penstock.core.audit.table_plan import TablePlan
    from penstock.core.tables import TableId
    from penstock.links.audit.pair import Pair
    from penstock.wiring.audited_link import AuditedLink

_PARTIAL = "the oldest changes are kept no more, so only rows that differ further on were looked up"


class StageAudits:
    """The stages before the target of one link. Its Kafka, registry and files must be reachable."""

    def __init__(self, opened: AuditedLink) -> None:
        """Connect."""
        self._opened = opened
        spec = opened.spec
        with ExitStack() as stack:
            self._log = stack.enter_context(closing(open_topic_log(spec)))
            self._registry = stack.enter_context(closing(open_registry(spec)))
            self._objects = open_object_store(spec)
            self._told = ToldTables(self._log, schema_changes_topic(spec), failovers_topic(spec))
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Drop the connections."""
        self._stack.close()

    def audit(self, table: TableId, found: TableFindings) -> StagesFound | None:
        """Audit the stages of a table whose target was audited with `found`; None for a table without a key."""
        schema = self._opened.source.schema(table)
        if schema is None or not schema.key:
            return None
        landing = landing_stage(self._opened, table, schema)
        # Of rows that may lack columns only a landing table says what they amount to.
        before: tuple[Stage, ...] = () if schema.partial_rows else ("topic", "files")
        if not before and landing is None:
            return None
        # DuckDB is slow to import, and few runs of a pipeline audit stages.
        from penstock.adapters.duckdb.folded_rows import DuckdbFoldedRows  # noqa: PLC0415

        with TemporaryDirectory(prefix="penstock-audit-") as folder, ExitStack() as stack:
            stages: list[_StageAudit | LandingStage] = []
            for name in before:
                folded = stack.enter_context(closing(DuckdbFoldedRows(Path(folder) / f"{name}.duckdb")))
                changes = TableChanges(self._opened.link.source, schema, folded, self._registry)
                stages.append(_StageAudit(self._opened, name, self._stage(name, changes), changes))
            if landing is not None:
                stages.append(landing)
            findings = [(stage.name, stage.audit()) for stage in stages]
            rows = [row for _, each in findings for row in each.rows]
            keys = list(dict.fromkeys(row.key for row in (*found.rows, *rows)))
            looks: dict[Stage, StageLook] = {}
            messages: dict[RowKey, LastMessage] = {}
            for stage in stages:
                looks[stage.name], newest = stage.look_up(keys)
                # The topic says more of a message than the file that was made of it.
                messages = {**newest, **messages}
            in_target = {row.key for row in found.rows}
            return StagesFound(tuple(findings), find_first_wrong(keys, looks, in_target, messages))

    def _stage(self, name: Stage, changes: TableChanges) -> TopicStage | FilesStage:
        if name == "topic":
            spec = self._opened.spec
            log = WholeLog(spec.pipeline, self._log, open_large_store(spec))
            return TopicStage(log, self._log.begins, self._told, changes)
        read = partial(read_batch_messages, self._opened.spec, self._log)
        return FilesStage(read, self._objects, changes, self._limits)

    def _limits(self) -> tuple[int, int, int]:
        """Where the batch topic begins, before where files are deleted, and up to where it counts."""
        spec = self._opened.spec
        record = read_objects_record(spec, self._log)
        end = committed_end(spec, self._log, OBJECTS_LINK, batch_topic(spec))
        return record.batches_from, record.files_from, end


class _StageAudit:
    """One stage of one table."""

    def __init__(
        self, opened: AuditedLink, name: Stage, database: TopicStage | FilesStage, changes: TableChanges
    ) -> None:
        self.name: Stage = name
        self._opened = opened
        self._database = database
        self._changes = changes
        self._pair: Pair | None = None

    def audit(self) -> TableFindings:
        """Compare the stage with the source."""
        table = str(self._changes.schema.table)
        try:
            return self._audit(table)
        except PenstockError as error:
            self._pair = None
            return unread(table, error)

    def look_up(self, keys: Sequence[RowKey]) -> tuple[StageLook, dict[RowKey, LastMessage]]:
        """Look at rows that are wrong somewhere; return what is wrong here, and their newest messages."""
        if self._pair is None or not keys:
            return StageLook(unknown=frozenset(keys)), {}
        try:
            newest = replace(self._pair.target_side, rows=self._changes.folded.newest)
            messages = read_last_messages(self._changes.folded, newest, keys)
            known = [key for key in keys if key in messages or not self._changes.is_partial]
            suspects = Suspects.of_keys(known)
            looked = settle(self._pair, suspects, self._await)
        except PenstockError:
            return StageLook(unknown=frozenset(keys)), {}
        open_ = set(looked.in_flight.row_keys())
        wrong = frozenset(looked.wrong.row_keys())
        return StageLook(wrong, frozenset(key for key in keys if key not in known or key in open_)), messages

    def _audit(self, table: str) -> TableFindings:
        self._changes.create()
        self._opened.source.renew()
        why = self._await()
        self._database.renew()
        if self._changes.refusal:
            return TableFindings(table, "not compared", why=self._changes.refusal)
        reasons = left_out(self._changes.schema, self._changes.living_schemas())
        plan = self._plan(reasons)
        if plan.source is None or plan.target is None:
            return TableFindings(table, "not compared", not_compared=plan.not_compared, why=plan.refusal)
        if why:
            return self._with_faults(TableFindings(table, "lagging", why=why))
        databases = self._opened.databases(self._database)
        self._pair = databases.pair(plan.source, plan.target)
        if self._changes.is_partial:
            return self._with_faults(TableFindings(table, "not compared", why=_PARTIAL))
        bounds = self._opened.bounds(self._changes.schema.table)
        return self._with_faults(audit_table(table, databases, plan, bounds, self._await))

    def _plan(self, reasons: Mapping[str, str]) -> TablePlan:
        """Compare what the source has with what the stage has of it, as it is: no link has treated it yet."""
        schema, excluded = self._changes.schema, self._opened.audit.excluded

        def why(column: str) -> str:
            named = "the audit's exclude_columns names it" if excluded.matches(schema.table, column) else ""
            return named or reasons.get(column, "")

        dialects = (self._opened.source.dialect, self._changes.folded.dialect)
        where = self._opened.audit.condition(schema.table)
        plan = plan_table(schema, KnownTarget(schema, "hard"), dialects, why, where=where)
        if plan.source is None or plan.target is None:
            return plan
        source = replace(plan.source, rows=self._opened.source.rows_of(schema))
        return replace(plan, source=source, target=replace(plan.target, rows=self._changes.folded.living))

    def _await(self) -> str:
        opened = self._opened
        return opened.progress.await_passed(opened.source.position, opened.wait_seconds, self.name)

    def _with_faults(self, found: TableFindings) -> TableFindings:
        """A stage that holds what nobody of the pipeline wrote is wrong, whatever its rows are."""
        if not self._changes.faults:
            return found
        why = "; ".join([*([found.why] if found.why else []), *self._changes.faults])
        return replace(found, state="different", why=why)
