"""Opens everything that a capture works with."""

from __future__ import annotations

import math
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from penstock.adapters.kafka.topic_sizes import TopicSizes
from penstock.core.errors import START_ANEW, UsageError
from penstock.core.schema_changes import read_schema_change
from penstock.links.capture.first_start import SnapshotPace, begin_snapshot, start_from_log, start_with_snapshot
from penstock.links.capture.follow import LogFollower, Pace
from penstock.links.capture.live import LiveCapture
from penstock.links.capture.open_capture import CaptureParts, OpenCapture, committed_record
from penstock.links.capture.table_catalog import TableCatalog
from penstock.ports.log import Stop
from penstock.wiring.capture_kinds import capture_kind
from penstock.wiring.mirrored import require_newest_kafka
from penstock.wiring.open import (
    committed_end,
    kafka_cluster,
    large_messages,
    open_pipeline_state,
    open_publisher,
    open_registry,
    open_topic_log,
    schema_changes_topic,
    settled_end,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.adapters.kafka.reader import TopicReader
    from penstock.config.specs import SourceSpec
    from penstock.core.positions import Position
    from penstock.core.publication import CaptureRecord, StoppedTable
    from penstock.core.publish_tokens import PublishToken
    from penstock.core.schema_changes import SchemaChange
    from penstock.links.capture.spec import CaptureSpec
    from penstock.ports.log import LogStream
    from penstock.ports.publisher import CapturePublisher


def open_live(spec: CaptureSpec) -> LiveCapture:
    """Take the capture over and follow the log from its committed position."""
    capture = open_capture(spec)
    stream = open_stream(spec, capture.position, Stop.NEVER, 0, capture.parts.table_catalog)
    follower = open_follower(spec, capture.parts.table_catalog, capture.stopped, capture.position, live_pace(spec))
    return LiveCapture(capture, stream, follower, capture_kind(spec.source).refreshing(spec, capture))


def live_pace(spec: CaptureSpec) -> Pace:
    """How much the live tail gathers before it publishes."""
    interval_seconds = spec.pipeline.publish_interval_seconds(spec.source)
    return Pace(interval_seconds, piece_bytes=spec.piece_bytes)


def open_capture(
    spec: CaptureSpec,
    publish_token: PublishToken | None = None,
    table_catalog: TableCatalog | None = None,
    log: TopicReader | None = None,
) -> OpenCapture:
    """Take the capture over: fence the publishers before us and stand where the last commit left it.

    What it commits is of `publish_token`. `table_catalog`, which was opened at this place of the log,
    and `log` save opening others; both stay open. Raises LogError if another server
    answers than the one that was read, or an older state of it.
    """
    with ExitStack() as opened:
        log = log or opened.enter_context(closing(open_topic_log(spec.pipeline)))
        publisher = open_publisher(spec.pipeline, spec.source_name, spec.epoch, log=log)
        parts = open_parts(spec, publisher, log, table_catalog)
    try:
        return _resume(spec, parts, publish_token)
    except BaseException:
        parts.close()
        raise


def _resume(spec: CaptureSpec, parts: CaptureParts, publish_token: PublishToken | None) -> OpenCapture:
    with capture_kind(spec.source).look(spec) as look:
        capture = OpenCapture.resume(parts, spec.epoch, look.identity, publish_token)
        look.require_reached(capture.position)
    return capture


def snapshot_transaction_seconds(source: SourceSpec) -> float:
    """For how long a copy's transaction may be open: until a piece is due, and its last rows have come.

    With the longest pieces that is 15 minutes, the most that brokers grant by default.
    """
    return source.snapshot_commit_seconds + capture_kind(source).snapshot_silence_seconds()


def start_capture(spec: CaptureSpec) -> str:
    """Make the first start of a capture, if it was not made yet; return how, in words."""
    with closing(open_topic_log(spec.pipeline)) as log:
        seconds = snapshot_transaction_seconds(spec.source)
        publisher = open_publisher(spec.pipeline, spec.source_name, spec.epoch, seconds, log)
        parts = open_parts(spec, publisher, log)
    with closing(parts):
        record = committed_record(publisher)
        if record is not None and not record.is_snapshotting:
            return "the capture had been started before"
        return _first_start(spec, parts, record)


def _first_start(spec: CaptureSpec, parts: CaptureParts, broken_off: CaptureRecord | None) -> str:
    """Start as the file says; behind a copy that was broken off, with another copy in any case."""
    kind = capture_kind(spec.source)
    with kind.look(spec) as look:
        identity = look.identity
        begin = look.start_of_log() if broken_off is None else "the one before was interrupted"
        snapshot_from = look.snapshot_from() if broken_off is None else None
    if not isinstance(begin, str):
        start_from_log(parts, begin, spec.epoch, identity)
        return f"from the start of the log at {begin}"
    if snapshot_from is not None:
        begin_snapshot(parts, snapshot_from, spec.epoch, identity)
    seconds = spec.source.snapshot_commit_seconds if spec.pipeline.kafka.transactions else math.inf
    with kind.snapshot(spec, again=broken_off is not None) as snapshot:
        start_with_snapshot(parts, snapshot, spec.epoch, identity, SnapshotPace(seconds, broken_off))
        return f"with an initial snapshot of {len(snapshot.schemas)} tables at {snapshot.position} ({begin})"


def open_stream(
    spec: CaptureSpec, position: Position, stop: Stop, connection_index: int, table_catalog: TableCatalog | None = None
) -> LogStream:
    """See capture_kind.CaptureKind.stream."""
    return capture_kind(spec.source).stream(spec, position, stop, connection_index, table_catalog)


def open_follower(
    spec: CaptureSpec,
    table_catalog: TableCatalog,
    stopped: dict[str, StoppedTable],
    begin: Position,
    pace: Pace,
) -> LogFollower:
    """Turn the log from `begin` on into publications."""
    return LogFollower(
        table_catalog, stopped, begin, pace, capture_kind(spec.source).reading(spec, begin, table_catalog)
    )


def open_parts(
    spec: CaptureSpec, publisher: CapturePublisher, log: TopicReader, table_catalog: TableCatalog | None = None
) -> CaptureParts:
    """Open what a capture works with: tracker and registry, if no `table_catalog` is lent, and the state database.

    A failure closes all but that.
    """
    with ExitStack() as opened:
        opened.callback(publisher.close)
        is_lent = table_catalog is not None
        table_catalog = table_catalog or opened.enter_context(closing(open_table_catalog(spec, log)))
        state = open_pipeline_state(spec.pipeline)
        require_newest_kafka(spec.pipeline, spec.source_name, state, log)
        replay = capture_kind(spec.source).replay(spec, state, table_catalog)
        opened.pop_all()
        return CaptureParts(publisher, table_catalog, replay, schema_changes_topic(spec.pipeline), is_lent)


def open_table_catalog(spec: CaptureSpec, log: TopicReader) -> TableCatalog:
    """Look up the tables that were announced so far."""
    kind, announced = capture_kind(spec.source), read_schema_changes(spec, log)
    _require_format(spec, announced)
    tracker, registry = kind.catalog(spec), open_registry(spec.pipeline)
    table_catalog = TableCatalog(
        spec.source_name,
        tracker,
        registry,
        announced,
        spec.source.patterns.matches,
        repeatable=not spec.pipeline.kafka.transactions,
    )
    table_catalog.format = spec.source.format
    table_catalog.unlogged = kind.unlogged(spec, tracker)
    table_catalog.message_bytes_max = TopicSizes(kafka_cluster(spec.pipeline))
    if spec.source.large_values == "objects":
        table_catalog.large_messages = large_messages(spec.pipeline, spec.source_name)
    return table_catalog


def _require_format(spec: CaptureSpec, announced: Sequence[SchemaChange]) -> None:
    """Raise UsageError where tables have messages of another format than the file says: nobody could read on."""
    for told in announced:
        if told.source == spec.source_name and told.format != spec.source.format:
            now = spec.source.format
            message = f"the topics of {spec.source_name} have {told.format} messages, and its format is now {now}"
            raise UsageError(message, f"set format: {told.format} again, or {START_ANEW}")


def read_schema_changes(spec: CaptureSpec, log: TopicReader) -> list[SchemaChange]:
    """Everything that was announced so far, oldest first.

    What a crash has left behind the record is not: its statement comes again from
    the log, to a tracker that does not have it. Raises UnavailableError while what another
    source announces is undecided for long: events of ours may be behind it.
    """
    topic = schema_changes_topic(spec.pipeline)
    if spec.pipeline.kafka.transactions:
        end = settled_end(log, topic)
    else:
        end = committed_end(spec.pipeline, log, spec.source_name, topic)
    return [read_schema_change(topic, *each) for messages in log.read(topic, 0, 0, end) for each in messages]
