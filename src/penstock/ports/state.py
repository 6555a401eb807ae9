"""The state database: a mirror for people, and the dumps that make DDL recoverable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.positions import BinlogPosition


@dataclass(frozen=True, slots=True)
class TrackerDump:
    """The tracker's contents just before the statement at `position` was applied to it."""

    position: BinlogPosition
    dump: str


@dataclass(frozen=True, slots=True)
class TableProgress:
    """How far one link has come with one table. `error` is "" while it goes on; `hint` alone is only good to know."""

    link: str
    table: str
    rows: int
    last_timestamp_ms: int
    updated_at_ms: int
    error: str
    hint: str


@dataclass(frozen=True, slots=True)
class LinkProgress:
    """Where a link stands; `position` is its own text, `lag_seconds` and `lag_bytes` None where unknown."""

    link: str
    position: str
    state: str
    lag_seconds: float | None
    lag_bytes: int | None
    updated_at_ms: int
    error: str
    hint: str


class State(Protocol):
    """One pipeline's rows in the state database.

    Nothing in here decides what is published: the targets do. Losing it costs
    counters and the dump, not rows.
    """

    def tracker_dump(self, source: str) -> TrackerDump | None:
        """The dump that a crash left behind, if any."""
        ...

    def keep_tracker_dump(self, source: str, dump: TrackerDump) -> None:
        """Write the dump, replacing an older one."""
        ...

    def drop_tracker_dump(self, source: str) -> None:
        """Forget the dump: its statement is applied and checkpointed."""
        ...

    def save_position(
        self, source: str, position: BinlogPosition, records_offset: int, topic_offsets: Mapping[str, int]
    ) -> None:
        """Mirror a source's position (global_event_state) and its topics' last offsets (data_event_checkpoint)."""
        ...

    def position(self, source: str) -> tuple[BinlogPosition, int] | None:
        """The mirrored position and the offset in the positions topic it was read up to."""
        ...

    def add_rows(self, link: str, rows: Mapping[str, tuple[int, int]]) -> None:
        """Add to the tables' progress: table to (rows, newest commit time in Unix ms)."""
        ...

    def save_link(self, progress: LinkProgress) -> None:
        """Replace what is known of a link."""
        ...

    def stop_table(self, link: str, table: str, error: str, hint: str) -> None:
        """Write down that a table stopped, and why. `resume_table` takes it back."""
        ...

    def note_table(self, link: str, table: str, note: str) -> None:
        """Write down what is good to know of a table that goes on or has ended; "" for nothing any more."""
        ...

    def resume_table(self, link: str, table: str) -> None:
        """Clear a table's error."""
        ...

    def stopped_tables(self, link: str) -> Mapping[str, str]:
        """Tables of `link` that stopped, with their error."""
        ...

    def links(self) -> Sequence[LinkProgress]:
        """Every link, sorted by name."""
        ...

    def tables(self) -> Sequence[TableProgress]:
        """Every table of every link, sorted by link and table."""
        ...

    def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        ...
