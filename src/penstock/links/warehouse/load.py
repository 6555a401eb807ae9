"""Loading batches into one sink, table by table."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog

from penstock.config.crash_points import CrashPoint
from penstock.core.avro.schemas import table_schema
from penstock.core.batches import BatchOffset, read_batch
from penstock.core.errors import TableStoppedError
from penstock.core.publication import count_rows
from penstock.links.counts import CarriedRows
from penstock.links.objects.retention import ALL_KEPT, Kept
from penstock.links.warehouse.filling import Filling
from penstock.links.warehouse.lacking_since import note_lack, settle_lacks
from penstock.links.warehouse.last_message import require_loaded
from penstock.links.warehouse.set_aside import DROPPED, UNFILLED, SetAside, Waited
from penstock.links.warehouse.side_by_side import SideBySide
from penstock.links.warehouse.skipping import Passed
from penstock.links.warehouse.tied_tables import moves_left, needed_rows, tied_stops
from penstock.ports.state import TRIED_AGAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, MutableSet

    from penstock.core.batches import Batch, BatchMessages, ReadBatches
    from penstock.core.tables import TableId, TableSchema
    from penstock.links.warehouse.filling import Fills
    from penstock.links.warehouse.skipping import ChangeSkipper
    from penstock.links.warehouse.table_control import TableControl
    from penstock.ports.registry import Registry
    from penstock.ports.sink import Loaded, Sink
    from penstock.ports.state import State
    from penstock.ports.table_actions import SkippedChange

_log = structlog.get_logger()

_BATCHES_AT_ONCE = 500
_CATCH_UP_SECONDS = 10.0
"""How long the others wait at most for tables that are read again, but for a load that is under way."""
_TICK_SECONDS = 1.0
_GATHERED_ROWS_MAX = 1_000
"""After so few the target need not be told at once how far the link is: tables have their own positions."""
_FINISHED = CrashPoint(
    "load.finished", "tables and the batch topic's offset are committed, the figures of status are not"
)


class WarehouseLoader:
    """Loads the batch topic into a sink. A table that cannot go on waits; the others do not.

    Nothing of a table that waits is kept in memory: the target remembers from which
    offset on it is to be read again, and the others go on without it.
    """

    def __init__(
        self,
        link: str,
        sink: Sink | Sequence[Sink],
        registry: Registry,
        state: State,
        wanted: Callable[[str, TableId], bool],
        read: ReadBatches,
    ) -> None:
        """Load into `sink` the tables that are `wanted`, asked by source and table; `read` tables that waited.

        Several sinks of one target load tables side by side, a table in one of
        them at a time.
        """
        sinks = sink if isinstance(sink, Sequence) else [sink]
        self._link = link
        self._sink = sinks[0]
        self._side_by_side = SideBySide(sinks)
        self._registry = registry
        self._state = state
        self._counts = CarriedRows(link, state)
        self._wanted = wanted
        self._read = read
        self._control: TableControl | None = None
        self._filling = Filling(link, state, None)
        self._aside = SetAside()
        self._remembered: dict[TableId, int] = {}
        self._next, self._loaded = 0, BatchOffset(0)
        self._anew: set[TableId] = set()
        self._finished_next, self._finished_at = 0, 0.0
        self._notes: dict[TableId, str] = {}
        self._publish_token = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, kept: Kept = ALL_KEPT, control: TableControl | None = None, fills: Fills | None = None) -> int:
        """Return the offset of the batch topic to read from; tables that wait are tried again.

        `control`, which `close` closes, brings what people ask for of single tables; with `fills` a new
        target is filled by snapshots where files are gone. Raises PositionError where another needs these,
        or the batch topic is not the one that it has loaded from.
        """
        self._control, self._filling = control, Filling(self._link, self._state, fills)
        require_loaded(self._link, self._sink.batch_offset(), self._read, kept.batches_from)
        self._filling.begin(self._sink, kept)
        self._loaded = BatchOffset.of(self._sink.batch_offset())
        self._next = self._finished_next = int(self._loaded)
        # Who sets the link's offset back has everything read from there.
        self._remembered = {table: at for table, at in self._sink.waiting().items() if at < self._next}
        self._aside = SetAside(self._remembered)
        settle_lacks(self._state, self._link, self._aside)
        if self._control is not None:
            self._control.begin(self, self._sink)
        self._filling.ask(self._aside.forgotten(UNFILLED), self._next)
        self._counts.add({}, self._next)
        # A message that is in comes again: without any, nothing would try the tables that wait.
        waits = any(offset >= 0 for offset in self._remembered.values())
        return max(kept.batches_from, self._next - 1) if waits else self._next

    def keep_trying(self, failed: Callable[[BaseException], None]) -> None:
        """Try tables that wait again also while no messages come, in a thread of its own until `close`.

        `failed` is told what ends it, which is nothing that is about a table alone.
        """
        self._thread = threading.Thread(target=self._keep_trying, args=[failed], name="try again", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let go of the sinks and the registry."""
        self._closing.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
            # What is in the target counts, whatever ended the link.
            self._counts.add({})
        if self._control is not None:
            self._control.close()
        self._side_by_side.close()
        self._registry.close()

    def load(self, messages: BatchMessages) -> int:
        """Load (offset, batch message) pairs, in order, and what tables lack whose turn has come. Return new rows."""
        with self._publish_token:
            self._obey()
            loaded = self._pass(messages, None)
            if messages:
                self._loaded = max(BatchOffset.behind(*messages[-1]), self._loaded)
                self._next = int(self._loaded)
                if self._may_gather(loaded):
                    self._counts.gather(loaded)
                else:
                    self._finish(loaded)
            return _sum_rows(loaded) + self._catch_up()

    def pause_table(self, table: TableId) -> None:
        """See `ControlledLoader`."""
        if not self._aside.is_refused(table):
            note_lack(self._state, self._link, table)
        self._aside.pause(table, self._next)
        self._finish({})

    def release_table(self, table: TableId) -> Waited:
        """See `ControlledLoader`."""
        return self._aside.try_now(table)

    def drop_table(self, table: TableId) -> None:
        """See `ControlledLoader`."""
        self._aside.forget(table, DROPPED)
        self._anew.add(table)
        self._finish({})
        self._state.resume_table(self._link, str(table))

    def forgotten(self, how: int) -> Collection[TableId]:
        """See `ControlledLoader`."""
        return self._aside.forgotten(how)

    def skip_change(self, table: TableId, skipper: ChangeSkipper, kept: SkippedChange | None) -> Passed:
        """See `ControlledLoader`. It looks through 500 batches from where the table waits."""
        if self.release_table(table) is Waited.NOT:
            told = "it has not stopped here, so there is no change to pass over"
            return Passed(0, "" if kept else told, is_done=kept is not None)
        passed = skipper.skip(self._batches_of(table, self._aside.offsets()[table]), self._schemas, kept)
        self._counts.gather(count_rows({}, table, passed.rows, 0))
        return passed

    def _batches_of(self, table: TableId, start: int) -> Iterator[Batch]:
        found = self._batches(start, min(self._next, start + _BATCHES_AT_ONCE))
        return (batch for _, batch in found if batch.table == table)

    def _batches(self, start: int, end: int) -> Iterator[tuple[int, Batch]]:
        """What a stretch of the batch topic says to this link of tables that are wanted."""
        for messages in self._read(start, end) if start < end else ():
            batches = ((offset, read_batch(offset, message).seen_by(self._link)) for offset, message in messages)
            yield from (each for each in batches if self._wanted(each[1].source, each[1].table))

    def _obey(self) -> None:
        if self._control is not None:
            self._control.obey(self, self._sink)
        self._filling.look(self._aside.forgotten(UNFILLED), self._next)

    def _keep_trying(self, failed: Callable[[BaseException], None]) -> None:
        try:
            while not self._closing.wait(_TICK_SECONDS):
                with self._publish_token:
                    self._obey()
                    self._catch_up()
                    if self._finished_next < self._next:
                        self._finish({})
        except BaseException as error:  # noqa: BLE001 - it is told
            failed(error)

    def _catch_up(self) -> int:
        """Read again what tables lack whose turn has come; for some seconds, if there is a thread to go on with it."""
        rows, began = 0, time.monotonic()
        while due := self._aside.due(time.monotonic()):
            tried = set(due)
            rows += self._read_again(due)
            self._find_beginnings(tried - due)
            is_long = self._thread is not None and time.monotonic() - began > _CATCH_UP_SECONDS
            if self._filling.late and (is_long or not self._aside.due(time.monotonic())):
                self._follow_late()
            if is_long:
                break
        return rows

    def _read_again(self, due: set[TableId]) -> int:
        """Bring some batches into tables that wait, and release those that have caught up."""
        start = min(offset for table, offset in self._aside.offsets().items() if table in due)
        end = min(self._next, start + _BATCHES_AT_ONCE)
        rows = 0
        for messages in self._read(start, end) if start < end else ():
            loaded = self._pass(messages, due)
            rows += _sum_rows(loaded)
            self._aside.advance(due, messages[-1][0] + 1)
            self._finish(loaded)
            if not due:
                return rows
        self._aside.advance(due, end)
        for table in self._aside.release(self._next):
            _log.info("table goes on", link=self._link, table=str(table), offset=self._next)
            self._state.resume_table(self._link, str(table))
        self._finish({})
        return rows

    def _find_beginnings(self, tables: Collection[TableId]) -> None:
        """Let tables that were refused go on where they begin anew later, if they do."""
        refused = {table for table in tables if self._aside.is_refused(table)}
        if not refused:
            return
        start = min(offset for table, offset in self._aside.offsets().items() if table in refused) + 1
        for offset, batch in self._batches(start, self._next):
            if batch.table in refused:
                self._begin_anew(offset, batch)
        if self._anew:
            self._finish({})

    def _follow_late(self) -> None:
        """Let tables that were found to be a part as they were read again meet what others are past."""
        batches = self._batches(self._filling.late_from(self._next), self._next)
        self._filling.follow(self._aside, batches, self._wanted, self._next, self._anew)
        self._finish({})

    def _begin_anew(self, offset: int, batch: Batch) -> None:
        self._filling.begin_anew(self._aside, offset, batch, self._next, self._anew)

    def _may_gather(self, loaded: Mapping[str, tuple[int, int]]) -> bool:
        """Whether the target may be told a second later, by the thread that keeps trying, how far it is.

        After a crash batches that are in come again, and nothing is done with them.
        """
        if self._thread is None or self._aside.offsets() != self._remembered:
            return False
        return _sum_rows(loaded) <= _GATHERED_ROWS_MAX and time.monotonic() - self._finished_at < _TICK_SECONDS

    def _finish(self, loaded: Mapping[str, tuple[int, int]]) -> None:
        """Let the target remember how far it is, and count what was loaded."""
        waiting = {**self._aside.offsets(), **self._filling.late}
        self._sink.finish(self._loaded, None if waiting == self._remembered else waiting, self._anew)
        self._remembered = waiting
        self._anew = set()
        self._finished_next, self._finished_at = self._next, time.monotonic()
        _FINISHED.maybe_crash()
        self._counts.add(loaded, self._next)

    def _pass(self, messages: BatchMessages, again: MutableSet[TableId] | None) -> dict[str, tuple[int, int]]:
        """Load what the messages bring to tables that do not wait; or to those of `again`, which lose who has to wait.

        Returns what was loaded.
        """
        ready: dict[TableId, list[tuple[int, Batch]]] = defaultdict(list)
        loaded: dict[str, tuple[int, int]] = {}
        renamed: tuple[int, int, int] | None = None
        for offset, message in messages:
            batch = read_batch(offset, message).seen_by(self._link)
            if not self._wanted(batch.source, batch.table):
                continue
            if batch.moves and batch.first_order != renamed:
                loaded = self._load_tables(ready, loaded, again)
                self._rename(offset, batch, again)
                renamed = batch.first_order
                if again is None:
                    self._anew |= self._filling.move(self._aside, offset, batch, self._wanted, self._next)
            if again is None:
                self._begin_anew(offset, batch)
            if not self._goes(batch.table, offset, again):
                continue
            if batch.ends_for == self._link:
                ready.pop(batch.table, None)
                self._aside.forget(batch.table, UNFILLED)
                self._anew.add(batch.table)
                if again is not None:
                    again.discard(batch.table)
                    self._filling.late[batch.table] = offset
            else:
                ready[batch.table].append((offset, batch))
        return self._load_tables(ready, loaded, again)

    def _goes(self, table: TableId, offset: int, again: Collection[TableId] | None) -> bool:
        """Whether the pass is to bring the batch at `offset` into its table."""
        if again is None:
            return table not in self._aside
        return table in again and self._aside.lacks(table, offset)

    def _load_tables(
        self,
        ready: dict[TableId, list[tuple[int, Batch]]],
        loaded: Mapping[str, tuple[int, int]],
        again: MutableSet[TableId] | None,
    ) -> dict[str, tuple[int, int]]:
        """Load what is ready, add it to what was counted, and forget it."""
        schemas = self._schemas({batch.schema_id for batches in ready.values() for _, batch in batches})
        work = {table: [batch for _, batch in batches] for table, batches in ready.items()}
        counted = dict(loaded)
        for table, outcome in self._side_by_side.load(work, schemas):
            batches = ready[table]
            if isinstance(outcome, TableStoppedError):
                self._put_aside(batches[0][0], batches[0][1].last_timestamp_ms, {table: outcome}, again)
                continue
            self._tell(table, outcome)
            newest = max((batch.last_timestamp_ms for _, batch in batches if batch.rows), default=0)
            counted = count_rows(counted, table, outcome.rows, newest)
        ready.clear()
        return counted

    def _tell(self, table: TableId, loaded: Loaded) -> None:
        if loaded.out_of_range:
            _log.warning("values did not fit", link=self._link, table=str(table), values=loaded.out_of_range)
        if loaded.note is not None and loaded.note != self._notes.get(table):
            self._notes[table] = loaded.note
            self._state.note_table(self._link, str(table), loaded.note)

    def _rename(self, offset: int, batch: Batch, again: MutableSet[TableId] | None) -> None:
        """Move rows from name to name, of tables that are both carried here; those that cannot wait together.

        A table that waits before the statement holds the others of it up, and nothing else.
        One that is past it was there when it was done, or began anew since; the target does it once.
        """
        moves, involved = moves_left(
            batch,
            lambda table: self._wanted(batch.source, table) and not self._aside.is_forgotten(table),
            lambda table: not self._goes(table, offset, again) and not self._aside.lacks(table, offset),
        )
        going = {table for table in involved if self._goes(table, offset, again)}
        behind = {table for table in involved - going if self._aside.lacks(table, offset)}
        if going and behind:
            self._put_aside(offset, batch.last_timestamp_ms, tied_stops(going, behind), again, behind)
            self._aside.keep(going & needed_rows(moves))
        elif going:
            try:
                self._sink.rename(moves, batch.first_order, self._schemas({move.schema_id for move in moves}))
            except TableStoppedError as error:
                self._put_aside(offset, batch.last_timestamp_ms, dict.fromkeys(going, error), again, going)
                self._aside.keep(going & needed_rows(moves, error))

    def _schemas(self, ids: Collection[int]) -> dict[int, TableSchema]:
        return {schema_id: table_schema(self._registry.value_schema(schema_id)) for schema_id in ids}

    def _put_aside(
        self,
        offset: int,
        since_ms: int,
        stops: Mapping[TableId, TableStoppedError],
        again: MutableSet[TableId] | None,
        ties: Collection[TableId] = (),
    ) -> None:
        """Let tables wait at `offset`: for a while, or for the next start. Other tables with `ties` wait as long."""
        since_ms = since_ms or time.time_ns() // 1_000_000
        for table, error in stops.items():
            try_from = time.monotonic() if error.retryable else None
            pause = self._aside.put(table, offset, try_from, set(ties) - {table})
            if again is not None:
                again.discard(table)
            told = f"{error.message} (it waits at offset {offset} of the batch topic"
            told += f", and {TRIED_AGAIN} within {pause:.0f} s)" if error.retryable else ")"
            _log.warning("table stopped", link=self._link, table=str(table), error=told, hint=error.hint)
            self._state.stop_table(self._link, str(table), told, error.hint, since_ms)


def _sum_rows(loaded: Mapping[str, tuple[int, int]]) -> int:
    return sum(rows for rows, _ in loaded.values())
