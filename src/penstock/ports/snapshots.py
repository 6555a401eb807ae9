"""Reading rows again, and what is asked for and told of snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from penstock.core.changes import RowBatch
    from penstock.core.errors import UnavailableError
    from penstock.core.positions import Position
    from penstock.core.snapshots import SnapshotOptions, Status, Wanted
    from penstock.core.tables import TableId, TableSchema


@dataclass(frozen=True, slots=True)
class ChunkOrder:
    """Which rows of a table to read: those of `options` from `cursor` up to `until`, `options.chunk_rows` at most.

    `until` is "" for up to the last row; `ahead` is how many more chunks are to be marked off behind this one.
    They must be as they were at `low` or later. `schema` is what the table looks like there,
    and `snapshot_id` the snapshot that they are of.
    """

    schema: TableSchema
    options: SnapshotOptions
    cursor: str
    low: Position
    snapshot_id: str
    until: str = ""
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows as they were at a place from the order's `low` up to `high`.

    `rows` is a READ batch and `gone` a DELETE batch of listed keys that are not
    there, None for none; their places in the log mean nothing. `cursor` is where
    the next chunk begins, None if there is none; `ahead` are as many cursors behind it as
    were asked for, and can be given, in order, `options.chunk_rows` rows apart.
    With `begins_again` nothing was read: rows are in another order now than when the
    order's cursors were given. `rows_expected` is about how many rows there are in all.
    With the method `BLACKHOLE` there are no `rows`: the log itself has them, `copied` of
    them, behind the place `copied_from`. With `waits` nothing was read: it says what has to come first.
    """

    rows: RowBatch | None
    gone: RowBatch | None
    high: Position
    cursor: str | None
    rows_expected: int | None = None
    copied: int = 0
    copied_from: Position | None = None
    ahead: Sequence[str] = ()
    begins_again: bool = False
    waits: UnavailableError | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """What a table looks like, for as long as nothing is done to it up to `high`; `dump` makes it on the tracker."""

    schema: TableSchema
    dump: str
    high: Position


class RowReader(Protocol):
    """Reads rows of a source again; with the method `READ_ONLY` without writing to it or locking rows.

    One thread at a time may use it.
    """

    def read(self, order: ChunkOrder) -> Chunk:
        """Read the chunk.

        Raises UnavailableError where trying again may help, among others when the
        table does not look as `order` says; TableStoppedError for values that
        cannot be carried; and UsageError for what was asked wrongly.
        """
        ...

    def define(self, table: TableId, low: Position, options: SnapshotOptions) -> Definition:
        """Look at a table's definition, at `low` or later.

        Raises UsageError if there is no such table, or its rows cannot be read as `options` say, whatever they are.
        """
        ...

    def lock(self, table: TableId, low: Position) -> Definition:
        """Have nobody change `table` until `release`, and look at its definition as `define` does.

        `read` then hands out its rows, with the method `FULL_LOCK`. Raises
        UnavailableError where the lock is not to be had soon, and UsageError where we may not have it.
        """
        ...

    def holds(self, table: TableId) -> bool:
        """Whether `table` is locked, as far as we know."""
        ...

    def release(self) -> None:
        """Let go of the table that is locked, if one is."""
        ...

    def sweep(self, is_over: Callable[[str], bool]) -> None:
        """Drop what snapshots with ids that are over have left behind in the source. Raises as `read` does."""
        ...

    def tables(self) -> Sequence[TableId]:
        """Every table that the source has now, its own left out."""
        ...

    def check(self, table: TableId, options: SnapshotOptions) -> None:
        """Raise UsageError where a snapshot of `table` with `options` could not begin."""
        ...

    def waits(self) -> UnavailableError | None:
        """What chunks without a lock have to wait for now, None for nothing: see Chunk. Raises as `read` does."""
        ...

    def close(self) -> None:
        """Drop the connection. Safe to call twice."""
        ...


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot as people see it; `error` is "" unless it failed or waits.

    `ran_ms` is for how long its rows were read, without what it was paused or waited for another try.
    """

    id: str
    source: str
    table: str
    options: SnapshotOptions
    wanted: Wanted
    status: Status
    rows: int = 0
    rows_expected: int | None = None
    requested_at_ms: int = 0
    started_at_ms: int = 0
    updated_at_ms: int = 0
    error: str = ""
    hint: str = ""
    ran_ms: int = 0


class SnapshotList(Protocol):
    """A pipeline's snapshots in the state database. What is published is in the position record, not here."""

    def add(self, snapshot: Snapshot, in_place_of: Collection[str] = ()) -> None:
        """Ask for a snapshot. Raises UsageError while there is one of its table that has not ended.

        One with an id of `in_place_of` is cancelled in the same step, and may end later.
        """
        ...

    def want(self, id_: str, wanted: Wanted) -> None:
        """Say what is wanted of a snapshot from now on."""
        ...

    def tell(self, snapshot: Snapshot) -> None:
        """Write down how a snapshot is: its status, its rows, its error. What is wanted of it stays."""
        ...

    def all(self, source: str | None = None, *, is_open: bool = False) -> Sequence[Snapshot]:
        """Those of `source` (None: of all), oldest first; with `is_open` those that have not ended."""
        ...

    def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        ...
