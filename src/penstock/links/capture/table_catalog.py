"""Which tables a capture carries, and how each is encoded at the place the capture has reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.avro.envelope_encode import EncodableTable
from penstock.core.avro.schemas import table_schema
from penstock.core.commands import shell_word
from penstock.core.errors import READ_AGAIN, START_ANEW, PositionError, TableStoppedError
from penstock.core.files import META_PREFIX
from penstock.core.kafka.largest import LARGEST_BYTES
from penstock.core.positions import timeline_of
from penstock.core.schema_changes import SchemaChange, SchemaChangeKind
from penstock.core.schema_difference import describe_difference
from penstock.core.snapshot_copies import CopiedRows
from penstock.core.tables import UnsupportedType
from penstock.ports.tracker import AllLogged

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from penstock.core.changes import MessageFormat
    from penstock.core.positions import Order
    from penstock.core.tables import TableId, TableSchema
    from penstock.links.large_messages import LargeMessages
    from penstock.ports.registry import RegisteredTable, Registry
    from penstock.ports.tracker import SchemaCatalog, UnloggedChanges

_SHOWN_MAX = 10
_RESTORE = (
    "restore its data as it was when the pipeline last ran (`tracker` below home), or alter the tables back in the "
    "tracker, not in the source; instances that take over from each other have to share one (`tracker:`); "
    "where zero_dates, row_images or tables of the source were changed, change them "
    f"back; else {START_ANEW}"
)


class TableCatalog:
    """The tables announced so far, with what the tracker and the registry say of them.

    A table is announced when its first row could come: when it is created, or
    when the capture starts with an initial snapshot of it. Rows of a table that was never
    announced stop it, because rows before them may exist that nobody copied.
    """

    def __init__(
        self,
        source: str,
        tracker: SchemaCatalog,
        registry: Registry,
        announced: Iterable[SchemaChange],
        wanted: Callable[[TableId], bool],
        *,
        repeatable: bool = False,
    ) -> None:
        """Start from the schema-change events of `source`, oldest first; see EncodableTable for `repeatable`."""
        self.source = source
        self.unlogged: UnloggedChanges = AllLogged()
        self.format: MessageFormat = "avro"
        self.copied = CopiedRows()
        self.message_bytes_max: Callable[[str], int] = lambda _topic: LARGEST_BYTES
        self.large_messages: LargeMessages | None = None
        self.wanted = wanted
        self.tracker = tracker
        self._registry = registry
        self._repeatable = repeatable
        newest = {a.table: a.for_all for a in announced if a.source == source}
        self._announced = {table: a for table, a in newest.items() if a.kind is not SchemaChangeKind.DROP}
        self._encodable: dict[TableId, tuple[EncodableTable, str]] = {}

    @property
    def connector(self) -> str:
        """What messages call the kind of source."""
        return self.tracker.connector

    def schema_change(self, table: TableId) -> SchemaChange | None:
        """What the capture has told the pipeline about `table` last, None if nothing or that it has ended."""
        return self._announced.get(table)

    def announced_schema(self, table: TableId) -> TableSchema | None:
        """What `table` looked like when it was announced last, None if it was not, or has ended."""
        schema_change = self._announced.get(table)
        return None if schema_change is None else self._schema(schema_change)

    def with_number(self, number: int) -> TableSchema | None:
        """The announced table that has this number in its source, the newest if servers gave it twice."""
        found = [each for each in self._announced.values() if self._schema(each).number == number]
        return self._schema(max(found, key=lambda each: each.order)) if found else None

    def other_names(self, schema: TableSchema, timeline: int) -> Sequence[SchemaChange]:
        """What was told last, in a timeline, of the table that `schema` is, under the names that it had before."""
        told = [e for e in self._announced.values() if e.table != schema.table and timeline_of(e.order) == timeline]
        return [each for each in told if schema.number and self._schema(each).number == schema.number]

    def announced(self) -> Sequence[SchemaChange]:
        """The newest schema-change event of each table that has not ended, sorted by table."""
        return [schema_change for _, schema_change in sorted(self._announced.items())]

    def any_announced(self) -> bool:
        """Whether this capture carries a table yet."""
        return bool(self._announced)

    def is_sequence(self, table: TableId) -> bool:
        """Whether it is a sequence, whose rows in the log are of no table."""
        return table not in self._announced and table in self.tracker.sequences()

    def encodable(self, table: TableId) -> tuple[EncodableTable, str]:
        """Return how to encode rows of `table`, and the topic they go to.

        Raises TableStoppedError when its rows cannot be carried.
        """
        known = self._encodable.get(table)
        if known is None:
            known = self._encodable[table] = self._look_up(table)
        return known

    def event_of(self, schema: TableSchema, registered: RegisteredTable, order: Order) -> SchemaChange:
        """The schema-change event that `schema` is in force from `order` on; its `partitions` are 0 for now.

        The topic may not be there yet; whoever announces the event says how many it has.
        """
        return SchemaChange(
            source=self.source,
            table=schema.table,
            topic=registered.topic,
            follows=registered.follows,
            key_schema_id=registered.key_schema_id,
            value_schema_id=registered.value_schema_id,
            partitions=0,
            format=self.format,
            order=order,
        )

    def register(self, schema: TableSchema, position: str) -> RegisteredTable:
        """Give the registry a table's schema. Raises TableStoppedError when a column cannot be carried."""
        _require_other_names(schema, position)
        if not schema.columns:
            reason = "it has no columns, so that its rows say nothing"
            raise TableStoppedError(str(schema.table), "", position, reason, f"add a column, then {READ_AGAIN}")
        for column in schema.columns:
            if isinstance(column.type, UnsupportedType):
                raise TableStoppedError(
                    str(schema.table),
                    column.name,
                    position,
                    f"its type {column.type.declaration} cannot be carried exactly yet",
                    f'change the type, then {READ_AGAIN}; or leave the table out with "!{schema.table}" under tables',
                )
        return self._registry.register(self.source, schema)

    def announce(self, schema_change: SchemaChange) -> None:
        """Use `schema_change` from here on, and ask tracker and registry again."""
        if schema_change.kind is SchemaChangeKind.DROP:
            self._announced.pop(schema_change.table, None)
        else:
            self._announced[schema_change.table] = schema_change.for_all
        self._encodable.pop(schema_change.table, None)

    def require_tracker(self, stopped: Collection[str]) -> None:
        """Raise PositionError, which names every table and what differs, if the tracker has other tables than we told.

        What was announced was committed together with the position, so between
        two statements the two agree. Tables that are `stopped` were not announced any more.
        """
        self.tracker.require_empty()
        carried = [a for a in self.announced() if self.wanted(a.table) and str(a.table) not in stopped]
        found = self.tracker.describe([schema_change.table for schema_change in carried])
        told = {a.table: self._difference(a, found.get(a.table)) for a in carried}
        differences = {table: difference for table, difference in told.items() if difference}
        if differences:
            raise _edited(differences)

    def _difference(self, schema_change: SchemaChange, found: TableSchema | None) -> str:
        """How `found`, the tracker's table, differs from the announced one, "" if it does not."""
        return describe_difference(found, self._schema(schema_change), "the tracker")

    def _schema(self, schema_change: SchemaChange) -> TableSchema:
        return table_schema(self._registry.value_schema(schema_change.value_schema_id))

    def close(self) -> None:
        """Let go of tracker and registry."""
        self.tracker.close()
        self._registry.close()

    def _look_up(self, table: TableId) -> tuple[EncodableTable, str]:
        schema_change = self._announced.get(table)
        if schema_change is None:
            raise TableStoppedError(
                str(table),
                "",
                "its first row in the log",
                "the log has rows of it, but neither its CREATE TABLE nor a snapshot of its older rows was seen",
                "it was added to `tables` after the first start, or the user had no SELECT on it then, without which a "
                f"table does not show: GRANT SELECT ON {table} if that lacks; "
                f"type: penstock snapshot FILE {shell_word(table)}; or, where it has no primary key, {START_ANEW}",
            )
        schema = self.tracker.table_schema(table)
        difference = self._difference(schema_change, schema)
        if schema is None or difference:
            raise _edited({table: difference})
        encodable = EncodableTable(
            source=self.source,
            connector=self.connector,
            schema=schema,
            key_schema_id=schema_change.key_schema_id,
            value_schema_id=schema_change.value_schema_id,
            repeatable=self._repeatable,
            format=self.format,
        )
        return encodable, schema_change.topic


def _require_other_names(schema: TableSchema, position: str) -> None:
    """Raise TableStoppedError for a name that is like those of ours in files, stages and tables of the way."""
    columns = [column.name for column in schema.columns]
    for kind, name in (("table", schema.table.name), *(("column", name) for name in columns)):
        if name.casefold().startswith(META_PREFIX):
            raise TableStoppedError(
                str(schema.table),
                name if kind == "column" else "",
                position,
                f"names that begin with {META_PREFIX} are kept for Penstock's own columns and tables",
                f'give the {kind} another name, then {READ_AGAIN}; or leave the table out with "!{schema.table}"',
            )


def _edited(differences: Mapping[TableId, str]) -> PositionError:
    """Say in what the tracker is not what the pipeline left behind, of the first tables in full."""
    shown = [f"  {table}: {difference}" for table, difference in list(differences.items())[:_SHOWN_MAX]]
    more = [f"  and {len(differences) - _SHOWN_MAX} more"] if len(differences) > _SHOWN_MAX else []
    listed = "\n".join([*shown, *more])
    told = "it differs from the definitions that the pipeline recorded"
    message = f"the schema tracker was edited, lost or exchanged: {told}\n{listed}"
    return PositionError(message, _RESTORE)
