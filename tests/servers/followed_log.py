"""A log followed statement by statement and row by row, as a capture does, into tables that are then held against it.

What a capture knows comes from the log alone: tracker, table book and statement handler are the real ones.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.servers.source_log import address, read_all

from penstock.adapters.mysql.connection import connect
from penstock.adapters.mysql.history import head
from penstock.adapters.mysql.initial_snapshot import open_initial_snapshot
from penstock.adapters.mysql.source_objects import MysqlSourceObjects
from penstock.adapters.mysql.tracker import MysqlTracker, read_source_defaults
from penstock.adapters.state.store import open_state
from penstock.core.avro.envelope_encode import encode_changes
from penstock.core.avro.schemas import value_schema
from penstock.core.errors import PenstockError, TableStoppedError
from penstock.core.mysql.log.log_items import StatementLogged
from penstock.core.mysql.rows.decode import decode_rows
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.publication import StoppedTable
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import TableId
from penstock.core.transforms.constants import fill_value
from penstock.links.capture.mysql.statements import StatementHandler
from penstock.links.capture.table_catalog import TableCatalog
from penstock.ports.registry import RegisteredTable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.servers.source_log import Source

    from penstock.core.positions import BinlogPosition
    from penstock.core.schema_changes import SchemaChange
    from penstock.core.table_policy import TablePolicy
    from penstock.core.tables import TableSchema

Row = dict[str, Any]

_EMPTY: Final = '{"schemas": []}'


class MemoryRegistry:
    """Gives every schema a number of its own."""

    def __init__(self) -> None:
        self.schemas: list[TableSchema] = []

    def register(self, source: str, schema: TableSchema) -> RegisteredTable:
        if schema not in self.schemas:
            self.schemas.append(schema)
        number = self.schemas.index(schema)
        return RegisteredTable(schema, f"{source}.{schema.table}", 0 if schema.key else None, number, "")

    def value_schema(self, schema_id: int) -> str:
        return value_schema(self.schemas[schema_id])

    def close(self) -> None:
        """Nothing is open."""


@dataclass(slots=True)
class FollowedLog:
    """Follows a source's log from where it began; `rows` is what whoever reads our messages has of each table."""

    source: Source
    begin: BinlogPosition
    schema: str
    policy: TablePolicy
    tracker: MysqlTracker
    registry: MemoryRegistry
    table_catalog: TableCatalog
    handler: StatementHandler
    stopped: dict[str, StoppedTable] = field(default_factory=dict)
    rows: dict[TableId, list[Row]] = field(default_factory=dict)

    @classmethod
    def open(
        cls, source: Source, tracker_server: Source, schema: str, policy: TablePolicy, home: Path, unwanted: str = ""
    ) -> FollowedLog:
        """Begin at the end of the log, with a tracker that has nothing. All tables of `schema` are wanted but one."""
        with closing(connect(address(source))) as connection:
            begin, defaults = head(connection), read_source_defaults(connection)
        tracker = MysqlTracker(address(tracker_server), defaults, policy)
        try:
            tracker.restore(_EMPTY)
        except PenstockError:
            tracker.close()
            raise
        registry = MemoryRegistry()
        table_catalog = TableCatalog(
            "src", tracker, registry, [], lambda table: table.schema == schema and table.name != unwanted
        )
        state = open_state(f"sqlite:///{home}/state.db", "p")
        handler = StatementHandler(state, table_catalog, tracker, MysqlSourceObjects(address(source)))
        return cls(source, begin, schema, policy, tracker, registry, table_catalog, handler)

    def close(self) -> None:
        """Let go of everything."""
        self.handler.close()
        self.table_catalog.close()

    def follow(self) -> None:
        """Read up to the end of the log."""
        with closing(connect(address(self.source))) as connection:
            end = head(connection)
        for item in read_all(self.source, self.begin, wanted=self.table_catalog.wanted):
            match item:
                case RowsLogged():
                    self._take_rows(item)
                case StatementLogged():
                    self._take_statement(item)
                case _:
                    pass
        self.begin = end

    def check(self) -> None:
        """Hold what is not stopped against the source: its tables, their shapes and their rows."""
        self.table_catalog.require_tracker(self.stopped)
        with open_initial_snapshot(address(self.source), self.table_catalog.wanted, self.policy) as copy:
            going = {table for table in copy.schemas if str(table) not in self.stopped}
            assert {table for table in self.rows if str(table) not in self.stopped} == going
            for table in sorted(going):
                assert self.tracker.table_schema(table) == copy.schemas[table]
                try:
                    batches = list(copy.rows(table, 1000))
                except TableStoppedError:
                    continue
                expected = [row for batch in batches if batch.after is not None for row in batch.after.to_pylist()]
                assert (table, *_difference(self.rows[table], expected)) == (table, [], [])

    def _take_rows(self, event: RowsLogged) -> None:
        table = event.table_map.table
        if str(table) in self.stopped or self.table_catalog.is_sequence(table):
            return
        try:
            encodable, _ = self.table_catalog.encodable(table)
            batch = decode_rows(encodable.schema, [event])
            encode_changes(encodable, batch, 0)
        except TableStoppedError as error:
            self.stopped[str(table)] = StoppedTable("", error.message, error.hint)
            return
        rows = self.rows[table]
        for row in [] if batch.before is None else batch.before.to_pylist():
            assert row in rows, f"{table} has no {row}"
            rows.remove(row)
        rows += [] if batch.after is None else batch.after.to_pylist()

    def _take_statement(self, statement: StatementLogged) -> None:
        """As OpenCapture does."""
        outcome = self.handler.apply(statement, self.stopped)
        for schema_change in outcome.schema_changes:
            if schema_change.kind in {SchemaChangeKind.CREATE, SchemaChangeKind.RENAME}:
                self.stopped.pop(str(schema_change.table), None)
        for table, why in outcome.stopped:
            self.stopped.setdefault(str(table), why)
        kept = [a for a in outcome.schema_changes if str(a.table) not in self.stopped]
        for schema_change in kept:
            self.table_catalog.announce(schema_change)
        self.handler.settle(statement)
        self._change_tables(kept)

    def _change_tables(self, schema_changes: Sequence[SchemaChange]) -> None:
        moves = [move for schema_change in schema_changes[:1] for move in schema_change.moves]
        moved = {TableId.parse(m.table): self.rows.get(TableId.parse(m.origin), []) for m in moves}
        for move in moves:
            self.rows.pop(TableId.parse(move.origin), None)
        for schema_change in schema_changes:
            table, schema = schema_change.table, self.registry.schemas[schema_change.value_schema_id]
            match schema_change.kind:
                case SchemaChangeKind.CREATE | SchemaChangeKind.TRUNCATE:
                    self.rows[table] = []
                case SchemaChangeKind.DROP:
                    self.rows.pop(table, None)
                case SchemaChangeKind.RENAME:
                    self.rows[table] = [_in_shape(row, schema, ()) for row in moved[table]]
                case SchemaChangeKind.SCHEMA:
                    renames = schema_change.column_renames
                    self.rows[table] = [_in_shape(row, schema, renames) for row in self.rows[table]]


def _in_shape(row: Row, schema: TableSchema, renames: Sequence[tuple[str, str]]) -> Row:
    """A row of before in the shape of after, without looking at the source."""
    names = dict(renames)
    taken = set(names.values()) - set(names)
    known = {names.get(name, name): value for name, value in row.items() if name not in taken}
    return {c.name: known[c.name] if c.name in known else fill_value(c)[0].as_py() for c in schema.columns}


def _difference(found: Sequence[Row], expected: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """What is found and not expected, and the reverse; rows that are alike count as often as they are there."""
    left, lacking = list(found), []
    for row in expected:
        if row in left:
            left.remove(row)
        else:
            lacking.append(row)
    return left, lacking
