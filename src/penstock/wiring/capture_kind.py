"""What a capture and everybody else asks of a source of any kind; `capture_kinds` picks the one that answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from penstock.config.audits import AuditSpec
    from penstock.config.specs import SourceSpec
    from penstock.core.findings import Finding
    from penstock.core.positions import Position
    from penstock.core.refusals import Refusal
    from penstock.core.tables import TableId, TableSchema
    from penstock.links.capture.open_capture import OpenCapture
    from penstock.links.capture.refreshers import Refreshers
    from penstock.links.capture.spec import CaptureSpec
    from penstock.links.capture.table_catalog import TableCatalog
    from penstock.ports.audited import AuditedSource
    from penstock.ports.initial_snapshot import InitialSnapshot
    from penstock.ports.log import LogReading, LogStream, Stop
    from penstock.ports.replay import Replay
    from penstock.ports.snapshots import RowReader
    from penstock.ports.source import SourceLog
    from penstock.ports.source_status import SourceStatus
    from penstock.ports.state import State
    from penstock.ports.tracker import SchemaCatalog, UnloggedChanges


class SourceLook(Protocol):
    """A source that was looked at before anything is read from it. At each start: another server may answer now."""

    @property
    def identity(self) -> str:
        """Which server it is: a position is of this one's log."""
        ...

    def require_reached(self, position: Position) -> None:
        """Raise LogError if the source is in an older state than the one that was read up to `position`."""
        ...

    def start_of_log(self) -> Position | str:
        """Where a first start begins if the file and the log allow it without a copy, else why not, in words."""
        ...

    def snapshot_from(self) -> Position | None:
        """A place before any copy from now on, if a copy makes something in the source that must be known as ours."""
        ...


class CaptureKind(Protocol):
    """Opens what a capture of one kind of source needs, and asks such a source what others want to know of it.

    Nothing is kept between two calls.
    """

    def look(self, spec: CaptureSpec) -> AbstractContextManager[SourceLook]:
        """Look at the source. Raises UnfitServerError where its log lacks what we carry, UnavailableError."""
        ...

    def snapshot(self, spec: CaptureSpec, *, again: bool) -> AbstractContextManager[InitialSnapshot]:
        """Open a copy of the wanted tables, as they are at a position that is not before any copy of earlier.

        `again`: a copy was begun before, and what it made in the source is ours.
        """
        ...

    def snapshot_silence_seconds(self) -> float:
        """For how long a copy may say nothing, at most."""
        ...

    def catalog(self, spec: CaptureSpec) -> SchemaCatalog:
        """What the tables look like at the place that was reached."""
        ...

    def unlogged(self, spec: CaptureSpec, catalog: SchemaCatalog) -> UnloggedChanges:
        """What the source changes without logging it."""
        ...

    def replay(self, spec: CaptureSpec, state: State, table_catalog: TableCatalog) -> Replay:
        """What brings the catalog of `table_catalog` past statements; it closes `state` and leaves the book open."""
        ...

    def stream(
        self,
        spec: CaptureSpec,
        position: Position,
        stop: Stop,
        connection_index: int,
        table_catalog: TableCatalog | None,
    ) -> LogStream:
        """Ask the source for its log from `position`, on the `connection_index`-th connection of this pipeline.

        Its rows are those of wanted tables, and of tables whose changes reach into these, as `table_catalog` knows.
        """
        ...

    def reading(self, spec: CaptureSpec, begin: Position, table_catalog: TableCatalog) -> LogReading:
        """What reads the items of a stream that begins at `begin`, where tables are as `table_catalog` knows."""
        ...

    def refreshing(self, spec: CaptureSpec, capture: OpenCapture) -> Refreshers | None:
        """What carries snapshots beside a capture that has begun; None where it cannot."""
        ...

    def rows(self, source: SourceSpec, pipeline: str) -> RowReader:
        """What reads rows again for `pipeline`; nothing is connected yet, and whoever takes it closes it."""
        ...

    def on_top_of(self, base: Position, position: Position) -> Position:
        """Return `position`, read from `base` on by somebody who knew nothing but that place."""
        ...

    def require_fit(self, source: SourceSpec) -> None:
        """Raise UnfitServerError, or UsageError, if it cannot be captured as the file wants; warn of what may be."""
        ...

    def examine(self, source: SourceSpec, pipeline: str) -> Iterator[Finding]:
        """Yield everything that `penstock check --connect` says of it; never raises for a server that is away."""
        ...

    def status(self, source: SourceSpec, position: Position | None, *, is_snapshotting: bool) -> SourceStatus:
        """How far its log reaches behind and ahead of `position`. Raises UnavailableError.

        While `is_snapshotting` nobody reads the log yet, and what a copy makes in the source may be behind `position`.
        """
        ...

    def tables(self, source: SourceSpec) -> Mapping[TableId, TableSchema]:
        """Its tables as they are now: those that it carries, and maybe others."""
        ...

    def refusal(self, before: TableSchema, after: TableSchema) -> Refusal | None:
        """Why rows of `before` cannot be carried on as those of `after`, by their types; None if they can."""
        ...

    def unlogged_changes(
        self, source: SourceSpec, told: Callable[[], Sequence[TableSchema]]
    ) -> Mapping[TableId, str] | None:
        """What to know of the tables that were `told` of and were changed since, with no row behind it in the log.

        None where the log itself tells of every change. Raises UnavailableError.
        """
        ...

    def log(self, source: SourceSpec) -> SourceLog:
        """What the source says of its log; nothing is connected yet."""
        ...

    def audited(self, source: SourceSpec, audit: AuditSpec) -> AuditedSource:
        """Connect to it, or to the replica of `audit`, to read it. Raises UnavailableError and UnfitServerError."""
        ...
