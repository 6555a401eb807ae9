"""Tables that a source has no more and whose log does not say so: the catalog is asked, and the log waited for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import structlog

from penstock.core.errors import PenstockError
from penstock.core.positions import timeline_of
from penstock.links.capture.table_return import announce_end

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from concurrent.futures import Future

    from penstock.core.positions import Position
    from penstock.core.schema_changes import SchemaChange
    from penstock.core.tables import TableId
    from penstock.links.capture.open_capture import OpenCapture
    from penstock.links.capture.refresher_state import Start
    from penstock.ports.relations import Gone

_log = structlog.get_logger()

_LOOK_SECONDS: Final = 60.0


class GoneTables:
    """Looks at the catalog at once and then once a minute, beside the capture, and has what is gone end.

    A table ends where the log is read past the look: all rows that it ever had were told of by then.
    """

    def __init__(
        self,
        capture: OpenCapture,
        ask: Callable[[Collection[int]], Gone],
        start: Start,
        ask_for_new: Callable[[], None],
    ) -> None:
        """Serve `capture`; `ask` says which of the numbers no table has any more, and `start` runs it.

        `ask_for_new` is called when tables have ended: another one may have the name, with rows that were not carried.
        """
        self._capture = capture
        self._ask = ask
        self._start = start
        self._ask_for_new = ask_for_new
        self._future: Future[Gone] | None = None
        self._gone: Gone | None = None
        self._look_at = 0.0
        self._ended: set[int] = set()
        self._is_new_wanted = False
        self._numbers: dict[int, int] = {}

    @property
    def is_busy(self) -> bool:
        """Whether it is yet to be looked, or a table to end."""
        return not self._look_at or self._future is not None or self._gone is not None

    def step(self, boundary: Position) -> Sequence[TableId]:
        """Go on as far as nothing has to be waited for, and return what has ended.

        The log is read up to `boundary`, and that published.
        """
        if not self.is_busy and time.monotonic() < self._look_at:
            return ()
        if self._future is None and self._gone is None:
            self._look()
        if self._future is not None and self._future.done():
            self._gone, self._future = _answer(self._future), None
        if self._gone is None or boundary.order < self._gone.high.order:
            return ()
        gone, self._gone = self._gone, None
        # A server that was promoted may lack tables that the log has told of.
        return self._end(gone.numbers, boundary) if gone.high.server_timeline == boundary.server_timeline else ()

    def _look(self) -> None:
        self._look_at = time.monotonic() + _LOOK_SECONDS
        try:
            if self._is_new_wanted:
                self._ask_for_new()
                self._is_new_wanted = False
        except PenstockError as error:
            _log.debug("new tables are asked for another time", error=error.message)
        numbers = frozenset(self._carried())
        self._future = self._start(lambda: self._ask(numbers))

    def _end(self, numbers: Collection[int], boundary: Position) -> Sequence[TableId]:
        ended = [(number, told) for number, told in self._carried().items() if number in numbers]
        for number, told in ended:
            _log.info("table is gone", source=told.source, table=str(told.table))
            self._capture.end(boundary, announce_end(self._capture, told, boundary))
            self._ended.add(number)
        if ended:
            self._is_new_wanted, self._look_at = True, 0.0
        return [told.table for _, told in ended]

    def _carried(self) -> Mapping[int, SchemaChange]:
        """What was told last of the tables that there are, by the numbers that they have in the source.

        Of tables that have stopped on another server, nobody knows the number on this one.
        """
        catalog, timeline, found = self._capture.parts.table_catalog, self._capture.position.timeline, {}
        for told in catalog.announced():
            is_of_now = str(told.table) not in self._capture.stopped or timeline_of(told.order) == timeline
            if catalog.wanted(told.table) and is_of_now:
                found[self._number(told)] = told
        return {number: told for number, told in found.items() if number and number not in self._ended}

    def _number(self, told: SchemaChange) -> int:
        if told.value_schema_id not in self._numbers:
            schema = self._capture.parts.table_catalog.announced_schema(told.table)
            self._numbers[told.value_schema_id] = 0 if schema is None else schema.number
        return self._numbers[told.value_schema_id]


def _answer(future: Future[Gone]) -> Gone | None:
    """Return what is gone, None for nothing; a source that is away is told of elsewhere, and asked again."""
    try:
        found = future.result()
    except PenstockError as error:
        _log.debug("the catalog was not asked", error=error.message)
        return None
    return found if found.numbers else None
