"""Opens everything that a capture works with."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Final

from penstock.adapters.mysql.binlog_stream import Stop, open_binlog
from penstock.adapters.mysql.connection import connect
from penstock.adapters.mysql.copy import SILENCE_SECONDS, open_copy
from penstock.adapters.mysql.heartbeat import require_not_behind
from penstock.adapters.mysql.history import log_is_whole, start_of_log
from penstock.adapters.mysql.identity import read_identity
from penstock.adapters.mysql.log_coverage import require_whole_log
from penstock.adapters.mysql.source_objects import MysqlSourceObjects
from penstock.config.specs import BACKLOG_TASKS_MAX, SERVER_IDS_PER_SOURCE
from penstock.core.announcements import read_announcement
from penstock.core.mysql.heartbeats import HeartbeatWatch
from penstock.links.capture.first_start import CopyPace, start_from_log, start_with_copy
from penstock.links.capture.follow import LogFollower, Pace
from penstock.links.capture.live import LiveCapture
from penstock.links.capture.open_capture import CaptureParts, OpenCapture, committed_record
from penstock.links.capture.statements import StatementHandler
from penstock.links.capture.table_book import TableBook
from penstock.wiring.mirrored import require_newest_kafka
from penstock.wiring.open import (
    announcements_topic,
    committed_end,
    mysql_server,
    open_pipeline_state,
    open_publisher,
    open_registry,
    open_topic_log,
    open_tracker,
)
from penstock.wiring.snapshots import open_refresher

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.adapters.kafka.reader import TopicReader
    from penstock.config.specs import MysqlSourceSpec
    from penstock.core.announcements import Announcement
    from penstock.core.positions import BinlogPosition
    from penstock.core.publication import CaptureRecord, StoppedTable
    from penstock.core.tables import TableId
    from penstock.core.turns import Turn
    from penstock.links.capture.spec import CaptureSpec
    from penstock.ports.log import LogStream
    from penstock.ports.publisher import Publisher

_LANES: Final = BACKLOG_TASKS_MAX + 1
_INSTANCES: Final = 4
_TIMES: Final = SERVER_IDS_PER_SOURCE // (_LANES * _INSTANCES)
_SAME_ID_SECONDS: Final = 20


def open_live(spec: CaptureSpec) -> LiveCapture:
    """Take the capture over and follow the log from its committed position."""
    capture = open_capture(spec)
    stream = open_stream(spec, capture.position, Stop.NEVER, 0, capture.parts.book)
    follower = open_follower(spec, capture.parts.book, capture.stopped, capture.position, live_pace(spec))
    return LiveCapture(capture, stream, follower, open_refresher(spec, capture))


def live_pace(spec: CaptureSpec) -> Pace:
    """How much the live tail gathers before it publishes."""
    return Pace(interval_seconds=spec.source.publish_interval_ms / 1000)


def open_capture(
    spec: CaptureSpec, turn: Turn | None = None, book: TableBook | None = None, log: TopicReader | None = None
) -> OpenCapture:
    """Take the capture over: fence the publishers before us and stand where the last commit left it.

    What it commits is of `turn`. `book`, which was opened at this place of the log,
    and `log` save opening others; both stay open. Raises LogError if another server
    answers than the one that was read, or an older state of it.
    """
    with ExitStack() as opened:
        log = log or opened.enter_context(closing(open_topic_log(spec.pipeline)))
        publisher = open_publisher(spec.pipeline, spec.source_name, spec.epoch, log=log)
        parts = open_parts(spec, publisher, log, book)
    try:
        return _resume(spec, parts, turn)
    except BaseException:
        parts.close()
        raise


def _resume(spec: CaptureSpec, parts: CaptureParts, turn: Turn | None) -> OpenCapture:
    heartbeat = spec.source.heartbeat
    with connect(mysql_server(spec.source)) as connection:
        # At each start, for whatever answers now may be another server, or one with other settings.
        require_whole_log(connection, spec.source.patterns.matches)
        capture = OpenCapture.resume(parts, spec.epoch, read_identity(connection), turn)
        newest = capture.position.heartbeat
        if heartbeat is not None and newest is not None:
            require_not_behind(connection, heartbeat.table_id, spec.pipeline.pipeline, newest.serial)
    return capture


def wanted_rows(source: MysqlSourceSpec) -> Callable[[TableId], bool]:
    """Which tables' rows are read from the log: those that are carried, and the heartbeat's."""
    carried = source.patterns.matches
    if source.heartbeat is None:
        return carried
    heartbeat = source.heartbeat.table_id
    return lambda table: table == heartbeat or carried(table)


def copy_transaction_seconds(source: MysqlSourceSpec) -> float:
    """For how long a copy's transaction may be open: until a piece is due, and its last rows have come.

    With the longest pieces that is 15 minutes, the most that brokers grant by default.
    """
    return source.copy_commit_seconds + SILENCE_SECONDS


def start_capture(spec: CaptureSpec) -> str:
    """Make the first start of a capture, if it was not made yet; return how, in words."""
    with closing(open_topic_log(spec.pipeline)) as log:
        seconds = copy_transaction_seconds(spec.source)
        publisher = open_publisher(spec.pipeline, spec.source_name, spec.epoch, seconds, log)
        parts = open_parts(spec, publisher, log)
    with closing(parts):
        record = committed_record(publisher)
        if record is not None and not record.is_copying:
            return "the capture had been started before"
        return _first_start(spec, parts, record)


def _first_start(spec: CaptureSpec, parts: CaptureParts, broken_off: CaptureRecord | None) -> str:
    """Start as the file says; behind a copy that was broken off, with another copy in any case."""
    server, wanted = mysql_server(spec.source), spec.source.patterns.matches
    with connect(server) as connection:
        require_whole_log(connection, wanted)
        whole = spec.source.start == "log" or (spec.source.start == "auto" and log_is_whole(connection, wanted))
        begin, identity = start_of_log(connection), read_identity(connection)
    if whole and broken_off is None:
        start_from_log(parts, begin, spec.epoch, identity)
        return f"from the start of the log at {begin}"
    seconds = spec.source.copy_commit_seconds if spec.pipeline.kafka.transactions else math.inf
    with open_copy(server, wanted, spec.source.policy) as copy:
        start_with_copy(parts, copy, spec.epoch, identity, CopyPace(seconds, broken_off))
        return f"with a copy of {len(copy.schemas)} tables at {copy.position}"


def open_stream(
    spec: CaptureSpec, position: BinlogPosition, stop: Stop, lane: int, book: TableBook | None = None
) -> LogStream:
    """Ask the source for its log from `position`, on the `lane`-th connection of this pipeline.

    Its rows are those of `wanted_rows`, and of tables whose changes reach into these by foreign keys, as `book` knows.
    """
    source = spec.source
    carried = wanted_rows(source)

    def wanted(table: TableId) -> bool:
        return carried(table) or (book is not None and book.cascades.watches(table))

    server_id, prepared_bytes_max = replica_id(spec, lane), source.prepared_xa_mebibytes_max << 20
    return open_binlog(mysql_server(source), position, server_id, wanted, stop, prepared_bytes_max)


def replica_id(spec: CaptureSpec, lane: int) -> int:
    """The server id of the `lane`-th of our connections that read the source's log side by side, counted from 0.

    The next instance of the pipeline has another one, and so has a connection that
    is opened again 20 to 40 seconds later: MariaDB keeps a replica waiting for as
    long as it still tries to write to an older connection of the same id, and
    whoever fell asleep there, or was cut off, would hold us up for minutes.
    """
    instance, times = spec.epoch % _INSTANCES, int(time.time() / _SAME_ID_SECONDS) % _TIMES
    return spec.pipeline.server_id(spec.source) + (instance * _TIMES + times) * _LANES + lane


def open_follower(
    spec: CaptureSpec,
    book: TableBook,
    stopped: dict[str, StoppedTable],
    begin: BinlogPosition,
    pace: Pace,
) -> LogFollower:
    """Turn the log from `begin` on into publications."""
    heartbeat, watch = spec.source.heartbeat, None
    if heartbeat is not None:
        watch = HeartbeatWatch(heartbeat.table_id, spec.pipeline.pipeline, begin.heartbeat)
    return LogFollower(book, stopped, begin, pace, watch)


def open_parts(
    spec: CaptureSpec, publisher: Publisher, log: TopicReader, book: TableBook | None = None
) -> CaptureParts:
    """Open what a capture works with: its tracker and the registry, if no `book` is lent, and the state database.

    A failure closes all but that.
    """
    with ExitStack() as opened:
        opened.callback(publisher.close)
        is_lent = book is not None
        book = book or opened.enter_context(closing(open_book(spec, log)))
        partitions = spec.pipeline.kafka.partitions
        state = open_pipeline_state(spec.pipeline)
        require_newest_kafka(spec.pipeline, spec.source_name, state, log)
        handler = StatementHandler(state, book, MysqlSourceObjects(mysql_server(spec.source)), partitions)
        opened.pop_all()
        return CaptureParts(publisher, book, handler, announcements_topic(spec.pipeline), partitions, is_lent)


def open_book(spec: CaptureSpec, log: TopicReader) -> TableBook:
    """Look up the tables that were announced so far."""
    tracker, registry = open_tracker(spec.pipeline, spec.source), open_registry(spec.pipeline)
    book = TableBook(
        spec.source_name,
        tracker,
        registry,
        read_announcements(spec, log),
        spec.source.patterns.matches,
        repeatable=not spec.pipeline.kafka.transactions,
    )
    book.cascades.start(MysqlSourceObjects(mysql_server(spec.source)).logs_cascades)
    return book


def read_announcements(spec: CaptureSpec, log: TopicReader) -> list[Announcement]:
    """Everything that was announced so far, oldest first.

    What a crash has left behind the record is not: its statement comes again from
    the log, to a tracker that does not have it.
    """
    topic = announcements_topic(spec.pipeline)
    end = committed_end(spec.pipeline, log, spec.source_name, topic)
    return [read_announcement(topic, *each) for messages in log.read(topic, 0, 0, end) for each in messages]
