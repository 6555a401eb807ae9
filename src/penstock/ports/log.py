"""A source's log, read from a position."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.avro.envelope_encode import EncodableTable
    from penstock.core.changes import Messages, RowBatch
    from penstock.core.log_items import LoggedRows, LogStep
    from penstock.core.positions import Position
    from penstock.core.tables import TableSchema


class Stop(Enum):
    """Where a stream ends: nowhere, with the file it began in, or with what is in the log now.

    END_OF_FILE in the newest file is the same as END_OF_LOG.
    """

    NEVER = auto()
    END_OF_FILE = auto()
    END_OF_LOG = auto()


class LogStream(Protocol):
    """One connection that follows a log.

    Items come in log order, none left out and none twice. Their form is the source's
    own: the `LogReading` of the same kind of source knows it. A stream keeps no
    progress for its caller: whoever wants to go on later opens a new stream at
    the position it wrote down.
    """

    def read(self, wait_seconds: float) -> Sequence[object]:
        """Return what has arrived, waiting up to `wait_seconds` for the first item.

        An empty answer means that nothing came, or that only a part of an event
        did. A call returns a bounded number of bytes' worth of items (about 8 MiB).
        Raises UnavailableError when the connection is lost, LogPurgedError when
        the server no longer has the position, CorruptLogError when an event does
        not decode.
        """
        ...

    def confirm(self, position: Position) -> None:
        """Everything before `position` is durable elsewhere, and so is that we know it: the source need not keep it."""
        ...

    def at_end(self) -> bool:
        """Whether a stream opened with a stop (end of file, or end of log) has reached it."""
        ...

    def close(self) -> None:
        """Drop the connection. Safe to call twice."""
        ...


class LogReading(Protocol):
    """Makes of one stream's items what every capture understands. It follows the stream from a position on."""

    def steps(self, items: Sequence[object]) -> Iterator[LogStep]:
        """Yield what `items`, the next of the stream, say, with whole positions.

        Whoever asks for the next step has done what the one before asks for.
        """
        ...

    def until(self, items: Sequence[object], stop: Position | None) -> Sequence[object]:
        """Return what of `items` is up to the first end at `stop` or behind it; `items` itself if that is all.

        A read returns megabytes at once: a tail slice that is to end with a file would
        otherwise end in the middle of the next one.
        """
        ...

    def behind_rows(self, boundary: Position) -> Position | None:
        """Return the position behind the rows that came last, in a transaction that began behind `boundary`.

        None if they are in none that may be published in pieces.
        """
        ...

    def decode(self, schema: TableSchema, rows: Sequence[LoggedRows]) -> Iterator[RowBatch]:
        """Decode rows of one table, which has `schema`; those of an op stay in their order.

        Raises TableStoppedError for a value that cannot be carried.
        """
        ...

    def encode_few(
        self, table: EncodableTable, topic: str, rows: Sequence[LoggedRows], processed_at_ms: int
    ) -> Messages | None:
        """Return the messages of all `rows` by a shorter way than by columns; None where there is none for them."""
        ...
