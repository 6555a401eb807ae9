"""Looks for tables of a source that were changed and have no row behind it in the log, and notes it in the mirror."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

import structlog

from penstock.core.avro.schemas import table_schema
from penstock.core.errors import PenstockError
from penstock.core.schema_changes import SchemaChange, SchemaChangeKind
from penstock.wiring.capture_kinds import capture_kind
from penstock.wiring.open import open_registry, open_topic_log, schema_changes_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.config.specs import PipelineSpec, SourceSpec
    from penstock.core.tables import TableId, TableSchema
    from penstock.ports.state import State

_log = structlog.get_logger()

_LOOK_SECONDS: Final = 60.0


class CatalogWatch:
    """Looks at once when first asked, and once a minute then."""

    def __init__(self, spec: PipelineSpec, source: SourceSpec) -> None:
        """Know of no table yet."""
        self._spec = spec
        self._source = source
        self._looked_at = -_LOOK_SECONDS
        self._read_to = 0
        self._told: dict[TableId, int] = {}
        self._schemas: dict[int, TableSchema] = {}

    def look(self, state: State) -> None:
        """Look if it is time, and write into `state` what has changed. A source that is away is told elsewhere."""
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        name = self._source.name
        try:
            found = capture_kind(self._source).unlogged_changes(self._source, self._tables)
        except PenstockError as error:
            _log.debug("the catalog is not compared", source=name, error=error.message)
            return
        if found is None:
            return
        rows = [row for row in state.tables() if row.link == name]
        stopped = {row.table for row in rows if row.error}
        noted = {row.table: row.hint for row in rows if row.hint and not row.error}
        notes = {str(table): note for table, note in found.items() if str(table) not in stopped}
        for table in (notes | noted).keys() - stopped:
            if notes.get(table, "") != noted.get(table, ""):
                state.note_table(name, table, notes.get(table, ""))
                if table in notes:
                    _log.warning("table changed without rows", source=name, table=table, note=notes[table])

    def _tables(self) -> Sequence[TableSchema]:
        """The tables of the source as they were told of last."""
        topic = schema_changes_topic(self._spec)
        with closing(open_topic_log(self._spec)) as log, closing(open_registry(self._spec)) as registry:
            end = log.ends([(topic, 0)]).get((topic, 0), 0)
            for messages in log.read(topic, 0, self._read_to, end):
                for _, value in messages:
                    told = SchemaChange.from_json(value)
                    if told.source != self._source.name:
                        continue
                    self._told.pop(told.table, None)
                    if told.kind is not SchemaChangeKind.DROP:
                        self._told[told.table] = told.value_schema_id
            self._read_to = end
            for id_ in set(self._told.values()) - self._schemas.keys():
                self._schemas[id_] = table_schema(registry.value_schema(id_))
        return [self._schemas[id_] for id_ in self._told.values()]
