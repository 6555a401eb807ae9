"""A source's log, read from a position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.mysql.log_items import LogItem


class LogStream(Protocol):
    """One connection that follows a log.

    Items come in log order, none left out and none twice. A stream keeps no
    progress for its caller: whoever wants to go on later opens a new stream at
    the position it wrote down.
    """

    def read(self, wait_seconds: float) -> Sequence[LogItem]:
        """Return what has arrived, waiting up to `wait_seconds` for the first item.

        An empty answer means that nothing came, or that only a part of an event
        did. A call returns a bounded number of bytes' worth of items (about 8 MiB).
        Raises UnavailableError when the connection is lost, LogPurgedError when
        the server no longer has the position, CorruptLogError when an event does
        not decode.
        """
        ...

    def at_end(self) -> bool:
        """Whether a stream opened with a stop (end of file, or end of log) has reached it."""
        ...

    def close(self) -> None:
        """Drop the connection. Safe to call twice."""
        ...
