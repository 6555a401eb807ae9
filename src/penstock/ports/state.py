"""The state database: a mirror for people, and the dumps that make DDL recoverable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.positions import Position

Rows: TypeAlias = "Mapping[str, tuple[int, int]]"
"""What was carried of each table: how many rows, and the newest commit time in Unix ms, 0 for none."""

TRIED_AGAIN: Final = "is tried again"
"""Stands in the error, or the hint, of a table that goes on by itself when what stopped it is over."""

STARTING: Final = "starting"
"""The state of a link that a run is to run, and that has not begun: it is being opened, or waits for its turn."""

LACKS_ROWS: Final = "it lacks its rows"
"""Begins what is told of a table whose target has none of its rows, or a part of them: as a hint while it waits."""


@dataclass(frozen=True, slots=True)
class TrackerDump:
    """The tracker's contents just before the statement at `position` was applied to it."""

    position: Position
    dump: str


@dataclass(frozen=True, slots=True)
class TableProgress:
    """How far one link has come with one table. `error` is "" while it goes on; `hint` alone is only good to know.

    `last_timestamp_ms` is the commit time of what was carried last.
    `behind_since_ms` is as a link's, None where only the link's own is known.
    `stopped_at_ms` is the commit time of the first change that was not carried any
    more, 0 while the table goes on. Without an error it is since when a table lacks changes that
    somebody has let wait, and that is yet to catch up.
    """

    link: str
    table: str
    rows: int
    last_timestamp_ms: int
    updated_at_ms: int
    error: str
    hint: str
    behind_since_ms: int | None = None
    stopped_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class LinkProgress:
    """Where a link stood at `updated_at_ms`; `position` is its own text.

    `behind_since_ms` is 0 at the end of the link's log; else nothing that was
    committed before is missing. `lag_seconds` is how long ago that was when it was
    measured, `lag_bytes` and `lag_messages` are what lies ahead (a capture's log
    has no messages, a topic's bytes are not known). All are None where unknown.
    `moved_at_ms` is when the position last moved, or the link began, 0 if nobody saw it.
    `running_since_ms` is when the run began that wrote this, 0 if a release before
    this one did. In that run the link failed `failures` times, for the last time at
    `failed_at_ms` because of `failure`, and went on unless its state says other.
    `dead_letters` counts the messages that a spolt could not process so far.
    """

    link: str
    position: str
    state: str
    lag_seconds: float | None
    lag_bytes: int | None
    updated_at_ms: int
    error: str
    hint: str
    behind_since_ms: int | None = None
    lag_messages: int | None = None
    moved_at_ms: int = 0
    running_since_ms: int = 0
    failures: int = 0
    failed_at_ms: int = 0
    failure: str = ""
    dead_letters: int | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether it runs, and is behind although nobody knows since when: it copies tables, or has carried nothing.

        Who could not be asked what is ahead measured nothing, and may be idle.
        """
        is_measured = self.lag_bytes is not None or self.lag_messages is not None
        return self.state == "running" and self.behind_since_ms is None and (is_measured or not self.position)


@dataclass(frozen=True, slots=True)
class PipelineIdentity:
    """Whose rows these are: the id of the Kafka cluster that has their positions, and the names of the sources."""

    kafka_cluster: str
    sources: tuple[str, ...]


class State(Protocol):
    """One pipeline's rows in the state database.

    Nothing in here decides what is published: the targets do. Losing it costs
    counters and the dump, not rows.
    """

    def identity(self) -> PipelineIdentity | None:
        """Whose rows these are, None before the first start of a release that wrote it down."""
        ...

    def save_identity(self, identity: PipelineIdentity) -> None:
        """Write down whose rows these are."""
        ...

    def tracker_dump(self, source: str) -> TrackerDump | None:
        """The dump that a crash left behind, if any."""
        ...

    def keep_tracker_dump(self, source: str, dump: TrackerDump) -> None:
        """Write the dump, replacing an older one."""
        ...

    def drop_tracker_dump(self, source: str, position: Position) -> None:
        """Forget the dump of the statement at `position`, which is applied and checkpointed; another one stays."""
        ...

    def save_position(
        self, source: str, position: Position, records_offset: int, topic_offsets: Mapping[str, int], rows: Rows
    ) -> None:
        """Mirror a source's position (global_event_state) and its topics' last offsets (data_event_checkpoint).

        In the same transaction `rows` are added, so that each position record counts once.
        """
        ...

    def position(self, source: str) -> tuple[Position, int] | None:
        """The mirrored position and the offset in the positions topic it was read up to."""
        ...

    def heartbeat(self, source: str) -> tuple[int, int] | None:
        """The mirrored serial and time (Unix ms) of the newest heartbeat before the position, None before the first."""
        ...

    def topic_offsets(self, source: str) -> Mapping[str, int]:
        """Where the partitions of a source's topics ended, as mirrored, by `topic/partition`."""
        ...

    def add_rows(self, link: str, rows: Rows) -> None:
        """Add to the tables' progress."""
        ...

    def save_link(self, progress: LinkProgress) -> None:
        """Replace what is known of a link."""
        ...

    def save_table_lags(self, link: str, behind_since_ms: Mapping[str, int]) -> None:
        """Write down since when each of some tables is behind, 0 for those that are not."""
        ...

    def save_place(self, link: str, offset: int) -> None:
        """Write down which offset of its topic a link reads next."""
        ...

    def place(self, link: str) -> int | None:
        """The offset that `save_place` wrote down, None if it never did."""
        ...

    def stop_table(self, link: str, table: str, error: str, hint: str, since_ms: int) -> None:
        """Write down that a table stopped, since when and why. `resume_table` takes it back."""
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
