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
class RangeEnded:
    """A file was read to its end, which is `position`; `stopped` are the tables that cannot be carried."""

    position: BinlogPosition
    stopped: Mapping[str, StoppedTable]


@dataclass(frozen=True, slots=True)
class RangeFailed:
    """The file cannot be read on; what came before may be published."""

    error: LogError


RangePart: TypeAlias = Publication | StatementLogged | RangeEnded | RangeFailed


def read_range(stream: LogStream, follower: LogFollower, stopped: Mapping[str, StoppedTable]) -> Iterator[RangePart]:
    """Read one file and yield what it holds.

    The reader knows the tables as they are at the start of the backlog. It
    therefore ends at the first statement, after which they may look different.
    """
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
        for part in follower.feed(items):
            yield part
            if isinstance(part, StatementLogged):
                return
    yield from follower.finish()
    follower.pass_by()
    yield RangeEnded(follower.position, stopped)


def publish_ranges(capture: OpenCapture, ranges: Iterable[Iterable[RangePart]]) -> None:
    """Publish ranges that were read side by side, in log order, up to the first statement.

    What was read behind a statement is thrown away and read again: its tables may
    have changed. So is what was read behind a file at whose end XA transactions
    are prepared, of which its readers did not know. `ranges` come in log order,
    and so do the parts of each.
    """
    for parts in ranges:
        base = capture.position
        for part in parts:
            match part:
                case Publication(end=end):
                    capture.publish(replace(part, end=end.on_top_of(base)))
                case StatementLogged(end=end):
                    capture.take_statement(replace(part, end=end.on_top_of(base)))
                    return
                case RangeEnded(position, stopped):
                    newly = set(stopped) - set(capture.stopped)
                    capture.stopped.update(stopped)
                    capture.advance(position.on_top_of(base))
                    if newly or position.prepared:
                        return
                case RangeFailed(error):
                    raise error
                case _:
                    assert_never(part)
