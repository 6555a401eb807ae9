"""Which tables a capture carries, and how each is encoded at the place the capture has reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.announcements import Kind
from penstock.core.avro.envelope_encode import EncodableTable
from penstock.core.avro.schemas import table_schema
from penstock.core.errors import PositionError, TableStoppedError
from penstock.core.tables import UnsupportedType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.core.announcements import Announcement
    from penstock.core.tables import TableId, TableSchema
    from penstock.ports.registry import RegisteredTable, Registry
    from penstock.ports.tracker import SchemaTracker


class TableBook:
    """The tables announced so far, with what the tracker and the registry say of them.

    A table is announced when its first row could come: when it is created, or
    when the capture starts with a copy of it. Rows of a table that was never
    announced stop it, because rows before them may exist that nobody copied.
    """

    def __init__(
        self,
        source: str,
        tracker: SchemaTracker,
        registry: Registry,
        announced: Iterable[Announcement],
        wanted: Callable[[TableId], bool],
    ) -> None:
        """Start from the announcements of `source`, oldest first."""
        self.source = source
        self.wanted = wanted
        self.tracker = tracker
        self._registry = registry
        newest = {a.table: a for a in announced if a.source == source}
        self._announced = {table: a for table, a in newest.items() if a.kind is not Kind.DROP}
        self._encodable: dict[TableId, tuple[EncodableTable, str]] = {}

    def announcement(self, table: TableId) -> Announcement | None:
        """What the capture has told the pipeline about `table` last, None if nothing or that it has ended."""
        return self._announced.get(table)

    def any_announced(self) -> bool:
        """Whether this capture carries a table yet."""
        return bool(self._announced)

    def encodable(self, table: TableId) -> tuple[EncodableTable, str]:
        """Return how to encode rows of `table`, and the topic they go to.

        Raises TableStoppedError when its rows cannot be carried.
        """
        known = self._encodable.get(table)
        if known is None:
            known = self._encodable[table] = self._look_up(table)
        return known

    def register(self, schema: TableSchema, position: str) -> RegisteredTable:
        """Give the registry a table's schema. Raises TableStoppedError when a column cannot be carried."""
        for column in schema.columns:
            if isinstance(column.type, UnsupportedType):
                raise TableStoppedError(
                    str(schema.table),
                    column.name,
                    position,
                    f"its type {column.type.declaration} cannot be carried exactly yet",
                    f'change the type, or leave the table out with "!{schema.table}" under tables',
                )
        return self._registry.register(self.source, schema)

    def announce(self, announcement: Announcement) -> None:
        """Use `announcement` from here on, and ask tracker and registry again."""
        if announcement.kind is Kind.DROP:
            self._announced.pop(announcement.table, None)
        else:
            self._announced[announcement.table] = announcement
        self._encodable.pop(announcement.table, None)

    def close(self) -> None:
        """Let go of tracker and registry."""
        self.tracker.close()
        self._registry.close()

    def _look_up(self, table: TableId) -> tuple[EncodableTable, str]:
        announcement = self._announced.get(table)
        if announcement is None:
            raise TableStoppedError(
                str(table),
                "",
                "its first row in the log",
                "the log has rows of it, but neither its CREATE TABLE nor a copy of its older rows was seen",
                "it was added to `tables` after the first start: start a new pipeline (another `pipeline` name and "
                "`home`) to carry it whole",
            )
        schema = self.tracker.table_schema(table)
        if schema is None:
            message = f"the schema tracker has no table {table}, although it was announced"
            raise PositionError(
                message,
                "the tracker's data was lost or edited: restore it, or start a new pipeline with a copy",
            )
        announced = table_schema(self._registry.value_schema(announcement.value_schema_id))
        if schema != announced:
            message = f"the schema tracker has another shape of {table} than the pipeline was told"
            raise PositionError(
                message, "the tracker's data was edited: restore it, or start a new pipeline with a copy"
            )
        encodable = EncodableTable(
            source=self.source,
            connector="mysql",
            schema=schema,
            key_schema_id=announcement.key_schema_id,
            value_schema_id=announcement.value_schema_id,
        )
        return encodable, announcement.topic
