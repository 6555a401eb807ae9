"""Opens what a capture of PostgreSQL works with: see wiring/capture_kinds.py."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock.adapters.postgres.source.audited import AuditedPostgresSource, AwaitedStandby
from penstock.adapters.postgres.source.catalog import read_tables, read_types
from penstock.adapters.postgres.source.connection import connected
from penstock.adapters.postgres.source.ddl_trigger import ensure_ddl_trigger
from penstock.adapters.postgres.source.gone import find_gone
from penstock.adapters.postgres.source.identity import read_head, read_identity
from penstock.adapters.postgres.source.initial_snapshot import open_initial_snapshot
from penstock.adapters.postgres.source.preflight import require_fit
from penstock.adapters.postgres.source.publication import (
    ensure_publication,
    narrowed,
    read_published,
    require_whole_publication,
)
from penstock.adapters.postgres.source.relations import PostgresRelations
from penstock.adapters.postgres.source.row_reader import PostgresRowReader
from penstock.adapters.postgres.source.slot import (
    drop_slot,
    ensure_failover,
    require_no_slot,
    require_ours,
    require_slot,
)
from penstock.adapters.postgres.source.stream import open_stream
from penstock.adapters.postgres.source.visibility import forget_seen
from penstock.core.positions import WalPosition, wal_position
from penstock.core.postgres.evolution import refusal
from penstock.core.postgres.relations import table_schema
from penstock.core.postgres.unlogged import unlogged_changes
from penstock.links.capture.postgres.log_reading import PostgresReading
from penstock.links.capture.postgres.registered_catalog import RegisteredCatalog
from penstock.links.capture.postgres.replay import RelationReplay
from penstock.links.capture.refreshers import carried_now, never_told_of
from penstock.ports.tracker import AllLogged
from penstock.wiring.postgres_checks import (
    examine_postgres,
    read_postgres_status,
    require_fit_postgres,
    require_same_partitions,
    require_same_publication,
)
from penstock.wiring.postgres_server import log_access, postgres_source, source_publication, source_server
from penstock.wiring.refreshing import open_refreshers, readers_at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import psycopg

    from penstock.config.audits import AuditSpec
    from penstock.config.postgres_source import PostgresSourceSpec
    from penstock.config.specs import SourceSpec
    from penstock.core.findings import Finding
    from penstock.core.positions import Position
    from penstock.core.refusals import Refusal
    from penstock.core.tables import TableId, TableSchema
    from penstock.links.capture.open_capture import OpenCapture
    from penstock.links.capture.refreshers import Refreshers
    from penstock.links.capture.spec import CaptureSpec
    from penstock.links.capture.table_catalog import TableCatalog
    from penstock.ports.audited import AuditedSource
    from penstock.ports.initial_snapshot import InitialSnapshot
    from penstock.ports.log import LogReading, LogStream, Stop
    from penstock.ports.relations import Gone, UnseenCommits
    from penstock.ports.replay import Replay
    from penstock.ports.snapshots import RowReader
    from penstock.ports.source import LogFile, SourceLog
    from penstock.ports.source_status import SourceStatus
    from penstock.ports.state import State
    from penstock.ports.tracker import SchemaCatalog, UnloggedChanges
    from penstock.wiring.capture_kind import SourceLook

_SILENCE_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class PostgresLook:
    """See capture_kind.SourceLook."""

    connection: psycopg.Connection
    spec: CaptureSpec
    identity: str

    def require_reached(self, position: Position) -> None:
        """Hold the slot against the position, and see that the publication is still whole."""
        source = postgres_source(self.spec.source)
        require_same_publication(source, wal_position(position))
        require_same_partitions(source, wal_position(position))
        require_whole_publication(self.connection, source_publication(source))
        require_slot(source_server(source), source.slot_name, wal_position(position), for_good=True)
        if source.failover:
            ensure_failover(source_server(source), source.slot_name)
        if source.ddl_trigger:
            ensure_ddl_trigger(self.connection, source.publication_name)

    def start_of_log(self) -> Position | str:
        """A slot begins when it is made, and never before the first table: there is an initial snapshot."""
        return "the slot begins here"

    def snapshot_from(self) -> Position | None:
        """A copy makes a slot: whoever finds that one later must know that it is ours.

        Raises UnfitServerError for a slot that is there by now, and where there can be no publication: once a copy is
        written down, the next start drops what it finds.
        """
        source = postgres_source(self.spec.source)
        require_no_slot(source_server(source), self.connection, source.slot_name)
        _ensure_published(self.connection, source)
        return WalPosition(read_head(self.connection))


class PostgresCapture:
    """See capture_kind.CaptureKind."""

    @contextmanager
    def look(self, spec: CaptureSpec) -> Iterator[SourceLook]:
        """See CaptureKind."""
        with connected(source_server(spec.source)) as connection:
            require_fit(connection, log_access(spec.source))
            yield PostgresLook(connection, spec, read_identity(connection))

    @contextmanager
    def snapshot(self, spec: CaptureSpec, *, again: bool) -> Iterator[InitialSnapshot]:
        """See CaptureKind."""
        source = postgres_source(spec.source)
        server, slot, publication = source_server(source), source.slot_name, source_publication(source)
        with connected(server) as connection:
            # Another plugin's, or another database's, is nobody's of us whatever a record says.
            require_ours(connection, slot)
            if not again:
                require_no_slot(server, connection, slot)
            _ensure_published(connection, source)
        drop_slot(server, slot)
        with open_initial_snapshot(
            server, slot, publication, source.patterns.matches, source.special_values, failover=source.failover
        ) as snapshot:
            yield snapshot

    def snapshot_silence_seconds(self) -> float:
        """See CaptureKind."""
        return _SILENCE_SECONDS

    def catalog(self, spec: CaptureSpec) -> SchemaCatalog:
        """See CaptureKind."""
        source = postgres_source(spec.source)
        relations = PostgresRelations(source_server(source), source.publication_name)
        return RegisteredCatalog(relations, source.special_values)

    def unlogged(self, spec: CaptureSpec, catalog: SchemaCatalog) -> UnloggedChanges:
        """See CaptureKind: what foreign keys and triggers change is logged as any other change."""
        del spec, catalog
        return AllLogged()

    def replay(self, spec: CaptureSpec, state: State, table_catalog: TableCatalog) -> Replay:
        """See CaptureKind."""
        del spec
        registered = _catalog(table_catalog)
        registered.follow(table_catalog.announced_schema, table_catalog.with_number)
        return RelationReplay(state, table_catalog, registered)

    def stream(
        self,
        spec: CaptureSpec,
        position: Position,
        stop: Stop,
        connection_index: int,
        table_catalog: TableCatalog | None,
    ) -> LogStream:
        """See CaptureKind. A slot has one reader, which follows it without an end."""
        del stop, connection_index, table_catalog
        source = postgres_source(spec.source)
        publications = [source.publication_name]
        return open_stream(source_server(source), source.slot_name, publications, wal_position(position))

    def reading(self, spec: CaptureSpec, begin: Position, table_catalog: TableCatalog) -> LogReading:
        """See CaptureKind."""
        source, catalog = postgres_source(spec.source), _catalog(table_catalog)
        counted = replace(wal_position(begin), publication=source.publication_name)
        return PostgresReading(counted, catalog, source.patterns.matches, reads_ddl_log=source.ddl_trigger)

    def refreshing(self, spec: CaptureSpec, capture: OpenCapture) -> Refreshers | None:
        """See CaptureKind. A table whose rows are all in the log needs no snapshot: it begins with its first row."""
        unseen = _catalog(capture.parts.table_catalog)
        readers = [self._rows(spec.source, unseen) for _ in range(readers_at_once(spec.source))]

        def added() -> Sequence[TableId]:
            carried = {each.number for each in carried_now(capture)}
            found = readers[0].tables_lacking_rows(wal_position(capture.position), carried)
            return never_told_of(capture, found)

        def returned() -> Sequence[TableId]:
            return readers[0].tables_published_otherwise(carried_now(capture))

        def gone(numbers: Collection[int]) -> Gone:
            server = source_server(spec.source)
            # Once a minute also where no chunk is read: their numbers are given again.
            with connected(server) as connection:
                forget_seen(connection, unseen.committed(), unseen)
            return find_gone(server, numbers, capture.server)

        return open_refreshers(spec, capture, readers, added, returned, gone)

    def rows(self, source: SourceSpec, pipeline: str) -> RowReader:
        """See CaptureKind."""
        del pipeline
        return self._rows(source)

    def _rows(self, source: SourceSpec, unseen: UnseenCommits | None = None) -> PostgresRowReader:
        spec = postgres_source(source)
        return PostgresRowReader(source_server(spec), source_publication(spec), spec.special_values, unseen)

    def on_top_of(self, base: Position, position: Position) -> Position:
        """See CaptureKind."""
        del base
        return position

    def require_fit(self, source: SourceSpec) -> None:
        """See CaptureKind."""
        require_fit_postgres(postgres_source(source))

    def examine(self, source: SourceSpec, pipeline: str) -> Iterator[Finding]:
        """See CaptureKind."""
        del pipeline
        return examine_postgres(postgres_source(source))

    def status(self, source: SourceSpec, position: Position | None, *, is_snapshotting: bool) -> SourceStatus:
        """See CaptureKind: the slot of a copy begins where its snapshot is, which is behind where it was announced."""
        return read_postgres_status(postgres_source(source), None if is_snapshotting else position)

    def tables(self, source: SourceSpec) -> Mapping[TableId, TableSchema]:
        """See CaptureKind."""
        spec = postgres_source(source)
        with connected(source_server(source)) as connection:
            types, found = read_types(connection), read_tables(connection, spec.partitions)
        shapes = [table_schema(each.relation, each.table, types, None, spec.special_values) for each in found]
        return {shape.table: shape for shape in shapes}

    def refusal(self, before: TableSchema, after: TableSchema) -> Refusal | None:
        """See CaptureKind."""
        return refusal(before, after)

    def unlogged_changes(
        self, source: SourceSpec, told: Callable[[], Sequence[TableSchema]]
    ) -> Mapping[TableId, str] | None:
        """See CaptureKind."""
        spec = postgres_source(source)
        # Told of before the catalog is read: what a capture tells of meanwhile is in the catalog already.
        known = told()
        with connected(source_server(spec)) as connection:
            published = read_published(connection, spec.publication_name)
            types, tables = read_types(connection), read_tables(connection, spec.partitions)
        found = [narrowed(each, published.get(each.table.id)) for each in tables]
        shapes = [table_schema(each.relation, each.table, types, None, spec.special_values) for each in found]
        partitions = {each.table.oid: each.table.partitions for each in tables if each.table.partitions is not None}
        return unlogged_changes(known, shapes, published, partitions)

    def log(self, source: SourceSpec) -> SourceLog:
        """See CaptureKind."""
        return PostgresLog(source)

    def audited(self, source: SourceSpec, audit: AuditSpec) -> AuditedSource:
        """See CaptureKind."""
        spec = postgres_source(source)
        server, replica = source_server(spec), None
        if audit.replica is not None:
            standby = replace(server, host=audit.replica.host, port=audit.replica.port or server.port)
            replica = AwaitedStandby(standby, audit.wait_seconds)
        return AuditedPostgresSource(server, source_publication(spec), spec.special_values, replica)


class PostgresLog:
    """See ports/source.SourceLog. Asks over a connection of its own each time: it is asked once a second at most."""

    def __init__(self, source: SourceSpec) -> None:
        """Connect when asked."""
        self._server = source_server(source)

    def head(self) -> Position:
        """See SourceLog."""
        with connected(self._server) as connection:
            return WalPosition(read_head(connection))

    def complete_files_from(self, position: Position) -> Sequence[LogFile]:
        """See SourceLog: a slot has no files."""
        del position
        return ()

    def bytes_between(self, begin: Position, end: Position) -> int:
        """See SourceLog."""
        return max(0, wal_position(end).lsn - wal_position(begin).lsn)

    def close(self) -> None:
        """See SourceLog."""


def _ensure_published(connection: psycopg.Connection, source: PostgresSourceSpec) -> None:
    """Make what has to be there before a slot is. Raises UnfitServerError where that may not be, or we may not."""
    ensure_publication(connection, source_publication(source))
    if source.ddl_trigger:
        ensure_ddl_trigger(connection, source.publication_name)


def _catalog(table_catalog: TableCatalog) -> RegisteredCatalog:
    """Return the catalog of a book that `PostgresCapture.catalog` has opened."""
    if not isinstance(table_catalog.tracker, RegisteredCatalog):
        message = f"the tables of a PostgreSQL source are not known from {type(table_catalog.tracker).__name__}"
        raise TypeError(message)
    return table_catalog.tracker
