"""A copy of a source's tables as they were when a slot was made: by the snapshot that the slot exports, and COPY."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import sql

from penstock.adapters.postgres.source.catalog import read_next_oid, read_tables, read_types, read_unreadable
from penstock.adapters.postgres.source.connection import connect, connect_to_log, explained
from penstock.adapters.postgres.source.publication import narrowed, read_published, select_from
from penstock.adapters.postgres.source.slot import create_slot
from penstock.adapters.postgres.source.timeline import read_timeline
from penstock.core.errors import READ_AGAIN, TableStoppedError
from penstock.core.positions import WalPosition
from penstock.core.postgres.bad_values import FIX_ROW
from penstock.core.postgres.log_items import Transaction
from penstock.core.postgres.relations import table_schema
from penstock.core.postgres.rows import RowDecoder

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping

    from penstock.adapters.postgres.connection import PostgresServer
    from penstock.adapters.postgres.source.publication import Publication, Published
    from penstock.core.changes import RowBatch
    from penstock.core.postgres.catalog import SourceTable
    from penstock.core.postgres.types import SpecialValues, TypeInfo
    from penstock.core.tables import TableId, TableSchema

_BATCH_BYTES: Final = 8 << 20
_ESCAPES: Final = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_ESCAPED: Final = re.compile(rb"\\(.)", re.DOTALL)


@dataclass(slots=True)
class PostgresInitialSnapshot:
    """Being read: see `penstock.ports.initial_snapshot`. Tables that cannot be read are in `_refused`, with why."""

    position: WalPosition
    schemas: Mapping[TableId, TableSchema]
    creates: str = ""
    _server: PostgresServer = field(kw_only=True)
    _connection: psycopg.Connection = field(kw_only=True)
    _tables: Mapping[TableId, tuple[SourceTable, Published | None]] = field(kw_only=True)
    _refused: Mapping[TableId, tuple[str, str]] = field(kw_only=True)
    _types: Mapping[int, TypeInfo] = field(kw_only=True)
    _timestamp_ms: int = field(kw_only=True)

    def rows(self, table: TableId, batch_rows: int) -> Generator[RowBatch]:
        """Yield a table's rows as READ batches; see `penstock.ports.initial_snapshot`."""
        if table in self._refused:
            raise TableStoppedError(str(table), "", str(self.position), *self._refused[table])
        found, published = self._tables[table]
        decoder = RowDecoder.of(self.schemas[table], found.relation, self._types)
        place = Transaction(self.position.lsn, 0, self._timestamp_ms)
        cells: list[tuple[bytes | None, ...]] = []
        count = size_bytes = 0
        with explained(self._server), self._apart(table), closing(self._connection.cursor()) as cursor:
            with cursor.copy(_copy_statement(found, published)) as copy:
                for line in copy:
                    cells.append(parse_line(bytes(line)))
                    size_bytes += len(line)
                    if len(cells) == batch_rows or size_bytes >= _BATCH_BYTES:
                        yield decoder.copied(cells, place, count)
                        count += len(cells)
                        cells, size_bytes = [], 0
            if cells:
                yield decoder.copied(cells, place, count)

    @contextmanager
    def _apart(self, table: TableId) -> Iterator[None]:
        """Keep the transaction, and its snapshot, for other tables, however the copy of this one ends."""
        self._connection.execute("SAVEPOINT copied")
        try:
            yield
        except psycopg.DataError as error:
            reason = f"the server cannot print a row of it: {str(error).strip()}"
            raise TableStoppedError(str(table), "", str(self.position), reason, FIX_ROW) from error
        finally:
            if not self._connection.closed:
                self._connection.execute("ROLLBACK TO SAVEPOINT copied; RELEASE SAVEPOINT copied")


@contextmanager
def open_initial_snapshot(
    server: PostgresServer,
    slot: str,
    publication: Publication,
    wanted: Callable[[TableId], bool],
    special: SpecialValues,
    *,
    failover: bool = False,
) -> Iterator[PostgresInitialSnapshot]:
    """Make the slot, and read tables as they were at its first position. The publication is there.

    See slot.create_slot.
    """
    with ExitStack() as opened:
        log = opened.enter_context(closing(connect_to_log(server)))
        reader = opened.enter_context(closing(connect(server)))
        with explained(server):
            timeline, timeline_from = read_timeline(log)
        lsn, snapshot = create_slot(server, log, slot, failover=failover)
        with explained(server):
            reader.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            reader.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
            types, published = read_types(reader), read_published(reader, publication.name)
            position = WalPosition(
                lsn,
                tables_from=read_next_oid(reader),
                server_timeline=timeline,
                timeline_from=timeline_from,
                partitions=publication.partitions,
            )
            found = read_tables(reader, publication.partitions)
            unreadable = read_unreadable(reader)
        tables = {t.table.id: t for t in found}
        carried = {table: each for table, each in tables.items() if wanted(table)}
        described = {table: (narrowed(f, published.get(table)), published.get(table)) for table, f in carried.items()}
        yield PostgresInitialSnapshot(
            position,
            {table: table_schema(f.relation, f.table, types, None, special) for table, (f, _) in described.items()},
            _server=server,
            _connection=reader,
            _tables=described,
            _refused=_refusals(carried, published, unreadable, publication.name),
            _types=types,
            _timestamp_ms=time.time_ns() // 1_000_000,
        )


def _refusals(
    carried: Iterable[TableId],
    published: Container[TableId],
    unreadable: Mapping[TableId, tuple[str, str]],
    publication: str,
) -> Mapping[TableId, tuple[str, str]]:
    """Say of each table that cannot be carried why not, and what to do."""
    found = {}
    for table in carried:
        if table in unreadable:
            why, right = unreadable[table]
            found[table] = why, f"{right}, then {READ_AGAIN}"
        elif table not in published:
            hint = f"ALTER PUBLICATION {publication} ADD TABLE {table}, then {READ_AGAIN}; or leave it out of `tables`"
            found[table] = f"the publication {publication} does not have it, so its changes are not in the log", hint
    return found


def parse_line(line: bytes) -> tuple[bytes | None, ...]:
    r"""Split a line of COPY's text format into values: \N is NULL, and a backslash escapes what follows."""
    cells = line.rstrip(b"\n").split(b"\t")
    if b"\\" not in line:
        return tuple(cells)
    return tuple([None if cell == rb"\N" else _unescaped(cell) for cell in cells])


def _unescaped(cell: bytes) -> bytes:
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), cell) if b"\\" in cell else cell


def _copy_statement(found: SourceTable, published: Published | None) -> sql.Composed:
    columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in found.relation.columns)
    source, condition = select_from(found, published)
    where = sql.SQL(" WHERE {}").format(condition) if condition else sql.SQL("")
    return sql.SQL("COPY (SELECT {} FROM {}{}) TO STDOUT").format(columns, source, where)
