"""A capture that is open: its publisher has fenced all others, and its position is the committed one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.config.crash_points import CrashPoint
from penstock.core.changes import Messages
from penstock.core.commands import shell_word
from penstock.core.errors import START_ANEW, FencedError, LogError, PositionError
from penstock.core.positions import in_timeline
from penstock.core.publication import CaptureRecord, StoppedTable, join_rereads, nothing_left
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.topic_fingerprints import bring_back

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.log_items import LoggedStatement
    from penstock.core.positions import Position
    from penstock.core.publication import Publication
    from penstock.core.publish_tokens import PublishToken
    from penstock.core.schema_changes import SchemaChange
    from penstock.core.snapshots import Reread, SnapshotProgress
    from penstock.links.capture.table_catalog import TableCatalog
    from penstock.ports.publisher import CapturePublisher, Publisher
    from penstock.ports.replay import Replay

_REGISTERED = CrashPoint("statement.registered", "a statement's new schemas are registered, their topics are not made")
_MADE_TOPICS = CrashPoint("statement.topics_made", "a statement's topics are made, nothing is announced")
_ANNOUNCED = CrashPoint("statement.announced", "a statement is announced and behind us, the tracker's dump still there")
_REFRESHED = CrashPoint("snapshot.refreshed", "a part of a snapshot is committed, the state database does not know")

_FIRST_REFRESH = 2**30
"""The row that the first refresh at a position has: behind those of an initial snapshot that was made there."""


@dataclass(frozen=True, slots=True)
class CaptureParts:
    """What a capture works with."""

    publisher: CapturePublisher
    table_catalog: TableCatalog
    statements: Replay
    schemas_topic: str
    is_catalog_lent: bool = False

    def close(self) -> None:
        """Abort what is being published and let go of everything, but for a book that is lent."""
        self.publisher.close()
        self.statements.close()
        if not self.is_catalog_lent:
            self.table_catalog.close()


@dataclass(slots=True)
class OpenCapture:
    """Publishes what a capture reads, and knows nothing that its committed record does not say.

    `server` is the identity of the server that it reads, `publish_token` that of a slice in
    which it publishes.
    """

    parts: CaptureParts
    epoch: int
    position: Position
    timestamp_ms: int
    stopped: dict[str, StoppedTable] = field(default_factory=dict)
    server: str = ""
    publish_token: PublishToken | None = None
    has_tracker: bool = True
    """Whether nobody but we can change the schema tracker."""
    snapshots: dict[str, SnapshotProgress] = field(default_factory=dict)
    refreshes: int = 0
    rereads: dict[str, Reread] = field(default_factory=dict)
    stops_more: bool = False
    """Whether tables stopped when this was opened: somebody wrote to their topics, or `tables` leaves them out."""

    @classmethod
    def resume(
        cls, parts: CaptureParts, epoch: int, server: str = "", publish_token: PublishToken | None = None
    ) -> OpenCapture:
        """Take the link over at its committed record, and commit that we did.

        Raises FencedError if a newer instance was here first, PositionError if the
        link has no record yet, LogError if it is one of another server than
        `server`; with "" nobody asks.
        """
        record = committed_record(parts.publisher)
        if record is None or record.is_snapshotting:
            message = f"capture of {parts.table_catalog.source} has no position in Kafka"
            raise PositionError(
                message,
                f"its position topic was deleted: {START_ANEW}",
            )
        if record.epoch > epoch:
            message = f"a newer instance of this pipeline captures {parts.table_catalog.source}"
            raise FencedError(
                message,
                "stop one of the two instances; this one has published nothing since",
            )
        if server and record.server not in {"", server}:
            raise _another_server(parts.table_catalog.source, record, server)
        stopped = _with_left_out(parts, record, _with_foreign(parts, record))
        # Behind a slice that has passed the token on, nobody is in the middle of a statement.
        is_passed_on = publish_token is not None and publish_token.number > 0
        has_tracker = not is_passed_on or parts.statements.is_half_done()
        if has_tracker:
            # Who replayed a statement until just now, or wakes in the middle of one, can end it no more.
            parts.statements.take_over()
        if has_tracker and parts.statements.is_half_done():
            # As before a replay: only whoever still has the link can commit, and may undo what others began.
            taken = replace(record, rows={}, publish_token=publish_token, stopped=stopped)
            parts.publisher.publish((), taken.to_mapping)
            parts.statements.recover(record.position)
        known = server or record.server
        capture = cls(parts, epoch, record.position, record.timestamp_ms, stopped, known, publish_token, has_tracker)
        capture.snapshots, capture.refreshes = dict(record.snapshots), record.refreshes
        capture.rereads = dict(record.rereads)
        capture.stops_more = stopped.keys() != record.stopped.keys()
        if record.epoch < epoch:
            # Once for each instance: nobody but we and those before us may have touched the tracker.
            parts.table_catalog.require_tracker(capture.stopped)
        if record.epoch < epoch or capture.stops_more:
            capture.advance(record.position)
        return capture

    def publish(self, publication: Publication) -> None:
        """Commit a publication that begins where we stand."""
        here, begin = self.position, publication.begin
        if begin.order != here.order:
            message = f"changes from {begin} were to be published at {here}"
            raise PositionError(
                message,
                "this is a mistake in Penstock; nothing was published: restart, and report it with both positions",
            )
        self._stand_at(publication.end)
        self.timestamp_ms = publication.timestamp_ms or self.timestamp_ms
        self.rereads = join_rereads(self.rereads, publication.rereads)
        self._commit(publication.messages, publication.rows)

    def advance(self, position: Position) -> None:
        """Commit that nothing of ours lies before `position`."""
        self._stand_at(position)
        self._commit((), {})

    def take_statement(self, statement: LoggedStatement) -> None:
        """Bring everybody past a statement; everything before it is published.

        A stopped table that begins anew, or gets the rows of another, goes on: all of its rows are known.
        Raises FencedError, and touches nothing, if another instance has taken over.
        """
        if self.parts.statements.replays(statement):
            # The tracker and the state database fence nobody. Kafka does: only whoever still has the link can
            # commit. An instance that slept must not replay what its successor has replayed.
            self.advance(self.position)
            if not self.has_tracker:
                self.parts.statements.take_over()
                self.has_tracker = True
        outcome = self.parts.statements.apply(statement, self.stopped)
        for schema_change in outcome.schema_changes:
            name = str(schema_change.table)
            if schema_change.kind in {SchemaChangeKind.CREATE, SchemaChangeKind.RENAME}:
                self.stopped.pop(name, None)
            elif schema_change.kind is SchemaChangeKind.DROP and name in self.stopped:
                self.stopped[name] = _gone(name, self.stopped[name])
        for table, why in outcome.stopped:
            self.stopped.setdefault(str(table), why)
        for schema_change in outcome.schema_changes:
            self._stop_moved(schema_change, str(statement.begin))
        self._stand_at(statement.end)
        timeline = statement.end.timeline
        kept = [a for a in outcome.schema_changes if str(a.table) not in self.stopped]
        announced = [self._with_part(replace(a, order=in_timeline(a.order, timeline))) for a in kept]
        self.timestamp_ms = statement.timestamp_ms
        _REGISTERED.maybe_crash()
        self.parts.publisher.create_topics(a.topic for a in announced)
        announced = [self._in_topic(a) for a in announced]
        _MADE_TOPICS.maybe_crash()
        self._commit(schema_change_messages(self.parts.schemas_topic, announced), {})
        _ANNOUNCED.maybe_crash()
        for schema_change in announced:
            self.parts.table_catalog.announce(schema_change)
        self.parts.statements.settle(statement)

    def _stop_moved(self, schema_change: SchemaChange, position: str) -> None:
        """Stop a table that got the rows of one whose snapshot is not whole: nobody reads those under the new name."""
        unread = {each.table for each in self.snapshots.values() if (each.fills or each.mends) and not each.is_done}
        for move in schema_change.moves:
            if move.origin in unread | self.rereads.keys() and move.table == str(schema_change.table):
                error = f"{move.origin} became {move.table} at {position}, before all of its rows were read again"
                self.stopped[move.table] = StoppedTable(
                    position, error, f"penstock snapshot FILE {shell_word(move.table)}"
                )

    def _with_part(self, schema_change: SchemaChange) -> SchemaChange:
        """Tell the link at which the table has got the rows of one whose snapshot is not whole there."""
        origins = {move.origin for move in schema_change.moves if move.table == str(schema_change.table)}
        for each in self.snapshots.values():
            if each.link and not each.is_done and each.table in origins:
                return replace(schema_change, ends_for=each.link)
        return schema_change

    def move(self, position: Position, server: str, messages: Sequence[Messages]) -> None:
        """Commit, with `messages`, that the capture goes on at `position` of another `server`."""
        self._stand_at(position)
        self.server = server
        self._commit(messages, {})

    def refresh_row(self, position: Position) -> int:
        """The row that the next refresh has, if it is made at `position`: behind all that was told there."""
        is_here = position.order == self.position.order
        return _FIRST_REFRESH + (self.refreshes if is_here else 0)

    def refresh(self, position: Position, messages: Sequence[Messages], rows: Mapping[str, tuple[int, int]]) -> None:
        """Commit a part of a snapshot, which holds at `position`, and that nothing else of ours lies before it."""
        self._stand_at(position)
        self.refreshes += 1
        self._commit(messages, rows)
        _REFRESHED.maybe_crash()

    def begin_anew(self, position: Position, schema_change: SchemaChange) -> None:
        """Commit that a table begins at `position`, without rows, whether it had stopped or was not carried yet."""
        self.stopped.pop(str(schema_change.table), None)
        self.parts.publisher.create_topics([schema_change.topic])
        told = self._in_topic(schema_change)
        self.tell(position, told)
        self.parts.table_catalog.announce(told)

    def tell(self, position: Position, schema_change: SchemaChange) -> None:
        """Commit a schema-change event at `position`, in the place of a part of a snapshot."""
        self.refresh(position, schema_change_messages(self.parts.schemas_topic, [schema_change]), {})

    def end(self, position: Position, told: SchemaChange) -> None:
        """Commit at `position` that a table is gone, as `told` says; of a stopped one nobody but people is told."""
        name = str(told.table)
        if name in self.stopped:
            self.stopped[name] = _gone(name, self.stopped[name])
            self.advance(position)
        else:
            self.tell(position, told)
            self.parts.table_catalog.announce(told)

    def _in_topic(self, schema_change: SchemaChange) -> SchemaChange:
        """Say how many partitions its topic has, whatever the config says by now.

        Of a table that begins, say where they end, too: what comes behind that is of the table as it begins.
        """
        publisher, topic = self.parts.publisher, schema_change.topic
        told = replace(schema_change, partitions=publisher.partitions(topic))
        return replace(told, begins=tuple(publisher.ends(topic))) if told.kind is SchemaChangeKind.CREATE else told

    def _stand_at(self, position: Position) -> None:
        if (position.order, position.timeline) != (self.position.order, self.position.timeline):
            self.refreshes = 0
        self.position = position

    def _commit(self, messages: Sequence[Messages], rows: Mapping[str, tuple[int, int]]) -> None:
        stopped, server = self.stopped, self.server
        record = CaptureRecord(self.position, self.epoch, self.timestamp_ms, rows, stopped, server, self.publish_token)
        record = replace(record, snapshots=self.snapshots, refreshes=self.refreshes, rereads=self.rereads)
        self.parts.publisher.publish(messages, record.to_mapping)


def _another_server(source: str, record: CaptureRecord, server: str) -> LogError:
    message = (
        f"{source} is read from the server {record.server}, at {record.position}, and another one answers: {server}"
    )
    hint = (
        "let `host` and `port` of the source lead to the server that it was; to go on with this one: "
        f"penstock failover FILE {source} --to HOST:PORT"
    )
    return LogError(message, hint)


def _with_foreign(parts: CaptureParts, record: CaptureRecord) -> dict[str, StoppedTable]:
    """Return the tables that have stopped by `record`, with those to whose topics somebody else has written since.

    Whatever is committed next has to have them.
    """
    topics = {each.topic: str(each.table) for each in parts.table_catalog.announced()}
    # Nobody reads a topic on that a table had before, or one of a table that has ended.
    found = {topics[topic]: why for topic, why in parts.publisher.take_foreign().items() if topic in topics}
    place = str(record.position)
    new = {table: StoppedTable(place, error.message, bring_back(table)) for table, error in found.items()}
    return {**new, **record.stopped}


def _with_left_out(
    parts: CaptureParts, record: CaptureRecord, stopped: Mapping[str, StoppedTable]
) -> dict[str, StoppedTable]:
    """Return `stopped` with the tables that are announced and not to be carried now.

    What becomes of them from here on is passed by: should they be asked for again, their rows are not known.
    """
    place, catalog = str(record.position), parts.table_catalog
    announced = [each for each in catalog.announced() if not catalog.wanted(each.table)]
    return {**{str(each.table): _left_out(each, place, catalog.connector) for each in announced}, **stopped}


def _left_out(told: SchemaChange, place: str, connector: str) -> StoppedTable:
    error = f"table {told.table} was left out of `tables` at {place}: its changes from there on were not carried"
    again = f"type: penstock snapshot FILE {shell_word(told.table)}"
    if told.key_schema_id is None:
        again = f"{again} --full-lock" if connector == "mysql" else f"give {told.table} a primary key, and {again}"
    return StoppedTable(place, error, f'{again}; or leave it out again with "!{told.table}"')


def committed_record(publisher: Publisher) -> CaptureRecord | None:
    """Return the link's newest record, None before its first."""
    record = publisher.position()
    return None if record is None else CaptureRecord.from_mapping(record)


def schema_change_messages(topic: str, schema_changes: Sequence[SchemaChange]) -> list[Messages]:
    """Schema-change events as messages of the schemas topic; none for none."""
    if not schema_changes:
        return []
    return [
        Messages(
            topic=topic,
            keys=pa.array([str(a.table).encode() for a in schema_changes], pa.binary()),
            values=pa.array([a.to_json() for a in schema_changes], pa.binary()),
            order=np.arange(len(schema_changes), dtype=np.int64),
        )
    ]


def _gone(table: str, why: StoppedTable) -> StoppedTable:
    """What is told of a table that went after it had stopped: what stopped it cannot be mended any more."""
    error = f"table {table} stopped at {why.position}, and was dropped or got another name since"
    return StoppedTable(why.position, error, nothing_left(table))
