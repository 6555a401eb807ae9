"""PostgreSQL's log followed change by change, as a capture does, into tables that are then held against the source.

What a capture knows comes from the log and the catalog: reading, table book and replay are the real ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.servers.followed_log import MemoryRegistry
from tests.servers.selected_values import assert_selected

from penstock.adapters.postgres.source.catalog import read_next_oid, read_tables, read_types
from penstock.adapters.postgres.source.identity import read_head
from penstock.adapters.postgres.source.initial_snapshot import parse_line
from penstock.adapters.postgres.source.relations import PostgresRelations
from penstock.adapters.state.store import open_state
from penstock.core.avro.envelope_encode import encode_changes
from penstock.core.errors import TableStoppedError
from penstock.core.log_items import LogPassed, RowsRead, StatementRead, TransactionsRead
from penstock.core.positions import WalPosition
from penstock.core.postgres import rows as decoding
from penstock.core.postgres.log_items import Transaction
from penstock.core.postgres.relations import table_schema
from penstock.core.postgres.rows import RowDecoder
from penstock.core.publication import StoppedTable
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import TableId
from penstock.core.transforms.constants import fill_value
from penstock.links.capture.postgres.log_reading import PostgresReading
from penstock.links.capture.postgres.registered_catalog import RegisteredCatalog
from penstock.links.capture.postgres.replay import RelationReplay
from penstock.links.capture.table_catalog import TableCatalog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    import pytest
    from tests.servers.postgres_source_case import SourceDatabase

    from penstock.adapters.postgres.source.stream import WalStream
    from penstock.core.changes import Op, RowBatch
    from penstock.core.log_items import LoggedRows, LoggedStatement
    from penstock.core.postgres.catalog import SourceTable
    from penstock.core.postgres.log_items import PostgresItem
    from penstock.core.schema_changes import SchemaChange
    from penstock.core.tables import TableSchema

Row = dict[str, Any]
Key = tuple[Any, ...]

_MANY: Final = 1 << 40


@dataclass(slots=True)
class FollowedPostgres:
    """Follows a stream from where it is; `rows` is what whoever reads our messages has of each table, by key."""

    source: SourceDatabase
    stream: WalStream
    registry: MemoryRegistry
    table_catalog: TableCatalog
    replay: RelationReplay
    reading: PostgresReading
    monkeypatch: pytest.MonkeyPatch
    stopped: dict[str, StoppedTable] = field(default_factory=dict)
    rows: dict[TableId, dict[Key, Row]] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        source: SourceDatabase,
        stream: WalStream,
        home: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        reads_ddl_log: bool = False,
    ) -> FollowedPostgres:
        """Begin at the end of the log, in a database without tables."""
        _read_all(source, stream)
        catalog = RegisteredCatalog(PostgresRelations(source.login, source.name), "stop")
        registry = MemoryRegistry()
        table_catalog = TableCatalog("src", catalog, registry, [], lambda table: table.schema == "public")
        catalog.follow(table_catalog.announced_schema, table_catalog.with_number)
        begin = WalPosition(read_head(source.connection), tables_from=read_next_oid(source.connection))
        replay = RelationReplay(open_state(f"sqlite:///{home}/state.db", "p"), table_catalog, catalog)
        reading = PostgresReading(begin, catalog, table_catalog.wanted, reads_ddl_log=reads_ddl_log)
        return cls(source, stream, registry, table_catalog, replay, reading, monkeypatch)

    def close(self) -> None:
        """Let go of everything but the stream."""
        self.replay.close()
        self.table_catalog.close()

    def follow(self) -> None:
        """Read up to the end of the log."""
        kept: list[LoggedRows] = []
        for step in self.reading.steps(_read_all(self.source, self.stream)):
            match step:
                case RowsRead(rows):
                    kept.append(rows)
                case TransactionsRead(_, rows):
                    kept.extend(rows)
                case StatementRead(_, statement):
                    self._take_rows(kept)
                    kept = []
                    self._take_statement(statement)
                case LogPassed():
                    pass
        self._take_rows(kept)

    def check(self) -> None:
        """Hold what is not stopped, and still there, against the source: a copy by COPY, and what the driver reads."""
        types = read_types(self.source.connection)
        for found in read_tables(self.source.connection, "one"):
            table = TableId(found.table.schema, found.table.name)
            if str(table) in self.stopped:
                continue
            assert table in self.rows, f"{table} was not told of"
            schema = table_schema(found.relation, found.table, types, None)
            decoder = RowDecoder.of(schema, found.relation, types)
            followed = list(self.rows[table].values())
            copied = _copied(self.source, found, decoder)
            assert (table, *_difference(followed, copied)) == (table, [], [])
            assert_selected(self.source.connection, schema, copied)

    def _take_rows(self, rows: Sequence[LoggedRows]) -> None:
        tables = dict.fromkeys(each.table for each in rows)
        for table in tables:
            if str(table) in self.stopped or not self.table_catalog.wanted(table):
                continue
            mine = [each for each in rows if each.table == table]
            try:
                encodable, _ = self.table_catalog.encodable(table)
                batches = self._decoded(encodable.schema, mine)
                for batch in batches:
                    encode_changes(encodable, batch, 0)
            except TableStoppedError as error:
                self.stopped[str(table)] = StoppedTable("", error.message, error.hint)
                continue
            self._apply(table, encodable.schema, batches)

    def _decoded(self, schema: TableSchema, rows: Sequence[LoggedRows]) -> Sequence[RowBatch]:
        """Decode with both decoders."""
        self.monkeypatch.setattr(decoding, "RUN_ROWS_MIN", _MANY)
        plain = list(self.reading.decode(schema, rows))
        self.monkeypatch.setattr(decoding, "RUN_ROWS_MIN", 1)
        fast = list(self.reading.decode(schema, rows))
        for batch in (*plain, *fast):
            for images in (batch.before, batch.after):
                if images is not None:
                    images.validate(full=True)
        assert repr(_changes(fast)) == repr(_changes(plain))
        return plain

    def _apply(self, table: TableId, schema: TableSchema, batches: Sequence[RowBatch]) -> None:
        rows = self.rows.setdefault(table, {})
        for serial, op, before, after, lacks in _changes(batches):
            known: Row = {}
            if before is not None:
                key = _key(schema, before, rows)
                assert key in rows, f"{table} has no {before}"
                known = rows.pop(key)
                assert repr({name: known[name] for name in before}) == repr(before)
            if after is not None:
                whole = after | {name: known[name] for name in lacks}
                key = _key(schema, whole, {}) if schema.key else (serial,)
                assert key not in rows, f"{op} of {table} has {key} twice"
                rows[key] = {column.name: whole[column.name] for column in schema.columns}

    def _take_statement(self, statement: LoggedStatement) -> None:
        """As OpenCapture does."""
        outcome = self.replay.apply(statement, self.stopped)
        for schema_change in outcome.schema_changes:
            if schema_change.kind in {SchemaChangeKind.CREATE, SchemaChangeKind.RENAME}:
                self.stopped.pop(str(schema_change.table), None)
        for table, why in outcome.stopped:
            self.stopped.setdefault(str(table), why)
        kept = [a for a in outcome.schema_changes if str(a.table) not in self.stopped]
        for schema_change in kept:
            self.table_catalog.announce(schema_change)
        self._change_tables(kept)

    def _change_tables(self, schema_changes: Sequence[SchemaChange]) -> None:
        moves = [move for schema_change in schema_changes[:1] for move in schema_change.moves]
        moved = {TableId.parse(m.table): self.rows.pop(TableId.parse(m.origin), {}) for m in moves}
        for schema_change in schema_changes:
            table, schema = schema_change.table, self.registry.schemas[schema_change.value_schema_id]
            match schema_change.kind:
                case SchemaChangeKind.CREATE | SchemaChangeKind.TRUNCATE:
                    self.rows[table] = {}
                case SchemaChangeKind.DROP:
                    self.rows.pop(table, None)
                case SchemaChangeKind.RENAME:
                    self.rows[table] = _in_shape(moved[table], schema, ())
                case SchemaChangeKind.SCHEMA:
                    self.rows[table] = _in_shape(self.rows[table], schema, schema_change.column_renames)


def _read_all(source: SourceDatabase, stream: WalStream) -> Sequence[PostgresItem]:
    """Read up to the end of the log, which is behind where the last reading ended."""
    source.execute("SELECT pg_logical_emit_message(true, 'fuzz', '')")
    return source.read(stream)


def _changes(batches: Sequence[RowBatch]) -> list[tuple[int, Op, Row | None, Row | None, tuple[str, ...]]]:
    """All changes in log order; of a row before, what the log has of it."""
    found: list[tuple[int, Op, Row | None, Row | None, tuple[str, ...]]] = []
    for batch in batches:
        before = _images(batch.before, batch.before_lacks, len(batch))
        after = _images(batch.after, batch.after_lacks, len(batch))
        assert batch.serials is not None
        found += [
            (serial, batch.op, *images, batch.after_lacks)
            for serial, *images in zip(batch.serials.tolist(), before, after, strict=True)
        ]
    return sorted(found, key=lambda change: change[0])


def _images(images: pa.RecordBatch | None, lacks: Sequence[str], count: int) -> Sequence[Row | None]:
    if images is None:
        return [None] * count
    return [{name: row[name] for name in row if name not in lacks} for row in images.to_pylist()]


def _key(schema: TableSchema, row: Row, rows: Mapping[Key, Row]) -> Key:
    """Where a row is: by its primary key, or for a table without one any that is the same."""
    if schema.key:
        return tuple(row[name] for name in schema.key)
    return next((key for key, known in rows.items() if repr(known) == repr(row)), ())


def _in_shape(rows: Mapping[Key, Row], schema: TableSchema, renames: Sequence[tuple[str, str]]) -> dict[Key, Row]:
    """Rows of before in the shape of after, without looking at the source."""
    names = dict(renames)
    taken = set(names.values()) - set(names)
    fills = {column.name: fill_value(column)[0].as_py() for column in schema.columns}
    shaped = {}
    for key, row in rows.items():
        known = {names.get(name, name): value for name, value in row.items() if name not in taken}
        shaped[key] = {name: known.get(name, fill) for name, fill in fills.items()}
    return shaped


def _copied(source: SourceDatabase, found: SourceTable, decoder: RowDecoder) -> list[Row]:
    names = ", ".join('"' + column.name.replace('"', '""') + '"' for column in found.relation.columns)
    statement = f'COPY (SELECT {names} FROM "{found.table.schema}"."{found.table.name}") TO STDOUT'
    with source.connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        cells = [parse_line(bytes(line)) for line in copy]
    if not cells:
        return []
    batch = decoder.copied(cells, Transaction(0, 0, 0), 0)
    assert batch.after is not None
    return batch.after.to_pylist()


def _difference(found: Sequence[Row], expected: Sequence[Row]) -> tuple[list[str], list[str]]:
    """What is found and not expected, and the reverse; NaN is like NaN."""
    left, lacking = [repr(dict(sorted(row.items()))) for row in found], []
    for row in expected:
        text = repr(dict(sorted(row.items())))
        if text in left:
            left.remove(text)
        else:
            lacking.append(text)
    return left, lacking
