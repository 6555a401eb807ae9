"""Targets that come when files are gone: where they begin, and snapshots of what they lack."""

from __future__ import annotations

from collections import Counter
from contextlib import closing, suppress
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from penstock.config.link_tables import one_schema
from penstock.core.batches import read_batch
from penstock.core.commands import shell_word
from penstock.core.errors import UsageError
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.snapshots import Method, SnapshotOptions, Status, Wanted
from penstock.core.tables import TableId
from penstock.links.objects.retention import Kept
from penstock.links.warehouse.filling import Lack
from penstock.links.warehouse.set_aside import UNFILLED
from penstock.ports.state import LACKS_ROWS
from penstock.wiring.batch_messages import read_batch_messages, read_objects_record
from penstock.wiring.carried_requests import carries
from penstock.wiring.open import (
    OBJECTS_LINK,
    batch_topic,
    committed_end,
    open_snapshot_list,
    open_topic_log,
    settled_end,
)
from penstock.wiring.refreshing import new_snapshot
from penstock.wiring.schemas_topic import read_schemas_topic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from penstock.adapters.kafka.reader import TopicReader
    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.core.batches import Batch
    from penstock.core.schema_changes import SchemaChange
    from penstock.links.objects.record import ObjectsRecord
    from penstock.ports.snapshots import Snapshot
    from penstock.ports.topics import TopicLog

_WITHOUT_ROWS: Final = b'"rows": 0,'
"""What is in every message that announces something: a long topic is read without parsing the others."""


def fills_of(spec: PipelineSpec, link: LinkSpec, record: ObjectsRecord) -> SnapshotFills | None:
    """What fills the target of `link`; None for that of a join, of which there are no snapshots."""
    return SnapshotFills(spec, link, record) if link.source in _captured(spec) else None


def kept_for(spec: PipelineSpec, link: LinkSpec, record: ObjectsRecord) -> Kept:
    """What there is of what `link` loads: files and messages of joins are not deleted."""
    files_from = record.files_from if link.source in _captured(spec) else record.kept_from
    return Kept(files_from, record.batches_from)


def deleted_topics(spec: PipelineSpec, log: TopicLog, record: ObjectsRecord) -> Collection[str]:
    """The topics whose files may be deleted, as a snapshot brings their rows: of captured tables with a key.

    Raises UnavailableError where not all events are read that `record` has passed on.
    """
    captured = _captured(spec)
    told = [change for _, change in read_schemas_topic(spec, log, record.told_to)]
    keyless = {change.topic for change in told if change.key_schema_id is None}
    return {change.topic for change in told if change.source in captured} - keyless


def open_fills(spec: PipelineSpec) -> set[str]:
    """The ids of snapshots that bring rows to a target of one link, and are to go on."""
    if not spec.kafka.transactions:
        return set()
    with closing(open_snapshot_list(spec)) as snapshots:
        is_open = snapshots.all(is_open=True)
    return {each.id for each in is_open if each.options.link and each.wanted is Wanted.RUN}


class SnapshotFills:
    """The `Fills` of a link from a source."""

    def __init__(self, spec: PipelineSpec, link: LinkSpec, record: ObjectsRecord) -> None:
        """Serve `link`; `record` says which files are there."""
        self._spec = spec
        self._link = link
        self._record = record
        self._told: Mapping[TableId, list[tuple[int, SchemaChange]]] = {}
        self._ahead: dict[TableId, int] = {}

    @property
    def are_taken(self) -> bool:
        """See `Fills`."""
        return self._spec.kafka.transactions

    def beginning(self) -> tuple[int, Mapping[TableId, int]]:
        """See `Fills`: at the end of the batch topic."""
        with closing(open_topic_log(self._spec)) as log:
            end = settled_end(log, batch_topic(self._spec))
            tables = self._nameable(self._begun(log, end))
        # Those that the link leaves out are lacked too, should the file have it load them later.
        return end, {table: self._waits_at(table) if self._carries(table) else UNFILLED for table in sorted(tables)}

    def begun(self, loaded_to: int) -> Mapping[TableId, int | None]:
        """See `Fills`. The batch topic is read from there on alone: it says which events are not to be counted yet."""
        tables: set[TableId] = set()
        with closing(open_topic_log(self._spec)) as log:
            self._read(log)
            end = committed_end(self._spec, log, OBJECTS_LINK, batch_topic(self._spec))
            announced = (batch for _, batch in self._announced(log, loaded_to, end))
            ahead = Counter((batch.table, batch.kind, batch.first_order) for batch in announced)
        passed = []
        for change in reversed(self._passed()):
            event = (change.table, change.kind, change.order)
            if ahead[event]:
                ahead[event] -= 1
            else:
                passed.append(change)
        for change in reversed(passed):
            _begin_or_end(tables, change)
        begun = sorted(self._nameable(tables))
        return {table: self._waits_at(table) if self._carries(table) else None for table in begun}

    def files_from(self, table: TableId) -> int:
        """See `Fills`. What became of the table behind the files that are gone says nothing of those before."""
        return self._record.files_from if table in self._lost else self._record.kept_from

    @cached_property
    def _lost(self) -> Collection[TableId]:
        """Tables of which files are gone: from a topic with a key, or under the name from which their rows came.

        Messages of a table that began without a key are all there. Of one that began with a
        key files may be gone wherever its target waits before `files_from`, whether its messages are there or not.
        """
        with closing(open_topic_log(self._spec)) as log:
            self._read(log)
            keyless = {change.topic for told in self._told.values() for _, change in told if not _has_key(change)}
            batches = [batch for _, batch in self._announced(log, self._record.batches_from, self._record.files_from)]
        moved = {TableId.parse(move.table) for batch in batches for move in batch.moves}
        keyed = {table for table, told in self._told.items() if _has_key(told[0][1])}
        return keyed | moved | {batch.table for batch in batches if batch.topic not in keyless}

    def _waits_at(self, table: TableId) -> int:
        """Where a table waits of which all files are there, and which can be read from them alone; else UNFILLED."""
        told = [change for _, change in self._told_of(table)]
        is_renamed = any(change.kind is SchemaChangeKind.RENAME for change in told)
        is_gone = bool(self._record.files_from) and any(_has_key(change) for change in told)
        is_whole = bool(told) and not is_renamed and not is_gone and not self._record.kept_from
        return self._record.batches_from if is_whole else UNFILLED

    def ask(self, tables: Collection[TableId], loaded_to: int) -> Mapping[TableId, Lack]:
        """See `Fills`."""
        carried = [table for table in sorted(tables) if self._carries(table)]
        if not self.are_taken:
            why = f"{LACKS_ROWS}, and without transactions there are no snapshots"
            return dict.fromkeys(carried, Lack(why, "set kafka.transactions: true again, or leave it out of the link"))
        with closing(open_snapshot_list(self._spec)) as snapshots:
            asked = snapshots.all(self._link.source)
            mine = {each.table: each for each in asked if self._is_mine(each)}
            lacks = {table: self._lack(table, mine.get(str(table))) for table in carried}
            busy = {each.table for each in asked if not each.status.has_ended}
            idle = [table for table, lack in lacks.items() if not lack.hint and str(table) not in busy]
            for table in self._without_beginning(idle, loaded_to):
                options = SnapshotOptions(full_refresh=True, link=self._link.name)
                # Another link may be quicker: then it is asked for when that one's is over.
                with suppress(UsageError):
                    snapshots.add(new_snapshot(self._link.source, str(table), options))
        return lacks

    def _nameable(self, tables: Collection[TableId]) -> Collection[TableId]:
        """Those of `tables` that the target can name: that of a link with a `schema` has tables of one alone."""
        if self._link.target_schema is None:
            return tables
        origin = one_schema(self._spec.source(self._link.source).tables, self._link.tables)
        return [table for table in tables if table.schema == origin]

    def _carries(self, table: TableId) -> bool:
        return carries(self._spec, self._link, table)

    def _is_mine(self, snapshot: Snapshot) -> bool:
        """Whether a table that the target lacks begins there with `snapshot`: rereads and other links' are no news."""
        options = snapshot.options
        locks = options.method is Method.FULL_LOCK and not snapshot.status.has_ended
        return options.link == self._link.name or (not options.link and (options.full_refresh or locks))

    def _lack(self, table: TableId, newest: Snapshot | None) -> Lack:
        """Say why a table lacks its rows; `newest` is the newest snapshot with which it could begin."""
        gone = f": files of batches before {self._record.files_from} were deleted" if self._record.files_from else ""
        if newest is not None and not newest.status.has_ended:
            return Lack(f"{LACKS_ROWS}, and waits for its snapshot{gone}")
        way = f"type: penstock snapshot FILE {shell_word(table)} --full-refresh --link {self._link.name}"
        if newest is not None and newest.status is not Status.DONE:
            why = f"failed: {newest.error}" if newest.status is Status.FAILED else "was cancelled"
            return Lack(f"{LACKS_ROWS}, and its snapshot {why}", f"{newest.hint}; then {way}" if newest.hint else way)
        if self._is_keyless(table):
            words = "(MySQL and MariaDB: it begins anew in all targets)"
            way = f"type: penstock snapshot FILE {shell_word(table)} --full-lock {words}"
            return Lack(f"{LACKS_ROWS}, and without a primary key it gets no snapshot by itself{gone}", way)
        if self._spec.source(self._link.source).snapshot == "never":
            return Lack(f"{LACKS_ROWS}, and `snapshot` of its source is never{gone}", way)
        return Lack(f"{LACKS_ROWS}, and waits for its snapshot{gone}")

    def _without_beginning(self, tables: Collection[TableId], loaded_to: int) -> Sequence[TableId]:
        """Those of `tables` that begin nowhere ahead of the target, whether files have come there or not."""
        found = [table for table in tables if self._ahead.get(table, -1) < loaded_to]
        if not found:
            return ()
        with closing(open_topic_log(self._spec)) as log:
            self._read(log)
            passed = read_objects_record(self._spec, log)
            end = committed_end(self._spec, log, OBJECTS_LINK, batch_topic(self._spec))
            for offset, batch in self._announced(log, loaded_to, end):
                if batch.seen_by(self._link.name).kind is SchemaChangeKind.CREATE:
                    self._ahead[batch.table] = offset
        coming = self._coming(passed)
        return [table for table in found if table not in coming and self._ahead.get(table, -1) < loaded_to]

    def _coming(self, record: ObjectsRecord) -> set[TableId]:
        """The tables that begin with an event that is not passed on by `record`."""
        return {
            table
            for table, told in self._told.items()
            for offset, change in told
            if not record.has_passed(offset)
            and (change.kind is SchemaChangeKind.CREATE or change.begins_for == self._link.name)
        }

    def _is_keyless(self, table: TableId) -> bool:
        told = self._told_of(table)
        return bool(told) and not _has_key(told[-1][1])

    def _begun(self, log: TopicReader, end: int) -> set[TableId]:
        """The tables that have begun before `end` of the batch topic, and have not ended there.

        Of what the schemas topic tells the record knows what was passed on: all that stood in
        messages which are gone, and nothing behind `end`. The messages that there are say the rest.
        What is among both is done twice, the last of each table last, which changes nothing.
        """
        tables: set[TableId] = set()
        self._read(log)
        for change in self._passed():
            _begin_or_end(tables, change)
        for _, batch in self._announced(log, self._record.batches_from, end):
            _begin_or_end(tables, batch)
        return tables

    def _passed(self) -> Sequence[SchemaChange]:
        """What was read of the schemas topic and was passed on by the record, in order."""
        told = sorted((each for told in self._told.values() for each in told), key=itemgetter(0))
        return [change for offset, change in told if self._record.has_passed(offset)]

    def _announced(self, log: TopicReader, start: int, end: int) -> Iterator[tuple[int, Batch]]:
        """What the batch topic announces of tables of the link's source."""
        for messages in read_batch_messages(self._spec, log, start, end) if start < end else ():
            for offset, message in messages:
                if _WITHOUT_ROWS in message:
                    batch = read_batch(offset, message)
                    if batch.source == self._link.source:
                        yield offset, batch

    def _told_of(self, table: TableId) -> Sequence[tuple[int, SchemaChange]]:
        if table not in self._told:
            with closing(open_topic_log(self._spec)) as log:
                self._read(log)
        return self._told.get(table, ())

    def _read(self, log: TopicReader) -> None:
        told: dict[TableId, list[tuple[int, SchemaChange]]] = {}
        for offset, change in read_schemas_topic(self._spec, log, self._record.told_to):
            if change.source == self._link.source:
                told.setdefault(change.table, []).append((offset, change))
        self._told = told


def _captured(spec: PipelineSpec) -> set[str]:
    return {source.name for source in spec.sources}


def _begin_or_end(tables: set[TableId], change: SchemaChange | Batch) -> None:
    """Add to the `tables` that have begun, or take away, what a statement has made of them."""
    origins = {TableId.parse(move.origin) for move in change.moves}
    names = {TableId.parse(move.table) for move in change.moves}
    tables.add(change.table)
    tables -= origins - names
    if change.kind is SchemaChangeKind.DROP:
        tables.discard(change.table)


def _has_key(change: SchemaChange) -> bool:
    return change.key_schema_id is not None
