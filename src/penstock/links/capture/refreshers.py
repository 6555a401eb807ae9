"""What goes on beside one capture: snapshots of several tables, and which tables it asks for or ends by itself."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from penstock.links.capture.refresher import Refresher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.log_items import LoggedStatement
    from penstock.core.positions import Position
    from penstock.core.publication import Publication
    from penstock.core.tables import TableId, TableSchema
    from penstock.links.capture.gone_tables import GoneTables
    from penstock.links.capture.open_capture import OpenCapture
    from penstock.links.capture.refresher_state import Known, Start
    from penstock.ports.snapshots import RowReader, SnapshotList


class Refreshers:
    """As many chunks at once as there are readers, each with a thread of its own: see Refresher."""

    def __init__(
        self,
        capture: OpenCapture,
        snapshots: SnapshotList,
        readers: Sequence[tuple[RowReader, Start]],
        known: Known,
        gone: GoneTables | None = None,
    ) -> None:
        """Serve `capture`: what runs beside it uses the reader that it comes with, and nobody else does.

        `gone` looks for tables that have ended, where the log does not tell of that.
        """
        self._list = snapshots
        self._gone = gone
        self._refreshers = [Refresher(capture, reader, snapshots, start, known) for reader, start in readers]

    @property
    def is_busy(self) -> bool:
        """Whether a snapshot is to go on, or may be, or a table to end."""
        return any(each.is_busy for each in self._refreshers) or (self._gone is not None and self._gone.is_busy)

    def step(self, boundary: Position) -> None:
        """Go on as far as nothing has to be waited for. The log is read up to `boundary`, and that published."""
        for table in () if self._gone is None else self._gone.step(boundary):
            for each in self._refreshers:
                each.saw_end(table)
        for each in self._refreshers:
            each.step(boundary)

    def saw(self, publication: Publication) -> None:
        """Note what was published."""
        for each in self._refreshers:
            each.saw(publication)

    def saw_statement(self, statement: LoggedStatement) -> None:
        """Note that the capture is past a statement."""
        for each in self._refreshers:
            each.saw_statement(statement)

    def close(self) -> None:
        """Let go of the state database and of the source, of each whatever goes wrong with another.

        Safe to call twice; whoever goes on nevertheless connects again.
        """
        with ExitStack() as open_:
            open_.callback(self._list.close)
            for each in self._refreshers:
                open_.callback(each.close)


def wanted_by_itself(capture: OpenCapture, tables: Sequence[TableId]) -> list[TableId]:
    """Those of the source's `tables` that are to be carried and were never told of: the config has added them.

    A table that was made behind the place that the capture has reached is not there yet.
    """
    return sorted(capture.parts.table_catalog.tracker.describe(never_told_of(capture, tables)))


def carried_now(capture: OpenCapture) -> Sequence[TableSchema]:
    """The tables that are to be carried, as they were told of last, and have not stopped."""
    table_catalog = capture.parts.table_catalog
    told = [each.table for each in table_catalog.announced() if table_catalog.wanted(each.table)]
    found = [table_catalog.announced_schema(table) for table in told if str(table) not in capture.stopped]
    return [schema for schema in found if schema is not None]


def never_told_of(capture: OpenCapture, tables: Sequence[TableId]) -> list[TableId]:
    """Those of the source's `tables` that are to be carried, were never told of, and have not stopped."""
    table_catalog = capture.parts.table_catalog
    return [
        table
        for table in tables
        if table_catalog.wanted(table)
        and table_catalog.schema_change(table) is None
        and str(table) not in capture.stopped
    ]
