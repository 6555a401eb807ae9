"""A table as its topic has it, audited without the pipeline's file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.core.audit.findings import TableFindings
from penstock.core.audit.found_tables import FoundTable, columns_of
from penstock.core.audit.stage_columns import left_out
from penstock.core.errors import PositionError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from penstock.core.audit.dialects import AuditDialect
    from penstock.core.tables import TableId
    from penstock.links.audit.table_changes import TableChanges
    from penstock.links.audit.topic_stage import TopicStage

_PARTIAL: Final = "the oldest changes are gone from its topic, which has not every row any more"
_OTHER_COLUMNS: Final = "other columns can be compared than when the audit began; audit again"


class TopicTable:
    """The topic of one table, as a database that an audit reads (ports/audited.AuditedDatabase).

    `renew` reads on to what is committed. What `judge` adds at the end counts for the whole audit.
    """

    def __init__(self, stage: TopicStage, changes: TableChanges, untold: str) -> None:
        """Read nothing yet. `untold` says what is not known of the table, "" for nothing."""
        self._stage = stage
        self._changes = changes
        self._untold = untold
        self._left_out: Mapping[str, str] | None = None

    @property
    def dialect(self) -> AuditDialect:
        """See AuditedDatabase."""
        return self._stage.dialect

    def renew(self) -> None:
        """See AuditedDatabase. Raises UnavailableError."""
        try:
            self._stage.renew()
        except PositionError:
            # Kafka threw away what was about to be read.
            self._changes.is_partial = True

    def fetch(self, query: str) -> Sequence[Sequence[Any]]:
        """See AuditedDatabase."""
        return self._stage.fetch(query)

    def fetch_texts(self, query: str) -> pa.Table:
        """See AuditedDatabase."""
        return self._stage.fetch_texts(query)

    def close(self) -> None:
        """See AuditedDatabase: whoever opened what it reads closes that."""

    def find(self, table: TableId) -> FoundTable:
        """Return the table as far as it was read. Raises UsageError for one that the topic is not of."""
        schema = self._changes.schema
        if schema.table != table:
            message = f"the topic is of table {schema.table}, and not of {table}"
            raise UsageError(message, f"give --table {schema.table} (--to-table for the second side)")
        self._left_out = self._reasons()
        columns = (replace(each, why_not=self._left_out.get(each.name, "")) for each in columns_of(schema))
        return FoundTable(self.dialect, self._changes.folded.living, tuple(columns), schema.key)

    @property
    def refusal(self) -> str:
        """Why nothing can be said of the table, "" if something can."""
        if self._changes.refusal or self._changes.is_partial:
            return f"not compared: {self._changes.refusal or _PARTIAL}"
        is_other = self._left_out is not None and self._left_out != self._reasons()
        return f"not compared: {_OTHER_COLUMNS}" if is_other else ""

    def judge(self, found: TableFindings) -> TableFindings:
        """Return what was found of the table, with what the topic itself says of it."""
        if why := self.refusal:
            return TableFindings(found.table, "failed", why=_joined(why, self._changes.faults))
        if self._changes.faults:
            # A topic that holds what nobody of its pipeline wrote is wrong, whatever its rows are.
            why = _joined(found.why, self._changes.faults)
            found = replace(found, state="failed" if found.score is None else "different", why=why)
        if found.state == "different" and self._untold:
            return replace(found, why=_joined(found.why, [self._untold]))
        return found

    def _reasons(self) -> Mapping[str, str]:
        return left_out(self._changes.schema, self._changes.living_schemas())


def _joined(why: str, more: Sequence[str]) -> str:
    return "; ".join([*([why] if why else []), *more])
