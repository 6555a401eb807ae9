"""The snapshots of one capture: chunks are read beside the live changes, and published between two publications.

Everything that is done with a chunk, and how far the snapshot is then, is one
commit of the capture, so a crash leaves either both or none. Between two commits
nothing but the rows of a chunk that is read is held in memory.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, assert_never

from penstock.core.errors import PenstockError, UnavailableError, UsageError
from penstock.core.snapshots import CANCELLED, Method, SnapshotProgress, Status, Wanted, Window, require_key
from penstock.core.tables import TableId
from penstock.links.capture.chunk_messages import GivesWayInPartError, SnapshotError, chunk_messages, require_came
from penstock.links.capture.refresher_state import Locked, Near, Reading, is_first, near_since
from penstock.links.capture.rereads import ask_for_rereads, end_unread, paused_tables
from penstock.links.capture.table_return import announce_anew, require_may_begin
from penstock.ports.snapshots import Chunk, Definition

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from penstock.core.log_items import LoggedStatement
    from penstock.core.positions import Position
    from penstock.core.publication import Publication
    from penstock.links.capture.open_capture import OpenCapture
    from penstock.links.capture.refresher_state import Known, Start, What
    from penstock.ports.snapshots import RowReader, Snapshot, SnapshotList

_LOOK_SECONDS = 1.0
_ATTEMPTS_MAX = 10
_PAUSE_SECONDS_MAX = 30.0
_SMALLER = 4


class Refresher:
    """Carries one snapshot after the other, the oldest first; it is told of all that its capture publishes.

    Several may serve a capture, and share what they know: each takes snapshots that no other one has,
    or chunks of one that has begun.

    What goes wrong with a snapshot ends it, or is tried again later, and never
    the capture. A snapshot that ends before a table that it fills has all its
    rows stops that table.
    """

    def __init__(
        self, capture: OpenCapture, reader: RowReader, snapshots: SnapshotList, start: Start, known: Known
    ) -> None:
        """Serve `capture`: what `start` runs uses `reader`, and nobody else does."""
        self._capture = capture
        self._reader = reader
        self._list = snapshots
        self._start = start
        self._current: Snapshot | None = None
        self._ready: frozenset[str] = frozenset()
        self._reading: Reading | None = None
        self._locked: Locked | None = None
        self._near: Near | None = None
        self._known = known
        self._look_at = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether a snapshot is to go on, or may be; one that waits for something else does so another time as well."""
        waiting = self._known.waiting
        goes_on = self._current is not None and bool(self._ready - waiting.keys())
        rereads = self._capture.rereads.keys() - self._known.paused - set(waiting.values())
        return goes_on or bool(rereads) or not self._look_at

    def step(self, boundary: Position) -> None:
        """Go on as far as nothing has to be waited for. The log is read up to `boundary`, and that published."""
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_SECONDS
            self._look(boundary)
        if self._reading is not None:
            self._take(self._reading, boundary)
        if self._reading is None and self._current is not None:
            self._begin(self._current, boundary)

    def saw(self, publication: Publication) -> None:
        """Note what was published; its rows are newer than those of a chunk that is being read."""
        if publication.rereads:
            self._look_at = 0.0
        if self._locked is not None and any(m.topic == self._locked.topic and len(m) for m in publication.messages):
            self._locked.window.void()
        if self._reading is not None:
            for messages in publication.messages:
                if messages.topic == self._reading.topic:
                    self._reading.window.saw(messages.lists()[0])
            self._reading.window.saw_parts(publication.parts.get(self._reading.topic, ()))

    def saw_statement(self, statement: LoggedStatement) -> None:
        """Note that the capture is past a statement."""
        for each in (self._reading, self._locked):
            if each is not None and self._capture.parts.statements.concerns(statement, each.table):
                each.window.void()

    def saw_end(self, table: TableId) -> None:
        """Note that a table is gone: what was read of it is of no use."""
        if self._reading is not None and self._reading.table == table:
            self._reading.window.void()

    def close(self) -> None:
        """Let go of the source, now and behind what is under way there, which may be a lock, and does not count."""
        is_under_way = self._reading is not None and not self._reading.future.done()
        self._let_go()
        self._locked = None
        try:
            self._reader.close()
        finally:
            if is_under_way:
                self._start(self._reader.close)

    def _look(self, boundary: Position) -> None:
        """See what is asked for, and bring what the state database says of us up to what is committed."""
        try:
            self._known.tell_fates(self._list)
            found = {s.id: s for s in self._list.all(self._capture.parts.table_catalog.source, is_open=True)}
            self._known.paused = paused_tables(found.values())
            asked = ask_for_rereads(self._capture, self._list, found.values(), boundary)
            found |= {snapshot.id: snapshot for snapshot in asked}
            for id_, progress in list(self._capture.snapshots.items()):
                self._reconcile(id_, progress, found.pop(id_, None) if progress.is_done else found.get(id_), boundary)
            known, at = self._known, self._capture.snapshots
            found = {id_: each for id_, each in found.items() if known.may_take(each, self, at.get(id_))}
            for snapshot in list(found.values()):
                if snapshot.wanted is Wanted.CANCEL:
                    self._end(found.pop(snapshot.id), Status.CANCELLED, boundary)
                elif snapshot.wanted is Wanted.PAUSE and snapshot.status is not Status.PAUSED:
                    known.waits(snapshot.id)
                    self._tell(replace(snapshot, status=Status.PAUSED))
        except UnavailableError:
            # Without the state database what is under way goes on.
            return
        now = time.monotonic()
        ready = [s for s in found.values() if s.wanted is Wanted.RUN and known.has_room(s.id, self) and is_first(s, at)]
        locked = None if self._locked is None else self._locked.snapshot
        # Nobody waits longer than needs be for a table that is locked.
        order = {s.id: (locked is None or s.id != locked.id, *known.turn(s.id, self, now)) for s in ready}
        self._ready = frozenset(order)
        self._current = min(ready, key=lambda s: order[s.id], default=None)
        if self._reading is not None and self._reading.snapshot.id not in order:
            self._unlock(self._reading.snapshot)
            self._let_go()
        elif locked is not None and locked.id not in order:
            self._unlock(locked)
        self._take_over()

    def _take_over(self) -> None:
        """Have other refreshers leave to us what we are at, and nothing else."""
        read = None if self._reading is None else self._reading.snapshot
        self._known.take({each.id for each in (self._current, read) if each is not None}, self)

    def _let_go(self) -> None:
        """Leave what was being read to whoever comes next."""
        if self._reading is not None and self._reading.key_range is not None:
            self._reading.key_range.is_taken = False
        self._reading = None

    def _reconcile(self, id_: str, progress: SnapshotProgress, known: Snapshot | None, boundary: Position) -> None:
        if progress.is_done:
            if known is not None:
                self._list.tell(replace(known, status=Status.DONE, rows=progress.rows, error="", hint=""))
            # The next record leaves it out. Before it was told it would begin again.
            del self._capture.snapshots[id_]
        elif known is None:
            reason = "the state database knows nothing of its snapshot any more"
            end_unread(self._capture, id_, progress, reason, boundary)

    def _begin(self, snapshot: Snapshot, boundary: Position) -> None:
        known = self._known
        if known.not_before.get(snapshot.id, 0.0) > time.monotonic() or self not in known.taken.get(snapshot.id, ()):
            return
        table, table_catalog = TableId.parse(snapshot.table), self._capture.parts.table_catalog
        progress = self._capture.snapshots.get(snapshot.id)
        is_carried = table_catalog.schema_change(table) is not None and str(table) not in self._capture.stopped
        locks = snapshot.options.method is Method.FULL_LOCK
        is_new = progress is None or (progress.mends and not progress.fills)
        begins = not self._has_locked(snapshot) if locks else snapshot.options.full_refresh and is_new
        question: Callable[[], What]
        is_probe, key_range = False, None
        try:
            if begins or not is_carried:
                require_may_begin(self._capture, snapshot, None if is_carried else progress)
                is_probe = locks and (self._near is None or not self._near.holds(snapshot))
                if locks and not is_probe:
                    # The reader lets go of what it had locked.
                    self._locked = self._near = None
                define = partial(self._reader.define, table, boundary, snapshot.options)
                topic, question = "", partial(self._reader.lock, table, boundary) if locks and not is_probe else define
            else:
                encodable, topic = table_catalog.encodable(table)
                if not locks:
                    require_key(encodable.schema)
                if snapshot.options.method is Method.BLACKHOLE and progress is None:
                    # Who reads the log must know whose rows come.
                    progress = self._capture.snapshots[snapshot.id] = SnapshotProgress(snapshot.table)
                    self._capture.advance(boundary)
                key_range = known.plan(snapshot.id, progress).take(known.chunks_max)
                if key_range is None:
                    # Others are at all that is left.
                    return
                order = known.order(snapshot, encodable.schema, key_range, boundary)
                question = partial(self._reader.read, order)
        except UsageError as error:
            self._end(snapshot, Status.FAILED, boundary, error)
        else:
            began = time.monotonic()
            future: Future[What] = self._start(question)
            self._reading = Reading(snapshot, table, topic, future, Window(), began, is_probe, key_range)

    def _has_locked(self, snapshot: Snapshot) -> bool:
        locked = self._locked
        return locked is not None and locked.snapshot.id == snapshot.id and self._reader.holds(locked.table)

    def _see_how_near(self, reading: Reading) -> None:
        """Have the table locked next, unless the capture is far behind: those who write would wait for it."""
        try:
            self._near = near_since(reading)
        except UnavailableError as error:
            # This is no failed try.
            self._tell(replace(reading.snapshot, status=Status.RUNNING, error=error.message, hint=error.hint))

    def _unlock(self, snapshot: Snapshot) -> None:
        """Let go of the table if `snapshot` has locked it; whoever wants it still begins again."""
        if snapshot.options.method is not Method.FULL_LOCK:
            return
        reading = None if self._reading is None or self._reading.is_probe else self._reading
        at = [each.snapshot for each in (self._locked, reading) if each is not None]
        if self._locked is not None and self._locked.snapshot.id == snapshot.id:
            self._locked = None
        # The reader has one lock, which may be that of another table.
        if not any(each.id != snapshot.id and each.options.method is Method.FULL_LOCK for each in at):
            self._start(self._reader.release)

    def _take(self, reading: Reading, boundary: Position) -> None:
        """Take what was read, once the log is read up to its high place."""
        if not reading.future.done():
            return
        if reading.window.is_void or not self._known.counts(reading):
            # It is read again, unless the snapshot has ended or begun again.
            self._let_go()
            return
        # While it is being locked there is no topic yet.
        is_under_lock = bool(reading.topic) and reading.snapshot.options.method is Method.FULL_LOCK
        if is_under_lock and (self._locked is None or self._locked.window.is_void):
            self._let_go()
            message = f"the lock of {reading.table} was lost, and the table written to, before all of it was read"
            self._fail(reading, UnavailableError(message, "it is locked again, and begun again"), boundary)
            return
        try:
            found = reading.future.result()
        except PenstockError as error:
            self._let_go()
            self._fail(reading, error, boundary)
            return
        if boundary.order < found.high.order:
            return
        self._let_go()
        try:
            match found:
                case Definition() if reading.is_probe:
                    self._see_how_near(reading)
                case Definition():
                    self._return_table(reading.snapshot, found, boundary)
                case Chunk():
                    self._publish(reading, found, boundary)
                case _:
                    assert_never(found)
        except SnapshotError as error:
            self._fail(reading, error.cause, boundary)

    def _return_table(self, snapshot: Snapshot, found: Definition, boundary: Position) -> None:
        """Begin a table that had stopped or is new without rows; live changes of it flow from here on."""
        try:
            schema_change = announce_anew(self._capture, found, boundary, snapshot.options)
        except UsageError as error:
            raise SnapshotError(error) from error
        link = snapshot.options.link
        self._capture.snapshots[snapshot.id] = SnapshotProgress(snapshot.table, fills=not link, link=link)
        self._known.begins_again(snapshot.id)
        if link:
            self._capture.tell(boundary, schema_change)
        else:
            self._capture.begin_anew(boundary, schema_change)
        if snapshot.options.method is Method.FULL_LOCK:
            self._locked = Locked(snapshot, found.schema.table, schema_change.topic, Window())

    def _publish(self, reading: Reading, chunk: Chunk, boundary: Position) -> None:
        snapshot = reading.snapshot
        if chunk.waits is not None:
            # This is no failed try.
            self._known.waits(snapshot.id)
            self._known.waiting[snapshot.id] = snapshot.table
            self._known.not_before[snapshot.id] = time.monotonic() + _LOOK_SECONDS
            error = chunk.waits
            self._tell(replace(snapshot, status=Status.RUNNING, error=error.message, hint=error.hint))
            return
        self._known.waiting.pop(snapshot.id, None)
        before = self._capture.snapshots.get(snapshot.id) or SnapshotProgress(snapshot.table)
        if chunk.begins_again:
            self._capture.snapshots[snapshot.id] = before.again()
            self._known.begins_again(snapshot.id)
            return
        require_came(self._capture, snapshot, chunk)
        try:
            messages = chunk_messages(self._capture, reading.table, chunk, reading.window, boundary)
        except GivesWayInPartError as error:
            self._read_less(reading, boundary, error)
            return
        if snapshot.id in self._known.chunk_rows:
            more = self._known.chunk_rows[snapshot.id] * _SMALLER
            self._known.chunk_rows[snapshot.id] = min(more, snapshot.options.chunk_rows)
        read = chunk.copied + sum(len(batch) for batch in (chunk.rows, chunk.gone) if batch is not None)
        after = before.after(read, self._known.left_after(reading, chunk))
        self._capture.snapshots[snapshot.id] = after
        count = sum(map(len, messages))
        self._capture.refresh(boundary, messages, {snapshot.table: (count, 0)} if count else {})
        if after.is_done:
            self._known.forget(snapshot.id)
            self._unlock(snapshot)
        if after.is_done or snapshot.options.method is not Method.FULL_LOCK:
            self._known.failures.pop(snapshot.id, None)
        if snapshot.options.rows_per_second:
            self._known.not_before[snapshot.id] = time.monotonic() + read / snapshot.options.rows_per_second
            # While it waits another one goes on.
            self._look_at = 0.0
        self._note(reading, after, chunk.rows_expected)

    def _read_less(self, reading: Reading, boundary: Position, cause: Exception) -> None:
        """Read a smaller chunk, which is read sooner; of one row alone, try again later."""
        snapshot = reading.snapshot
        count = self._known.chunk_rows.get(snapshot.id, snapshot.options.chunk_rows)
        self._known.chunk_rows[snapshot.id] = max(1, count // _SMALLER)
        if count == 1:
            message = f"a row of {snapshot.table} changes whenever it is read, and the log lacks values of it"
            error = UnavailableError(message, "take the snapshot when that row is written less often")
            error.__cause__ = cause
            self._fail(reading, error, boundary)

    def _note(self, reading: Reading, progress: SnapshotProgress, expected: int | None) -> None:
        """Tell how far it is: at once when it begins and when it is done, else not for every chunk."""
        snapshot, current = reading.snapshot, self._known.noted(reading, progress, expected)
        if self._current is not None and self._current.id == snapshot.id:
            self._current = None if progress.is_done else current
        if progress.is_done or time.monotonic() >= self._known.tell_at.get(snapshot.id, 0.0):
            self._known.tell_at[snapshot.id] = time.monotonic() + _LOOK_SECONDS
            self._tell(current)
        if progress.is_done:
            self._look_at = 0.0

    def _fail(self, reading: Reading, error: PenstockError, boundary: Position) -> None:
        """Try again later, if that may help, or end the snapshot."""
        snapshot, failures = reading.snapshot, self._known.failed(reading)
        self._unlock(snapshot)
        if not error.retryable or failures >= _ATTEMPTS_MAX:
            self._end(snapshot, Status.FAILED, boundary, error)
            return
        self._known.waits(snapshot.id)
        self._known.not_before[snapshot.id] = time.monotonic() + min(2.0 ** (failures - 2), _PAUSE_SECONDS_MAX)
        self._tell(replace(snapshot, status=Status.RUNNING, error=error.message, hint=error.hint))

    def _end(self, snapshot: Snapshot, status: Status, boundary: Position, error: PenstockError | None = None) -> None:
        """End a snapshot before it is whole."""
        if self._reading is not None and self._reading.snapshot.id == snapshot.id:
            self._let_go()
        self._current = None
        self._known.forget(snapshot.id)
        self._unlock(snapshot)
        progress = self._capture.snapshots.get(snapshot.id)
        if progress is not None:
            reason = CANCELLED if error is None else error.message
            try:
                end_unread(self._capture, snapshot.id, progress, reason, boundary)
            except UnavailableError:
                # Without the Schematizer its table cannot be stopped: it ends at one of the next looks, or tries.
                self._known.not_before[snapshot.id] = time.monotonic() + _LOOK_SECONDS
                return
        if snapshot.options.method is Method.BLACKHOLE:
            self._start(partial(self._reader.sweep, snapshot.id.__eq__))
        said, hint = (CANCELLED if snapshot.options.link else "", "") if error is None else (error.message, error.hint)
        self._known.fates[snapshot.id] = replace(snapshot, status=status, error=said, hint=hint)
        self._look_at = 0.0
        with suppress(UnavailableError):
            self._known.tell_fates(self._list)

    def _tell(self, snapshot: Snapshot) -> None:
        """Write down how a snapshot is; if the state database is away, the next look does."""
        try:
            self._list.tell(snapshot)
        except UnavailableError:
            self._look_at = 0.0
