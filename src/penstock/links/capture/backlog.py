"""The backlog: whole binlog files, read side by side, published in log order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, assert_never

from penstock.core.errors import LogError, UnavailableError
from penstock.core.mysql.log_items import StatementLogged
from penstock.core.publication import Publication, StoppedTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from penstock.core.positions import BinlogPosition
    from penstock.links.capture.follow import LogFollower
    from penstock.links.capture.open_capture import OpenCapture
    from penstock.ports.log import LogStream

_READ_WAIT_SECONDS = 1.0
_SILENT_READS_MAX = 30


@dataclass(frozen=True, slots=True)
class TablesStopped:
    """Tables that cannot be carried from the part behind this one on: their rows are left out of it."""

    stopped: Mapping[str, StoppedTable]


@dataclass(frozen=True, slots=True)
class RangeEnded:
    """A file was read to its end, which is `position`."""

    position: BinlogPosition


@dataclass(frozen=True, slots=True)
class RangeFailed:
    """The file cannot be read on; what came before may be published."""

    error: LogError


RangePart: TypeAlias = Publication | StatementLogged | TablesStopped | RangeEnded | RangeFailed


def read_range(stream: LogStream, follower: LogFollower, stopped: Mapping[str, StoppedTable]) -> Iterator[RangePart]:
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
        if isinstance(part, StatementLogged):
            return


def _read_parts(stream: LogStream, follower: LogFollower) -> Iterator[RangePart]:
    silent = 0
    while not stream.at_end():
        try:
            items = stream.read(_READ_WAIT_SECONDS)
        except LogError as error:
            # Perhaps the publisher never comes to it: it ends at what makes later ranges worthless.
            yield from follower.finish()
            yield RangeFailed(error)
            return
        silent = 0 if items else silent + 1
        if silent > _SILENT_READS_MAX:
            message = "the source stopped sending in mid-file"
            raise UnavailableError(message, "check the source's load and the network")
        yield from follower.feed(items)
    yield from follower.finish()
    follower.pass_by()
    yield RangeEnded(follower.position)


def publish_ranges(capture: OpenCapture, ranges: Iterable[Iterable[RangePart]]) -> None:
    """Publish ranges that were read side by side, in log order, up to the first statement.

    What was read behind a statement is thrown away and read again: its tables may
    have changed. So is what was read behind a file in which a table stopped, or at
    whose end XA transactions are prepared: its readers did not know of that.
    `ranges` come in log order, and so do the parts of each.
    """
    for parts in ranges:
        base, before = capture.position, set(capture.stopped)
        for part in parts:
            match part:
                case TablesStopped(stopped):
                    capture.stopped.update(stopped)
                case Publication(end=end):
                    capture.publish(replace(part, end=end.on_top_of(base)))
                case StatementLogged(end=end):
                    capture.take_statement(replace(part, end=end.on_top_of(base)))
                    return
                case RangeEnded(position):
                    capture.advance(position.on_top_of(base))
                    if position.prepared or set(capture.stopped) != before:
                        return
                case RangeFailed(error):
                    raise error
                case _:
                    assert_never(part)
