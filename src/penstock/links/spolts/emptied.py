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
        self._beginnings: set[int] = set()
        self._logged: set[int] = set()

    def see(self, offset: int, event: SchemaChange, *, is_first: bool) -> None:
        """Remember an event if it matters to the spolt; `is_first` of its topic."""
        if self._spolt.transforms and event.kind in _WHAT:
            self._events[offset] = event
            if is_first and event.kind is SchemaChangeKind.CREATE:
                self._beginnings.add(offset)

    def judge(self, told: int, read: Collection[tuple[str, str]], unread: Collection[tuple[str, str]]) -> bool:
        """Raise SpoltError for an event from `told` on, of a table (source, name) of which the spolt has `read` rows.

        So for one that has rows which are `unread` as yet: they may be from before the event, if
        that is not the table's beginning. Where the file says that events pass, they are logged,
        each once; return whether there is one. Nothing is known of what came before a spolt began
        (-1), or was read by a release that did not look.
        """
        passed = False
        for offset, event in self._events.items():
            judged = {*read} if offset in self._beginnings else {*read, *unread}
            tables = {str(event.table), *(move.origin for move in event.moves)}
            if not 0 <= told <= offset or not any((event.source, table) in judged for table in tables):
                continue
            passed = True
            output, place = self._spolt.topics[0], f"{event.file}:{event.order[1]}"
            what = f"{event.source}.{event.table} {_WHAT[event.kind]} at {place}"
            if self._spolt.on_emptied == "stop":
                message = f"spolt {self._spolt.name}: {what}, and rows from before stay in {output}: no change says so"
                hint = (
                    "set on_emptied: pass of the spolt and run again; then delete the rows whose source.file and "
                    f"source.pos come before that place from what reads {output}"
                )
                raise SpoltError(message, hint)
            if offset not in self._logged:
                _log.warning("rows stay in the output of a spolt", spolt=self._spolt.name, output=output, why=what)
                self._logged.add(offset)
        return passed
