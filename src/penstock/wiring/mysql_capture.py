"""Opens what a capture of MySQL or MariaDB works with: see wiring/capture_kinds.py."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.adapters.mysql.binlog_stream import open_binlog
from penstock.adapters.mysql.catalog import read_table_ids, read_tables
from penstock.adapters.mysql.connection import connect
from penstock.adapters.mysql.heartbeat import require_not_behind
from penstock.adapters.mysql.history import start_of_log, what_log_lacks
from penstock.adapters.mysql.identity import read_identity
from penstock.adapters.mysql.initial_snapshot import SILENCE_SECONDS, open_initial_snapshot
from penstock.adapters.mysql.log_coverage import require_whole_log
from penstock.adapters.mysql.prepared import prepared_without_rows
from penstock.adapters.mysql.row_reader import MysqlRowReader
from penstock.adapters.mysql.source_objects import MysqlSourceObjects
from penstock.adapters.mysql.tracker import MysqlTracker
from penstock.config.mysql_source import BACKLOG_TASKS_MAX, SERVER_IDS_PER_SOURCE
from penstock.core.mysql.log.heartbeats import HeartbeatWatch
from penstock.core.mysql.log.read_from import on_top_of
from penstock.core.mysql.statements.evolution import refusal_of_types
from penstock.core.positions import binlog_position
from penstock.core.snapshot_copies import copies_owner, is_copy, snapshot_of
from penstock.links.capture.mysql.cascades import CascadeWatch
from penstock.links.capture.mysql.log_reading import BinlogReading
from penstock.links.capture.mysql.statements import StatementHandler
from penstock.links.capture.refreshers import wanted_by_itself
from penstock.wiring.mysql_audited import AuditedMysqlSource
from penstock.wiring.mysql_fitness import examine_source, lag_limit, require_fit_source
from penstock.wiring.mysql_log import MysqlLog
from penstock.wiring.mysql_status import read_source_status
from penstock.wiring.open import mysql_server, mysql_source, open_tracker
from penstock.wiring.refreshing import open_refreshers, readers_at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import pymysql

    from penstock.config.audits import AuditSpec
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
    from penstock.ports.replay import Replay
    from penstock.ports.snapshots import RowReader
    from penstock.ports.source import SourceLog
    from penstock.ports.source_status import SourceStatus
    from penstock.ports.state import State
    from penstock.ports.tracker import SchemaCatalog, UnloggedChanges
    from penstock.wiring.capture_kind import SourceLook

_CONNECTIONS: Final = BACKLOG_TASKS_MAX + 1
_INSTANCES: Final = 4
_TIMES: Final = SERVER_IDS_PER_SOURCE // (_CONNECTIONS * _INSTANCES)
_SAME_ID_SECONDS: Final = 20


@dataclass(frozen=True, slots=True)
class MysqlLook:
    """See capture_kind.SourceLook."""

    connection: pymysql.Connection
    spec: CaptureSpec
    identity: str

    def require_reached(self, position: Position) -> None:
        """Hold the source's heartbeats against the newest that was read."""
        heartbeat, newest = mysql_source(self.spec.source).heartbeat, binlog_position(position).heartbeat
        if heartbeat is not None and newest is not None:
            require_not_behind(self.connection, heartbeat.table_id, self.spec.pipeline.pipeline, newest.serial)

    def start_of_log(self) -> Position | str:
        """Ask the server, and the file."""
        source = mysql_source(self.spec.source)
        if source.start == "snapshot":
            return "start: snapshot"
        lacking = what_log_lacks(self.connection, source.patterns.matches) if source.start == "auto" else ""
        return lacking or start_of_log(self.connection)

    def snapshot_from(self) -> Position | None:
        """A copy makes nothing in the source."""
        return None


class MysqlCapture:
    """See capture_kind.CaptureKind."""

    @contextmanager
    def look(self, spec: CaptureSpec) -> Iterator[SourceLook]:
        """See CaptureKind."""
        with connect(mysql_server(spec.source)) as connection:
            # At each start, for whatever answers now may be another server, or one with other settings.
            require_whole_log(connection, spec.source.patterns.matches)
            yield MysqlLook(connection, spec, read_identity(connection))

    def snapshot(self, spec: CaptureSpec, *, again: bool) -> AbstractContextManager[InitialSnapshot]:
        """See CaptureKind."""
        del again
        return open_initial_snapshot(
            mysql_server(spec.source), spec.source.patterns.matches, mysql_source(spec.source).policy
        )

    def snapshot_silence_seconds(self) -> float:
        """See CaptureKind."""
        return SILENCE_SECONDS

    def catalog(self, spec: CaptureSpec) -> SchemaCatalog:
        """See CaptureKind."""
        return open_tracker(spec.pipeline, spec.source)

    def unlogged(self, spec: CaptureSpec, catalog: SchemaCatalog) -> UnloggedChanges:
        """See CaptureKind."""
        source = mysql_source(spec.source)
        objects, rereads = MysqlSourceObjects(mysql_server(source)), source.cascades == "reread"
        return CascadeWatch(_tracker(catalog), source.patterns.matches, objects.keys_above, rereads=rereads)

    def replay(self, spec: CaptureSpec, state: State, table_catalog: TableCatalog) -> Replay:
        """See CaptureKind."""
        objects = MysqlSourceObjects(mysql_server(spec.source))
        return StatementHandler(state, table_catalog, _tracker(table_catalog.tracker), objects)

    def stream(
        self,
        spec: CaptureSpec,
        position: Position,
        stop: Stop,
        connection_index: int,
        table_catalog: TableCatalog | None,
    ) -> LogStream:
        """See CaptureKind."""
        source = mysql_source(spec.source)
        wanted = rows_read(spec, None if table_catalog is None else table_catalog.unlogged)
        begin, prepared_bytes_max = binlog_position(position), source.prepared_xa_mebibytes_max << 20
        return open_binlog(
            mysql_server(source), begin, replica_id(spec, connection_index), wanted, stop, prepared_bytes_max
        )

    def reading(self, spec: CaptureSpec, begin: Position, table_catalog: TableCatalog) -> LogReading:
        """See CaptureKind."""
        heartbeat, watch = mysql_source(spec.source).heartbeat, None
        if heartbeat is not None:
            newest = binlog_position(begin).heartbeat
            watch = HeartbeatWatch(heartbeat.table_id, spec.pipeline.pipeline, newest)
        return BinlogReading(begin, watch, table_catalog.copied)

    def refreshing(self, spec: CaptureSpec, capture: OpenCapture) -> Refreshers | None:
        """See CaptureKind."""
        copied = capture.parts.table_catalog.copied
        copied.owner = copies_owner(spec.pipeline.pipeline, spec.source_name)
        copied.snapshots = capture.snapshots
        unread, pipeline = prepared_without_rows(capture.position), spec.pipeline.pipeline
        readers = [_row_reader(spec.source, pipeline, unread) for _ in range(readers_at_once(spec.source))]
        return open_refreshers(spec, capture, readers, lambda: wanted_by_itself(capture, readers[0].tables()))

    def rows(self, source: SourceSpec, pipeline: str) -> RowReader:
        """See CaptureKind."""
        return _row_reader(source, pipeline)

    def on_top_of(self, base: Position, position: Position) -> Position:
        """See CaptureKind."""
        return on_top_of(binlog_position(base), binlog_position(position))

    def require_fit(self, source: SourceSpec) -> None:
        """See CaptureKind."""
        require_fit_source(mysql_source(source))

    def examine(self, source: SourceSpec, pipeline: str) -> Iterator[Finding]:
        """See CaptureKind."""
        return examine_source(mysql_source(source), pipeline)

    def status(self, source: SourceSpec, position: Position | None, *, is_snapshotting: bool) -> SourceStatus:
        """See CaptureKind."""
        del is_snapshotting
        return read_source_status(mysql_source(source), position)

    def tables(self, source: SourceSpec) -> Mapping[TableId, TableSchema]:
        """See CaptureKind."""
        with connect(mysql_server(source)) as connection:
            wanted = list(filter(source.patterns.matches, read_table_ids(connection)))
            return read_tables(connection, wanted, mysql_source(source).policy)

    def refusal(self, before: TableSchema, after: TableSchema) -> Refusal | None:
        """See CaptureKind."""
        return refusal_of_types(before, after)

    def unlogged_changes(
        self, source: SourceSpec, told: Callable[[], Sequence[TableSchema]]
    ) -> Mapping[TableId, str] | None:
        """See CaptureKind: statements are in the log."""
        del source, told
        return None

    def log(self, source: SourceSpec) -> SourceLog:
        """See CaptureKind."""
        return MysqlLog(source)

    def audited(self, source: SourceSpec, audit: AuditSpec) -> AuditedSource:
        """See CaptureKind."""
        return AuditedMysqlSource(source, audit)


def _tracker(catalog: SchemaCatalog) -> MysqlTracker:
    """Return the catalog of a book that `MysqlCapture.catalog` has opened."""
    if not isinstance(catalog, MysqlTracker):
        message = f"the tables of a MySQL source are not known from {type(catalog).__name__}"
        raise TypeError(message)
    return catalog


def _row_reader(source: SourceSpec, pipeline: str, unread: Collection[str] = ()) -> RowReader:
    mysql, owner = mysql_source(source), copies_owner(pipeline, source.name)
    return MysqlRowReader(mysql_server(source), mysql.policy, owner, lag_limit(mysql), unread)


def rows_read(spec: CaptureSpec, unlogged: UnloggedChanges | None) -> Callable[[TableId], bool]:
    """Which tables' rows are read from the log: all that count behind a heartbeat.

    Those are the tables that are carried, those whose rows change rows of them, the heartbeat's, and our own copies.
    """
    source = mysql_source(spec.source)
    carried, owner = source.patterns.matches, copies_owner(spec.pipeline.pipeline, source.name)
    heartbeat = None if source.heartbeat is None else source.heartbeat.table_id

    def wanted(table: TableId) -> bool:
        if is_copy(table):
            return bool(snapshot_of(table, owner))
        return table == heartbeat or carried(table) or (unlogged is not None and unlogged.watches(table))

    return wanted


def replica_id(spec: CaptureSpec, connection_index: int) -> int:
    """The server id of the N-th of our connections that read the source's log side by side, counted from 0.

    The next instance of the pipeline has another one, and so has a connection that
    is opened again 20 to 40 seconds later: MariaDB keeps a replica waiting for as
    long as it still tries to write to an older connection of the same id, and
    whoever fell asleep there, or was cut off, would hold us up for minutes.
    """
    instance, times = spec.epoch % _INSTANCES, int(time.time() / _SAME_ID_SECONDS) % _TIMES
    return (
        mysql_source(spec.source).first_server_id(spec.pipeline.pipeline)
        + (instance * _TIMES + times) * _CONNECTIONS
        + connection_index
    )
