"""What a source says of its log, apart from what is in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.positions import Position


@dataclass(frozen=True, slots=True)
class LogFile:
    """A part of a log that is not written to any more and can be read on its own, from `begin` to its end."""

    begin: Position
    size_bytes: int


class SourceLog(Protocol):
    """Asks one source about its log, over a connection that is opened again when it is lost."""

    def head(self) -> Position:
        """The end of the log now. Raises UnavailableError."""
        ...

    def complete_files_from(self, position: Position) -> Sequence[LogFile]:
        """The files that nobody writes to any more, from the one with `position` on; none where there are no files."""
        ...

    def bytes_between(self, begin: Position, end: Position) -> int:
        """How many bytes of log lie between two positions."""
        ...

    def close(self) -> None:
        """Drop the connection. Safe to call twice."""
        ...
