"""The backlog: whole binlog files, read side by side ahead of being published."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, cast

from penstock.core.errors import LogError, PenstockError, UnavailableError
from penstock.core.publication import Publication, StoppedTable, join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from penstock.core.changes import Messages
    from penstock.core.log_items import LoggedStatement
    from penstock.core.positions import Position
    from penstock.links.capture.follow import LogFollower
    from penstock.ports.log import LogStream

_READ_WAIT_SECONDS = 1.0
_SILENT_READS_MAX = 30
_JOINED_BYTES = 32 << 20
"""So much goes into a transaction, where it waits: each is a few requests, one behind the other."""


@dataclass(frozen=True, slots=True)
class TablesStopped:
    """Tables that cannot be carried from the part behind this one on: their rows are left out of it."""

    stopped: Mapping[str, StoppedTable]


@dataclass(frozen=True, slots=True)
class SliceEnded:
    """A file was read to its end, which is `position`."""

    position: Position


@dataclass(frozen=True, slots=True)
class SliceFailed:
    """The file cannot be read on; what came before may be published."""

    error: PenstockError


SlicePart: TypeAlias = "Publication | LoggedStatement | TablesStopped | SliceEnded | SliceFailed"


def read_slice(stream: LogStream, follower: LogFollower, stopped: Mapping[str, StoppedTable]) -> Iterator[SlicePart]:
    """Read one file and yield what it holds.

    The reader knows the tables as they are at the start of the backlog. It
    therefore ends at the first statement, after which they may look different.
    Tables that it adds to `stopped` are told ahead of the first publication that
    lacks rows of theirs: whoever commits that must commit with it that they stopped.
    """
    told = set(stopped)
    for part in _read_parts(stream, follower):
        newly = {table: why for table, why in stopped.items() if table not in told}
        if newly:
            told.update(newly)
            yield TablesStopped(newly)
        yield part
        if not isinstance(part, Publication | SliceEnded | SliceFailed):
            return


def _read_parts(stream: LogStream, follower: LogFollower) -> Iterator[SlicePart]:
    silent = 0
    while not stream.at_end():
        try:
            items = stream.read(_READ_WAIT_SECONDS)
        except LogError as error:
            # Perhaps the publisher never comes to it: it ends at what makes later slices worthless.
            yield from follower.finish()
            yield SliceFailed(error)
            return
        silent = 0 if items else silent + 1
        if silent > _SILENT_READS_MAX:
            message = "the source stopped sending in mid-file"
            raise UnavailableError(message, "check the source's load and the network")
        yield from follower.feed(items)
    yield from follower.finish()
    follower.skip_ahead()
    yield SliceEnded(follower.position)


class ReadAhead:
    """What of a slice was read and waits in memory to be published.

    What goes wrong while it is read is a part like any other, the last: perhaps
    nobody ever comes to it.
    """

    def __init__(
        self, parts: Iterator[SlicePart], bytes_max: int, prepare: Callable[[Messages], Messages] | None = None
    ) -> None:
        """Read `parts`, and nothing more as long as `bytes_max` of messages wait, each as `prepare` leaves it."""
        self._parts = parts
        self._prepare = prepare
        self._bytes_max = bytes_max
        self._waiting: deque[SlicePart] = deque()
        self._bytes = 0
        self._at_end = False

    def read_on(self) -> bool:
        """Read one part; False if there is no room for it, or no more of them."""
        if self._at_end or self._bytes >= self._bytes_max:
            return False
        try:
            part = self._prepared(next(self._parts, None))
        except PenstockError as error:
            part = SliceFailed(error)
        self._at_end = not isinstance(part, Publication | TablesStopped)
        if self._at_end:
            # What they are read from is let go of now, and not when the last of them is published.
            next(self._parts, None)
        if part is not None:
            self._waiting.append(part)
            self._bytes += _size(part)
        return part is not None

    def _prepared(self, part: SlicePart | None) -> SlicePart | None:
        if self._prepare is None or not isinstance(part, Publication):
            return part
        return replace(part, messages=[self._prepare(messages) for messages in part.messages])

    def take(self) -> Iterator[SlicePart]:
        """Yield what waits, and then what is still to be read, in the order of the log; publications joined."""
        while self._waiting or self.read_on():
            yield join(self._take_publications()) if isinstance(self._waiting[0], Publication) else self._pop()

    def _take_publications(self) -> list[Publication]:
        """As many of those that wait as are worth a transaction, one at least."""
        taken: list[Publication] = []
        size = 0
        while self._waiting and isinstance(self._waiting[0], Publication) and size < _JOINED_BYTES:
            size += _size(self._waiting[0])
            taken.append(cast("Publication", self._pop()))
        return taken

    def _pop(self) -> SlicePart:
        part = self._waiting.popleft()
        self._bytes -= _size(part)
        return part


def _size(part: SlicePart) -> int:
    return part.size_bytes if isinstance(part, Publication) else 0
