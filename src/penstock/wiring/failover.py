"""A source's capture goes on at another server, which has replicated from the one before.

Everything is looked at first, and nothing is written before all of it is known.
Then one Kafka transaction holds the new position and from which offsets on the
topics are of a new timeline.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.adapters.mysql.binlog_stream import open_binlog
from penstock.adapters.mysql.catalog import read_table_ids, read_tables
from penstock.adapters.mysql.connection import connect
from penstock.adapters.mysql.identity import read_identity
from penstock.adapters.mysql.new_master import FoundPlace, LogReading, find_by_gtids, find_by_heartbeat
from penstock.adapters.mysql.preflight import require_fit
from penstock.core.errors import START_ANEW, LogError, PositionError
from penstock.core.positions import binlog_position
from penstock.links.capture.spec import CaptureSpec
from penstock.ports.log import Stop
from penstock.wiring.capture import open_parts, open_table_catalog
from penstock.wiring.epochs import next_epoch
from penstock.wiring.mysql_capture import replica_id, rows_read
from penstock.wiring.new_timeline import (
    read_standing,
    require_source,
    require_transactions,
    resume_at,
    timeline_message,
)
from penstock.wiring.open import (
    failovers_topic,
    mysql_server,
    mysql_source,
    open_publisher,
    open_topic_log,
)

if TYPE_CHECKING:
    import pymysql

    from penstock.adapters.kafka.reader import TopicReader
    from penstock.config.mysql_source import MysqlSourceSpec
    from penstock.config.specs import PipelineSpec
    from penstock.core.positions import BinlogPosition
    from penstock.core.publication import CaptureRecord
    from penstock.links.capture.table_catalog import TableCatalog
    from penstock.ports.tracker import UnloggedChanges

Way: TypeAlias = Literal["gtid", "heartbeat"]

_LOOK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class FailedOver:
    """What a failover did. `way` is None, and nothing was changed, where the source was read from there already.

    `behind` counts the transactions that wait behind the new place; `notes` are
    what people should know.
    """

    source: str
    way: Way | None
    before: BinlogPosition
    after: BinlogPosition
    server_before: str
    server: str
    behind: int = 0
    notes: tuple[str, ...] = ()


def move_source(spec: PipelineSpec, source: str, host: str, port: int) -> PipelineSpec:
    """Return the pipeline with one of its sources at another address. Raises UsageError if there is no such source."""
    require_source(spec, source)
    moved = tuple(
        each.model_copy(update={"host": host, "port": port}) if each.name == source else each for each in spec.sources
    )
    return spec.model_copy(update={"sources": moved})


def fail_over(spec: PipelineSpec, source_name: str, way: Way | None = None) -> FailedOver:
    """Let the capture of a source go on at the server that `spec` says, by GTIDs if the position has any.

    Whoever calls holds the leader's lock. Raises PositionError for a capture that
    was never started or stands where no other log can be gone on with, LogError
    where the server lacks transactions that were published or others before them,
    UnfitServerError for a server that cannot be captured, UsageError where Kafka's
    transactions are not used: place and timeline have to be told in one.
    """
    require_transactions(spec, source_name)
    capture = CaptureSpec(spec, source_name, next_epoch(spec))
    with ExitStack() as opened:
        log = opened.enter_context(closing(open_topic_log(spec)))
        record = read_standing(capture, log)
        before = binlog_position(record.position)
        connection = opened.enter_context(connect(mysql_server(capture.source)))
        require_fit(connection, policy=mysql_source(capture.source).policy)
        server = read_identity(connection)
        if server == record.server and _still_stands(capture, before):
            note = "this is the server that the source is read from already: nothing was changed"
            return FailedOver(source_name, None, before, before, record.server, server, notes=(note,))
        chosen = way or ("gtid" if before.gtids else "heartbeat")
        table_catalog = opened.enter_context(closing(open_table_catalog(capture, log)))
        found = _find(connection, capture, before, chosen, table_catalog.unlogged)
        return _commit(connection, capture, record, _Target(server, chosen, found), (log, table_catalog))


@dataclass(frozen=True, slots=True)
class _Target:
    """Where to go on, and how that was found."""

    server: str
    way: Way
    found: FoundPlace


def _still_stands(spec: CaptureSpec, position: BinlogPosition) -> bool:
    """Whether the log of the server goes on at our position."""
    server = mysql_server(spec.source)
    try:
        with closing(open_binlog(server, position, replica_id(spec, 0), lambda _: False, Stop.END_OF_LOG)) as stream:
            stream.read(_LOOK_SECONDS)
    except LogError:
        return False
    return True


def _find(
    connection: pymysql.Connection, spec: CaptureSpec, before: BinlogPosition, way: Way, unlogged: UnloggedChanges
) -> FoundPlace:
    if before.rows_from:
        message = f"the capture stands in the middle of the transaction at {before}: a part of it is published"
        hint = (
            f"let the pipeline read the rest of it from the old master. If that is gone for ever, {START_ANEW}; "
            "smaller transactions are published whole"
        )
        raise PositionError(message, hint)
    # As the capture reads it: rows of other tables change carried ones, too, and all of these were counted.
    reading = LogReading(rows_read(spec, unlogged), replica_id(spec, 0))
    if way == "gtid":
        found = find_by_gtids(connection, before, reading)
    else:
        found = _find_by_heartbeat(connection, spec, before, reading)
    _require_same_prepared(before, found.position)
    return found


def _find_by_heartbeat(
    connection: pymysql.Connection, spec: CaptureSpec, before: BinlogPosition, reading: LogReading
) -> FoundPlace:
    heartbeat, newest = mysql_source(spec.source).heartbeat, before.heartbeat
    if heartbeat is None or newest is None or not newest.serial:
        has = "no GTIDs and no heartbeat" if not before.gtids else "no heartbeat"
        message = f"the position {before} has {has}: its position cannot be found in another log"
        hint = f"{START_ANEW}, of the new master; give its source a `heartbeat`, or switch GTIDs on"
        raise PositionError(message, hint)
    return find_by_heartbeat(connection, newest, heartbeat.table_id, spec.pipeline.pipeline, reading)


def _require_same_prepared(before: BinlogPosition, after: BinlogPosition) -> None:
    ours, theirs = ({xa.xid for xa in place.prepared} for place in (before, after))
    if ours != theirs:
        listed = ", ".join(sorted(ours ^ theirs)) or "none with a name"
        message = f"XA transactions that are prepared at {before} are not those at {after} of the new master: {listed}"
        hint = (
            "the log of the new master does not have their rows any more. Once they are committed or rolled back "
            f"(XA RECOVER lists them), {START_ANEW}"
        )
        raise PositionError(message, hint)


def _commit(
    connection: pymysql.Connection,
    spec: CaptureSpec,
    record: CaptureRecord,
    target: _Target,
    lent: tuple[TopicReader, TableCatalog],
) -> FailedOver:
    """Fence who was there before, look once more, and commit. What is `lent` stays open."""
    before, (log, table_catalog) = binlog_position(record.position), lent
    publisher = open_publisher(spec.pipeline, spec.source_name, spec.epoch, log=log)
    with closing(open_parts(spec, publisher, log, table_catalog)) as parts:
        publisher.create_topics([failovers_topic(spec.pipeline)])
        capture = resume_at(spec, parts, before)
        heartbeat = before.heartbeat
        if heartbeat is not None and target.way == "gtid":
            # Counted in the other log; what is counted from here on belongs to the same heartbeat.
            heartbeat = replace(heartbeat, file="", offset=0)
        after = replace(target.found.position, timeline=before.timeline + 1, heartbeat=heartbeat)
        notes = _compare_tables(connection, mysql_source(spec.source), parts.table_catalog, target.found)
        places = place_in_words(before), place_in_words(after)
        message = timeline_message(spec, log, after.timeline, places, target.server)
        capture.move(after, target.server, [message])
        publisher.settle()
    server_before = record.server
    behind = target.found.behind.transactions
    return FailedOver(spec.source_name, target.way, before, after, server_before, target.server, behind, notes)


def _compare_tables(
    connection: pymysql.Connection, source: MysqlSourceSpec, table_catalog: TableCatalog, found: FoundPlace
) -> tuple[str, ...]:
    """Compare the tables of the new master with what the tracker has, where both are of the same place."""
    if found.behind.table_statements:
        count = found.behind.table_statements
        return (f"tables were not compared: {count} statement(s) that change some lie after the position",)
    known = table_catalog.tracker.describe([schema_change.table for schema_change in table_catalog.announced()])
    carried = sorted(known)
    there = set(read_table_ids(connection))
    shapes = read_tables(connection, [table for table in carried if table in there], source.policy)
    differing = [str(table) for table in carried if shapes.get(table) != known[table]]
    if differing:
        names = ", ".join(differing)
        return (f"not as they were on the old master, so that their next rows may stop them: {names}",)
    return (f"{len(carried)} table(s) compared: all are as they were on the old master",)


def place_in_words(position: BinlogPosition) -> str:
    """`file:offset`, and the GTIDs before it where there are any."""
    return f"{position} ({position.gtids})" if position.gtids else str(position)
