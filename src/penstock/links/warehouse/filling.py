"""Tables of which files are gone: a new target begins behind them, and gets these tables from snapshots."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import structlog

from penstock.config.crash_points import CrashPoint
from penstock.core.errors import UnavailableError
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import TableId
from penstock.links.objects.retention import require_files
from penstock.links.warehouse.set_aside import UNFILLED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from penstock.core.batches import Batch
    from penstock.links.objects.retention import Kept
    from penstock.links.warehouse.set_aside import SetAside
    from penstock.ports.sink import Sink
    from penstock.ports.state import State

_log = structlog.get_logger()

_PERIOD_SECONDS = 5.0
_REMEMBERED = CrashPoint("fill.remembered", "a new target knows which tables it lacks, no snapshot is asked for")


@dataclass(frozen=True, slots=True)
class Lack:
    """Why a table lacks its rows; with a `hint` it waits for people, else for its snapshot."""

    why: str
    hint: str = ""


class Fills(Protocol):
    """Knows which files are there, and asks for snapshots of tables that a link's target lacks."""

    @property
    def are_taken(self) -> bool:
        """Whether snapshots are taken: where the file has switched transactions off, none are."""
        ...

    def beginning(self) -> tuple[int, Mapping[TableId, int]]:
        """Where in the batch topic a new target begins, and where each table waits that began before that.

        It is UNFILLED for one of which files are gone.
        """
        ...

    def begun(self, loaded_to: int) -> Mapping[TableId, int | None]:
        """For each table that has begun before `loaded_to` of the batch topic: where a target that lacks it waits.

        It is UNFILLED for one of which files are gone, and None for one that the link leaves out.
        """
        ...

    def files_from(self, table: TableId) -> int:
        """From which batches on files of `table` are there."""
        ...

    def ask(self, tables: Collection[TableId], loaded_to: int) -> Mapping[TableId, Lack]:
        """Ask for snapshots of those of `tables` that have none under way; say of each why it lacks its rows.

        Those that the link leaves out are neither asked for nor in the answer. Nothing before `loaded_to`
        of the batch topic lets one of them begin. Raises UnavailableError.
        """
        ...


class Filling:
    """Sees to the tables that one link's target lacks."""

    def __init__(self, link: str, state: State, fills: Fills | None) -> None:
        """Tell what they wait for to `state`. Without `fills` nothing asks for snapshots."""
        self._link = link
        self._state = state
        self._fills = fills
        self._told: dict[TableId, Lack | None] = {}
        self._look_at = 0.0
        self.late: dict[TableId, int] = {}
        """Where tables that were read again, behind the others, were found to be a part.

        They wait there until they have followed what others are past: whoever starts before that finds them again.
        """

    def begin(self, sink: Sink, kept: Kept) -> None:
        """Let a new target begin where files and messages are there; of others require that files are.

        Raises PositionError if files are gone that the target needs.
        """
        files_from = kept.files_from
        is_filled = self._fills is not None and self._fills.are_taken
        if self._fills is not None and is_filled and files_from and not sink.batch_offset():
            offset, waiting = self._fills.beginning()
            sink.finish(offset, waiting)
            _REMEMBERED.maybe_crash()
            _log.info("a new target begins where files are there", link=self._link, offset=offset, lacks=len(waiting))
        require_files(self._link, sink.batch_offset(), files_from, is_filled=is_filled)
        for table, offset in sink.waiting().items() if files_from else ():
            if 0 <= offset < files_from:
                first = files_from if self._fills is None else self._fills.files_from(table)
                require_files(self._link, offset, first, is_filled=is_filled)
        if sink.batch_offset() < kept.batches_from:
            # None of the messages that are gone is its link's: of those it would lack files.
            sink.finish(kept.batches_from)
        self._widen(sink)

    def _widen(self, sink: Sink) -> None:
        """Let tables wait that the link carries and its target lacks, as they were not in `tables` when it passed them.

        What the target has of one that is left out now is a part as soon as something of it is passed. It is
        remembered before that: nothing would tell it once the link carries the table again.
        """
        if self._fills is None or not sink.batch_offset():
            return
        begun, waiting = self._fills.begun(sink.batch_offset()), sink.waiting()
        unsure = {t for t, at in begun.items() if t not in waiting or (at is None and waiting[t] >= 0)}
        absent = sink.absent(unsure) if unsure else ()
        changed = {table for table in unsure if (begun[table] is None) != (table in absent)}
        if changed:
            lacked = {table: UNFILLED if (at := begun[table]) is None else at for table in changed}
            sink.finish(sink.batch_offset(), {**waiting, **lacked})
            _log.info("the tables of the link are others now", link=self._link, lacks=sorted(map(str, changed)))

    def ask(self, unfilled: Collection[TableId], loaded_to: int) -> None:
        """See that `unfilled` tables are filled; the target has all before `loaded_to`. Raises UnavailableError."""
        self._told = {table: lack for table, lack in self._told.items() if table in unfilled}
        self._look_at = time.monotonic() + _PERIOD_SECONDS
        if self._fills is None or not unfilled:
            return
        lacks = self._fills.ask(unfilled, loaded_to)
        for table in unfilled:
            lack = lacks.get(table)
            if table in self._told and self._told[table] == lack:
                continue
            self._tell(table, lack)
            # Behind it: without the state database it is told the next time.
            self._told[table] = lack

    def _tell(self, table: TableId, lack: Lack | None) -> None:
        """Write down what `status` is to say of a table; nothing of one that the link leaves out now."""
        if lack is None:
            self._state.resume_table(self._link, str(table))
        elif lack.hint:
            _log.warning("table lacks its rows", link=self._link, table=str(table), error=lack.why, hint=lack.hint)
            now_ms = time.time_ns() // 1_000_000
            self._state.stop_table(self._link, str(table), lack.why, lack.hint, now_ms)
        else:
            self._state.note_table(self._link, str(table), lack.why)

    def meets(self, table: TableId, offset: int, end: int) -> bool:
        """Whether a table that is lacked meets what is at `offset`: others are past all before `end`."""
        return offset >= end or self.late.get(table, offset) < offset

    def late_from(self, end: int) -> int:
        """From where on tables are to be followed that are late; `end` for none."""
        return min(self.late.values(), default=end - 1) + 1

    def move(
        self, aside: SetAside, offset: int, batch: Batch, wanted: Callable[[str, TableId], bool], end: int
    ) -> set[TableId]:
        """Have what a target lacks follow its rows, which a statement has given other names; return those names."""
        pairs = [(TableId.parse(move.origin), TableId.parse(move.table)) for move in batch.moves]
        unfilled = {table for table in aside.forgotten(UNFILLED) if self.meets(table, offset, end)}
        moved = aside.move_unfilled(unfilled, [each for each in pairs if wanted(batch.source, each[1])])
        for table in unfilled - aside.forgotten(UNFILLED):
            self._state.resume_table(self._link, str(table))
            self.late.pop(table, None)
        if offset < end:
            self.late |= dict.fromkeys(moved, offset)
        return moved

    def begin_anew(self, aside: SetAside, offset: int, batch: Batch, end: int, anew: set[TableId]) -> None:
        """Let a refused or a forgotten table that begins anew with `batch` go on there: nothing from before counts.

        Add it to `anew`.
        """
        # A message that comes a second time is from before the table was forgotten.
        meets = self.meets(batch.table, offset, end)
        if batch.kind is SchemaChangeKind.DROP and meets:
            self.end(aside, batch.table)
        if batch.kind is not SchemaChangeKind.CREATE:
            return
        is_refused = aside.is_refused(batch.table) or batch.table in anew
        was_forgotten = aside.is_forgotten(batch.table) and meets
        if was_forgotten or (is_refused and aside.lacks(batch.table, offset - 1)):
            aside.skip(batch.table, offset)
            anew.add(batch.table)

    def follow(
        self,
        aside: SetAside,
        batches: Iterable[tuple[int, Batch]],
        wanted: Callable[[str, TableId], bool],
        end: int,
        anew: set[TableId],
    ) -> None:
        """Let tables that are late meet what `batches` say, which others are past; add to `anew` who begins anew."""
        renamed: tuple[int, int, int] | None = None
        for offset, batch in batches:
            if batch.moves and batch.first_order != renamed:
                renamed = batch.first_order
                anew |= self.move(aside, offset, batch, wanted, end)
            self.begin_anew(aside, offset, batch, end, anew)
        self.late.clear()

    def end(self, aside: SetAside, table: TableId) -> None:
        """Let a table that ends here wait for nothing any more."""
        if aside.end_unfilled(table):
            self._state.resume_table(self._link, str(table))

    def look(self, unfilled: Collection[TableId], loaded_to: int) -> None:
        """Do the same if the last time was some seconds ago; without the state database, some seconds later."""
        if time.monotonic() < self._look_at:
            return
        try:
            self.ask(unfilled, loaded_to)
        except UnavailableError as error:
            _log.warning("snapshots wait", link=self._link, error=error.message, hint=error.hint)
