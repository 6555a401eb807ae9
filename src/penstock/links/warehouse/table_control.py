"""What people ask for of single tables of a loading link: to wait, to go on, to pass a change over, to be forgotten."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Protocol, assert_never

import structlog

from penstock.core.commands import shell_word
from penstock.core.errors import UnavailableError
from penstock.core.tables import TableId
from penstock.links.warehouse.set_aside import DROPPED, UNFILLED, Waited
from penstock.links.warehouse.skipping import ChangeSkipper, passed_over
from penstock.ports.table_actions import Action, SkippedChange, Stage, TableRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from penstock.links.warehouse.skipping import FoundChange, Passed
    from penstock.ports.objects import ObjectStore
    from penstock.ports.sink import Sink
    from penstock.ports.table_actions import TableActions

_log = structlog.get_logger()

_PERIOD_SECONDS = 1.0
_HELD_PERIODS = 5
"""For so long a request waits that is to be tried again."""

_RELEASED = {
    Waited.PAUSED: "it goes on",
    Waited.STOPPED: "it is tried again now, and stops again if the cause is still there: see penstock status FILE",
    Waited.NOT: "it did not wait, and goes on",
}


class ControlledLoader(Protocol):
    """What a loader does to one table. It is called by whoever loads, between two loads."""

    def pause_table(self, table: TableId) -> None:
        """Let it wait from here on."""
        ...

    def release_table(self, table: TableId) -> Waited:
        """Let one that waits go on at once, or be tried again; return why it waited."""
        ...

    def skip_change(self, table: TableId, skipper: ChangeSkipper, kept: SkippedChange | None) -> Passed:
        """Bring it up to the change that the target refuses, and past it, with `skipper`, which gets `kept`."""
        ...

    def drop_table(self, table: TableId) -> None:
        """Forget what is loaded of it, and load nothing more of it until it begins anew."""
        ...

    def forgotten(self, how: int) -> Collection[TableId]:
        """The tables that are forgotten, as DROPPED or as UNFILLED."""
        ...


class TableControl:
    """Reads requests about once a second, and does them. While the state database is away, what was asked for holds."""

    def __init__(
        self,
        link: str,
        actions: TableActions,
        objects: ObjectStore,
        hides: Callable[[TableId, str], bool],
        wanted: Callable[[TableId], bool],
    ) -> None:
        """Serve `link`, which this closes nothing of, and which carries the tables that are `wanted`.

        `hides` says of a column whether nobody is to see its values.
        """
        self._link = link
        self._actions = actions
        self._objects = objects
        self._hides = hides
        self._wanted = wanted
        self._look_at = 0.0
        self._again_at: dict[str, float] = {}
        self._is_away = False

    def begin(self, loader: ControlledLoader, sink: Sink) -> None:
        """Let the tables wait that are paused, and do what is open. Raises UnavailableError.

        A table that is left out of the link by now does not wait: it would hold up the deletion of files. Nor
        does one that waits for its snapshot already.
        """
        for request in self._actions.requests(self._link):
            table = TableId.parse(request.table)
            if request.pauses and self._wanted(table) and table not in loader.forgotten(UNFILLED):
                loader.pause_table(table)
        self._do_all(loader, sink)
        self._mark_dropped(loader)

    def obey(self, loader: ControlledLoader, sink: Sink) -> None:
        """Do what was asked for since the last time, if that was a second ago."""
        if time.monotonic() < self._look_at:
            return
        try:
            self._do_all(loader, sink)
            self._is_away = False
        except UnavailableError as error:
            if not self._is_away:
                _log.warning("requests for tables wait", link=self._link, error=error.message, hint=error.hint)
            self._is_away = True
        self._look_at = time.monotonic() + _PERIOD_SECONDS

    def close(self) -> None:
        """Let go of the state database."""
        self._actions.close()

    def _mark_dropped(self, loader: ControlledLoader) -> None:
        """Have the state database say what is dropped in the target, where it was lost or is an older copy."""
        known = {TableId.parse(each.table) for each in self._actions.requests(self._link) if each.has_dropped}
        for table in sorted(set(loader.forgotten(DROPPED)) - known):
            if not self._wanted(table):
                continue
            request = TableRequest(uuid.uuid4().hex[:12], self._link, str(table), Action.DROP, "penstock")
            self._actions.ask(request)
            self._actions.end(request, Stage.DONE, "the target's own record")

    def _do_all(self, loader: ControlledLoader, sink: Sink) -> None:
        for request in self._actions.requests(self._link):
            if request.has_dropped and TableId.parse(request.table) not in loader.forgotten(DROPPED):
                self._actions.end(request, Stage.OVER, "it started over, and goes on")
            is_due = time.monotonic() >= self._again_at.get(request.id, 0.0)
            if not request.is_open or not is_due or not self._actions.begin(request):
                continue
            stage, told = self._do(request, loader, sink)
            if stage is Stage.BEGUN:
                self._again_at[request.id] = time.monotonic() + _HELD_PERIODS * _PERIOD_SECONDS
                continue
            self._again_at.pop(request.id, None)
            self._actions.end(request, stage, told)
            event = {"table": request.table, "action": request.action.value, "stage": stage.value, "told": told}
            _log.info("request for a table ended", link=self._link, **event)

    def _do(self, request: TableRequest, loader: ControlledLoader, sink: Sink) -> tuple[Stage, str]:
        """Do what `request` asks for; return how far it is then, BEGUN if it is to be tried again."""
        table = TableId.parse(request.table)
        if not self._wanted(table):
            return Stage.REFUSED, "the link does not load it any more"
        if request.action is not Action.DROP and (why := self._why_forgotten(table, loader)):
            return Stage.REFUSED, why
        match request.action:
            case Action.PAUSE:
                loader.pause_table(table)
                return Stage.DONE, "it waits until somebody lets it go on"
            case Action.RESUME:
                return Stage.DONE, _RELEASED[loader.release_table(table)]
            case Action.SKIP:
                return self._skip(request, loader, sink)
            case Action.DROP:
                loader.drop_table(table)
                return Stage.DONE, "it is forgotten; the target's table stays as it is"
            case never:
                assert_never(never)

    def _why_forgotten(self, table: TableId, loader: ControlledLoader) -> str:
        """Why nothing but a snapshot brings the table back, "" if it is loaded."""
        if table in loader.forgotten(DROPPED):
            way = f"penstock snapshot FILE {shell_word(table)} --full-refresh --link {self._link}"
            return f"it is dropped here; to bring it back: {way}"
        return "it waits for its snapshot: see penstock status FILE" if table in loader.forgotten(UNFILLED) else ""

    def _skip(self, request: TableRequest, loader: ControlledLoader, sink: Sink) -> tuple[Stage, str]:
        table = TableId.parse(request.table)
        skipped = self._actions.skipped(self._link, request.table)
        kept = next((change for change in skipped if change.request == request.id), None)

        def keep(found: FoundChange) -> None:
            batch = found.batch
            place = (batch.topic, batch.partition, found.offset)
            self._actions.keep_skipped(
                SkippedChange(self._link, request.table, *place, found.row, found.reason, request.id)
            )

        skipper = ChangeSkipper(self._link, sink, self._objects, keep, lambda column: self._hides(table, column))
        passed, told = loader.skip_change(table, skipper, kept), "nothing of it is refused any more; it goes on"
        if passed.is_held:
            return Stage.BEGUN, passed.told
        if not passed.is_done:
            self._actions.forget_skipped(request)
            return Stage.REFUSED, passed.told
        if kept is not None:
            told = passed_over(kept.topic, kept.partition, kept.offset, kept.reason)
        return Stage.DONE, passed.told or told
