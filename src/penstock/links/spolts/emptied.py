"""Statements that make rows go without a change of each: transforms see no such thing, and their output keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from penstock.core.errors import SpoltError
from penstock.core.schema_changes import SchemaChangeKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock.config.spolts import SpoltSpec
    from penstock.core.schema_changes import SchemaChange

_log = structlog.get_logger()

_WHAT: Final[Mapping[SchemaChangeKind, str]] = {
    SchemaChangeKind.TRUNCATE: "was emptied",
    SchemaChangeKind.DROP: "ended",
    SchemaChangeKind.CREATE: "began anew, without its rows",
    SchemaChangeKind.RENAME: "got the rows of another table, or gave it its own,",
}


class EmptiedTables:
    """The schema-change events of that kind, by their offsets in the schemas topic."""

    def __init__(self, spolt: SpoltSpec) -> None:
        """Know of none."""
        self._spolt = spolt
        self._events: dict[int, SchemaChange] = {}

    def see(self, offset: int, event: SchemaChange) -> None:
        """Remember an event if it matters to the spolt."""
        if self._spolt.transforms and event.kind in _WHAT:
            self._events[offset] = event

    def judge(self, told: int, read: Collection[tuple[str, str]]) -> None:
        """Raise SpoltError for an event from `told` on, of a table (source, name) of which the spolt has `read` rows.

        Where the file says that they pass, they are logged, each once. Nothing is known of what
        came before a spolt began (-1), or was read by a release that did not look.
        """
        for offset, event in list(self._events.items()):
            tables = {str(event.table), *(move.origin for move in event.moves)}
            if not 0 <= told <= offset or not any((event.source, table) in read for table in tables):
                continue
            output, place = self._spolt.topics[0], f"{event.file}:{event.order[1]}"
            what = f"{event.source}.{event.table} {_WHAT[event.kind]} at {place}"
            if self._spolt.on_emptied == "stop":
                message = f"spolt {self._spolt.name}: {what}, and rows from before stay in {output}: no change says so"
                hint = (
                    "set on_emptied: pass of the spolt and run again; then delete the rows whose source.file and "
                    f"source.pos come before that place from what reads {output}"
                )
                raise SpoltError(message, hint)
            _log.warning("rows stay in the output of a spolt", spolt=self._spolt.name, output=output, why=what)
            del self._events[offset]
