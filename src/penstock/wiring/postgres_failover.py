"""A PostgreSQL source is read from another server: with the slot that it has, or with a new one and all tables anew."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock.adapters.postgres.source.catalog import read_next_oid, read_tables
from penstock.adapters.postgres.source.connection import connect_to_log, connected, explained
from penstock.adapters.postgres.source.identity import read_identity
from penstock.adapters.postgres.source.preflight import require_fit
from penstock.adapters.postgres.source.publication import ensure_publication, require_whole_publication
from penstock.adapters.postgres.source.slot import (
    ANOTHER_SLOT,
    create_slot,
    drop_slot,
    is_foreign,
    read_slot,
    require_slot,
)
from penstock.adapters.postgres.source.timeline import read_timeline, require_same_log
from penstock.core.commands import shell_word
from penstock.core.errors import NEW_SLOT, LogError, UnfitServerError
from penstock.core.positions import WalPosition, wal_position
from penstock.core.publication import StoppedTable
from penstock.core.snapshots import SnapshotOptions, Status
from penstock.links.capture.spec import CaptureSpec
from penstock.wiring.capture import open_parts
from penstock.wiring.epochs import next_epoch
from penstock.wiring.new_timeline import read_standing, require_transactions, resume_at, timeline_message
from penstock.wiring.open import failovers_topic, open_publisher, open_snapshot_list, open_topic_log
from penstock.wiring.postgres_checks import require_same_partitions, require_same_publication
from penstock.wiring.postgres_server import log_access, postgres_source, source_publication, source_server
from penstock.wiring.refreshing import new_snapshot

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from penstock.adapters.postgres.connection import PostgresServer
    from penstock.config.postgres_source import PostgresSourceSpec
    from penstock.config.specs import PipelineSpec
    from penstock.core.publication import CaptureRecord
    from penstock.core.tables import TableId
    from penstock.links.capture.open_capture import CaptureParts, OpenCapture


_UNSURE: Final = (
    "the old position does not say in which timeline of the server it was read, so it cannot be told whether this "
    "server has all of the log before it: if it was promoted or restored since, audit the tables, or use --new-slot"
)
_NO_TABLE: Final = 1 << 32
"""Behind every OID."""


@dataclass(frozen=True, slots=True)
class SlotFound:
    """Where a source is read on, and with which slot, on the server `server` of the timeline `server_timeline`.

    With a new slot, `read_again` are the tables whose rows are read again, and `left` those that stay stopped, for
    they have no primary key or are no tables of the source now. Else both are empty, and nothing was changed.
    """

    source: str
    slot: str
    is_new: bool
    before: WalPosition
    after: WalPosition
    server_before: str
    server: str
    read_again: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What people should know."""
        return () if self.is_new or self.before.server_timeline else (_UNSURE,)


def follow_slot(spec: PipelineSpec, source_name: str) -> SlotFound:
    """See that the server that `spec` says has our slot, and all of the log that was not published yet.

    Raises LogError for another server and for a slot that is gone or lacks log, PositionError where the server
    lacks what was published, UnfitServerError for a server that cannot be captured.
    """
    capture = CaptureSpec(spec, source_name, next_epoch(spec))
    source, record = postgres_source(capture.source), _record(capture)
    server, before = source_server(source), wal_position(record.position)
    identity = _look(source, server)
    if record.server not in {"", identity}:
        message = f"{server} is another server than the one that was read ({identity}, not {record.server})"
        raise LogError(
            message, f"let --to lead to a standby of that one, which was promoted; if there is none, {NEW_SLOT}"
        )
    with connected(server) as connection:
        require_whole_publication(connection, source_publication(source))
    require_same_partitions(source, before)
    require_same_publication(source, before)
    require_slot(server, source.slot_name, before)
    with closing(connect_to_log(server)) as log, explained(server):
        found = require_same_log(server, log, before)
    after = replace(found, tables_from=0, passed_by=(), timeline=0)
    return SlotFound(source_name, source.slot_name, False, before, after, record.server, identity)  # noqa: FBT003


def take_new_slot(spec: PipelineSpec, source_name: str) -> SlotFound:
    """Make a new slot on the server that `spec` says, and have the rows of all tables read again behind it.

    What was committed between our position and the slot's is in no log that we can read. So every
    table stops there, and goes on with its snapshot, which is asked for. Whoever calls holds the leader's lock, and
    may call again if this breaks off. Raises as `follow_slot`, but for any server and slot that is not another
    program's; UsageError without Kafka's transactions.
    """
    require_transactions(spec, source_name)
    capture = CaptureSpec(spec, source_name, next_epoch(spec))
    source, record = postgres_source(capture.source), _record(capture)
    server, before = source_server(source), wal_position(record.position)
    identity = _look(source, server)
    with ExitStack() as opened:
        log = opened.enter_context(closing(open_topic_log(spec)))
        publisher = open_publisher(spec, source_name, capture.epoch, log=log)
        parts = opened.enter_context(closing(open_parts(capture, publisher, log)))
        publisher.create_topics([failovers_topic(spec)])
        open_capture = resume_at(capture, parts, before)
        keyed, keyless = _carried(parts, _tables(source, server))
        _make_room(source, server)
        _ask_again(spec, source_name, keyed)
        _stop_all(open_capture, before)
        after = _make_slot(source, server, before)
        places = wal_place_in_words(before), wal_place_in_words(after)
        message = timeline_message(capture, log, after.timeline, places, identity)
        open_capture.move(after, identity, [message])
        publisher.settle()
    again, left = tuple(map(str, keyed)), tuple(map(str, keyless))
    return SlotFound(source_name, source.slot_name, True, before, after, record.server, identity, again, left)  # noqa: FBT003


def wal_place_in_words(position: WalPosition) -> str:
    """The LSN, and the server's timeline in which it was read."""
    timeline = f"timeline {position.server_timeline}" if position.server_timeline else "a timeline that is not known"
    return f"{position}, in {timeline}"


def _record(spec: CaptureSpec) -> CaptureRecord:
    with closing(open_topic_log(spec.pipeline)) as log:
        return read_standing(spec, log)


def _look(source: PostgresSourceSpec, server: PostgresServer) -> str:
    with connected(server) as connection:
        require_fit(connection, log_access(source))
        return read_identity(connection)


def _tables(source: PostgresSourceSpec, server: PostgresServer) -> set[TableId]:
    with connected(server) as connection:
        return {t.table.id for t in read_tables(connection, source.partitions)}


def _make_room(source: PostgresSourceSpec, server: PostgresServer) -> None:
    """Make the publication if it is missing, and drop a slot of ours."""
    with connected(server) as connection:
        found = read_slot(connection, source.slot_name)
        if found is not None and is_foreign(found, server.database):
            message = f"the replication slot {source.slot_name} of {server} is another program's"
            raise UnfitServerError(message, ANOTHER_SLOT)
        ensure_publication(connection, source_publication(source))
    drop_slot(server, source.slot_name)


def _make_slot(source: PostgresSourceSpec, server: PostgresServer, before: WalPosition) -> WalPosition:
    """Make the slot; return where it begins, behind all that was before."""
    with closing(connect_to_log(server)) as log:
        with explained(server):
            timeline, timeline_from = read_timeline(log)
        lsn, _ = create_slot(server, log, source.slot_name, failover=source.failover)
    with connected(server) as connection:
        # Of a table that is made until now the log may lack rows: it counts as older.
        tables_from = read_next_oid(connection)
    return WalPosition(
        lsn,
        tables_from=tables_from,
        timeline=before.timeline + 1,
        server_timeline=timeline,
        timeline_from=timeline_from,
        partitions=source.partitions,
    )


def _carried(parts: CaptureParts, there: Container[TableId]) -> tuple[Sequence[TableId], Sequence[TableId]]:
    """The tables that `tables` matches, carried or stopped: those that can be read again, and those that cannot.

    A table can if it has a primary key, and is among those that the source has.
    """
    catalog = parts.table_catalog
    tables = [each.table for each in catalog.announced() if catalog.wanted(each.table)]
    shapes = {table: catalog.announced_schema(table) for table in tables if table in there}
    readable = [table for table, schema in shapes.items() if schema is not None and schema.key]
    return readable, [table for table in tables if table not in readable]


def _ask_again(spec: PipelineSpec, source_name: str, tables: Sequence[TableId]) -> None:
    """Ask for a snapshot of each, in place of those that are under way."""
    with closing(open_snapshot_list(spec)) as snapshots:
        for each in snapshots.all(source_name, is_open=True):
            snapshots.tell(replace(each, status=Status.CANCELLED))
        for table in tables:
            snapshots.add(new_snapshot(source_name, str(table), SnapshotOptions()))


def _stop_all(capture: OpenCapture, before: WalPosition) -> None:
    """Commit, still at `before`, that no table goes on there, and that none is new from there on.

    Those that `tables` does not match now are among them, for it may match them again.

    A server that was restored as a whole may give the new slot a first position ahead of `before`. Once its log has
    come further than that, a start takes it for the server that was read; so the slot must not come first.
    """
    for table in (each.table for each in capture.parts.table_catalog.announced()):
        error = f"table {table} stopped at {before}: its changes from there to the new slot are in no log"
        hint = f"its rows are read again when the pipeline runs; else type: penstock snapshot FILE {shell_word(table)}"
        capture.stopped[str(table)] = StoppedTable(str(before), error, hint)
    capture.snapshots, capture.rereads = {}, {}
    capture.advance(replace(before, tables_from=_NO_TABLE))
