"""The live tail: one task reads, decodes and publishes as changes come, for the time of its tail slice."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING

from penstock.core.errors import UnavailableError
from penstock.core.publication import Publication

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.core.log_items import LoggedStatement
    from penstock.core.positions import Position
    from penstock.links.capture.follow import LogFollower
    from penstock.links.capture.open_capture import OpenCapture
    from penstock.links.capture.refreshers import Refreshers
    from penstock.ports.log import LogStream

_READ_WAIT_SECONDS = 0.2
_READ_WAIT_BUSY_SECONDS = 0.01
_ADVANCE_SECONDS = 1.0
_CONFIRM_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class TailSliceEnded:
    """What a tail slice did, for the driver."""

    position: Position
    publications: int
    rows: int


class LiveCapture:
    """A capture with its open stream, kept from tail slice to tail slice as long as its process lives.

    Between two tail slices it goes on by itself, so that nothing waits for the next one.
    """

    def __init__(
        self, capture: OpenCapture, stream: LogStream, follower: LogFollower, refresher: Refreshers | None = None
    ) -> None:
        """Follow `stream`, which was opened at the capture's position; `refresher` carries the capture's snapshots."""
        self._refresher = refresher
        self._capture = capture
        self._stream = stream
        self._follower = follower
        self._publications = 0
        self._rows = 0
        self._advanced_at = self._confirmed_at = 0.0
        self._bridge: Thread | None = None
        self._recalled = Event()
        self._failure: Exception | None = None
        self.can_go_on = True

    def run(self, seconds: float, stop: Position | None) -> TailSliceEnded:
        """Publish what comes for `seconds`, or until `stop` is reached.

        A transaction that is not whole when the tail slice ends waits for the next one.
        At the end readers see all of it, so that the next plan starts from there.
        `can_go_on` is False afterwards if something behind `stop` was read and left
        out: whoever goes on needs a new stream.
        Raises what the stream and the publisher raise, since the tail slice before too;
        the committed record then says where to go on, and this object must not be
        used again.
        """
        self._take_back()
        self._follow(seconds, stop)
        self._capture.parts.publisher.settle()
        self._stream.confirm(self._capture.position)
        ended = TailSliceEnded(self._capture.position, self._publications, self._rows)
        self._publications = self._rows = 0
        return ended

    def go_on(self, seconds: float) -> None:
        """Publish what comes in a thread of its own until the next `run`, for `seconds` at most."""
        self._bridge = Thread(target=self._go_on, args=(seconds,), name="between tail slices", daemon=True)
        self._bridge.start()

    def _go_on(self, seconds: float) -> None:
        try:
            self._follow(seconds, None)
        except Exception as error:  # noqa: BLE001 - it is raised again by the next tail slice
            self._failure = error
        if self._refresher is not None and not self._recalled.is_set():
            # Nobody may come back to this process: no table stays locked for that.
            with suppress(Exception):
                self._refresher.close()

    def _take_back(self) -> None:
        """End the thread between tail slices, and raise what ended it before."""
        if self._bridge is not None:
            self._recalled.set()
            self._bridge.join()
            self._bridge = None
        self._recalled.clear()
        if self._failure is not None:
            raise self._failure

    def _follow(self, seconds: float, stop: Position | None) -> None:
        parent, until = os.getppid(), time.monotonic() + seconds
        self._refresh()
        # What is read behind the stop is lost to this object: it must not read on.
        while (
            self.can_go_on and time.monotonic() < until and not self._is_through(stop) and not self._recalled.is_set()
        ):
            # What comes before a publication is due is read in one go.
            pause = self._follower.wait_seconds()
            if pause:
                time.sleep(min(pause, _READ_WAIT_SECONDS))
            is_waiting = self._follower.is_waiting
            wait = _READ_WAIT_BUSY_SECONDS if self._is_refreshing else _READ_WAIT_SECONDS
            items = self._stream.read(0.0 if is_waiting else wait)
            wanted = self._follower.until(items, None if self._is_refreshing else stop)
            self.can_go_on = wanted is items
            self._commit(self._follower.feed(wanted))
            # At the stop nothing waits for more: what is published there may ask for a snapshot.
            self._commit(self._follower.finish() if self._reached(stop) else self._follower.due())
            self._refresh()
            self._skip_ahead(at_once=stop is not None)
            if not (items or is_waiting) or time.monotonic() - self._confirmed_at >= _CONFIRM_SECONDS:
                self._confirm()
            if os.getppid() != parent:
                message = "the process that started this tail slice is gone"
                raise UnavailableError(message, "the link starts again by itself")
        self._commit(self._follower.finish())
        self._skip_ahead(at_once=True)

    def _confirm(self) -> None:
        """Tell the source what it need not keep: what lies before a record that is durable."""
        self._capture.parts.publisher.save()
        self._stream.confirm(self._capture.position)
        self._confirmed_at = time.monotonic()

    def close(self) -> None:
        """Let go of the stream, the publisher and the rest."""
        # Whoever closes it goes on from the committed record, whatever went wrong here.
        with suppress(Exception):
            self._take_back()
        self._stream.close()
        if self._refresher is not None:
            self._refresher.close()
        self._capture.parts.close()

    def _is_through(self, stop: Position | None) -> bool:
        """Whether all before the stop is read, and no snapshot waits for what comes behind it."""
        return self._reached(stop) and not self._is_refreshing

    @property
    def _is_refreshing(self) -> bool:
        return self._refresher is not None and self._refresher.is_busy

    def _refresh(self) -> None:
        """Let snapshots go on between two publications; what they commit moves the capture over what held nothing."""
        boundary = self._follower.boundary
        if self._refresher is not None and boundary is not None:
            self._refresher.step(boundary)
            if self._capture.position.order == boundary.order:
                self._follower.skip_ahead()

    def _reached(self, stop: Position | None) -> bool:
        return stop is not None and self._follower.has_read(stop)

    def _commit(self, work: Iterable[Publication | LoggedStatement]) -> None:
        for part in work:
            if isinstance(part, Publication):
                self._capture.publish(part)
                if self._refresher is not None:
                    self._refresher.saw(part)
                self._publications += 1
                self._rows += sum(rows for rows, _ in part.rows.values())
            else:
                self._capture.take_statement(part)
                if self._refresher is not None:
                    self._refresher.saw_statement(part)

    def _skip_ahead(self, *, at_once: bool) -> None:
        """Commit progress over changes of other tables, but not for every one of them."""
        now = time.monotonic()
        if not at_once and now - self._advanced_at < _ADVANCE_SECONDS:
            return
        self._advanced_at = now
        position = self._follower.skip_ahead()
        if position is not None:
            self._capture.advance(position)
