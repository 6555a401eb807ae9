"""What refreshers know of the snapshots of a capture: what is read, what is locked, and what all of them share."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from penstock.core.chunk_plan import ChunkPlan
from penstock.core.errors import UnavailableError
from penstock.core.snapshots import Method, Status
from penstock.links.capture.running_time import RunningTime
from penstock.ports.snapshots import ChunkOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future

    from penstock.core.chunk_plan import KeyRange
    from penstock.core.positions import Position
    from penstock.core.snapshots import SnapshotProgress, Window
    from penstock.core.tables import TableId, TableSchema
    from penstock.ports.snapshots import Chunk, Definition, Snapshot, SnapshotList

What: TypeAlias = "Chunk | Definition"
_Answer = TypeVar("_Answer")
# The config may have publications ten seconds apart.
_NEAR_SECONDS = 12.0
_CHUNKS_AHEAD = 16


class Start(Protocol):
    """Runs one thing after the other, beside the capture: `submit` of an executor with one thread."""

    def __call__(self, question: Callable[[], _Answer], /) -> Future[_Answer]:
        """Have `question` asked."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """What is being read for a snapshot, and what the log has told of its table since it began, at `began`.

    `is_probe` says that it is only looked how far the capture is behind the source.
    """

    snapshot: Snapshot
    table: TableId
    topic: str
    future: Future[What]
    window: Window
    began: float
    is_probe: bool
    key_range: KeyRange | None = None


@dataclass(frozen=True, slots=True)
class Locked:
    """The table that a snapshot has locked; what the log tells of it since it began anew makes `window` void."""

    snapshot: Snapshot
    table: TableId
    topic: str
    window: Window


@dataclass(frozen=True, slots=True)
class Near:
    """The capture was seen near the end of the source's log, for a snapshot that locks; that counts `until`."""

    snapshot_id: str
    until: float

    def holds(self, snapshot: Snapshot) -> bool:
        """Whether `snapshot` may lock its table now."""
        return snapshot.id == self.snapshot_id and time.monotonic() < self.until


def near_since(probe: Reading) -> Near:
    """Tell that the capture has just come to where the source was when it was probed.

    Raises UnavailableError if that took long.
    """
    now = time.monotonic()
    behind = now - probe.began
    if behind > _NEAR_SECONDS:
        message = f"{probe.table} is not locked yet: the capture is about {behind:.0f} seconds behind the source"
        raise UnavailableError(message, f"it is locked once that is less than {_NEAR_SECONDS:.0f} seconds")
    return Near(probe.snapshot.id, now + _NEAR_SECONDS)


def is_first(snapshot: Snapshot, begun: Mapping[str, SnapshotProgress]) -> bool:
    """Whether none of its table has `begun` and is yet to end, in whose place it came."""
    return all(id_ == snapshot.id or progress.table != snapshot.table for id_, progress in begun.items())


@dataclass(slots=True)
class Known:
    """What all refreshers of a capture know of its snapshots, by their ids; `taken` says by which of them.

    `paused` are the tables whose snapshots wait for people. `tables_max` of them are read
    at once, and `chunks_max` chunks of each. `failures` are how many tries failed one after
    the other, and when the last of them did. `waiting` are the tables of snapshots of which
    no chunk could be read when it was tried last, for something else has to come first.
    `fates` are snapshots that have ended early, and that the state database could not be told of yet.
    """

    tables_max: int
    chunks_max: int
    taken: dict[str, list[object]] = field(default_factory=dict)
    plans: dict[str, ChunkPlan] = field(default_factory=dict)
    failures: dict[str, tuple[int, float]] = field(default_factory=dict)
    chunk_rows: dict[str, int] = field(default_factory=dict)
    not_before: dict[str, float] = field(default_factory=dict)
    tell_at: dict[str, float] = field(default_factory=dict)
    running_times: dict[str, RunningTime] = field(default_factory=dict)
    paused: frozenset[str] = frozenset()
    waiting: dict[str, str] = field(default_factory=dict)
    fates: dict[str, Snapshot] = field(default_factory=dict)

    def tell_fates(self, snapshots: SnapshotList) -> None:
        """Write down how snapshots ended: one that the list takes for open would begin again. Raises as `tell` does."""
        for id_, fate in list(self.fates.items()):
            snapshots.tell(fate)
            del self.fates[id_]

    def others(self, id_: str, me: object) -> int:
        """How many others are at a snapshot."""
        return sum(1 for each in self.taken.get(id_, ()) if each is not me)

    def may_take(self, snapshot: Snapshot, me: object, progress: SnapshotProgress | None) -> bool:
        """Whether nobody else is at a snapshot, or it has begun and one more may read chunks of it."""
        others, has_begun = self.others(snapshot.id, me), progress is not None and bool(progress.cursor)
        return not others or (self.shares(snapshot) and has_begun and others < self.chunks_max)

    def shares(self, snapshot: Snapshot) -> bool:
        """Whether several chunks of a snapshot are read at once.

        With a condition nobody knows how many rows a range has, and a pace is that of one chunk at a time.
        """
        options = snapshot.options
        is_plain = not (options.keys or options.where or options.rows_per_second)
        return is_plain and options.method is Method.READ_ONLY and self.chunks_max > 1

    def has_room(self, id_: str, me: object) -> bool:
        """Whether one more table may be read at once, if this snapshot is of one."""
        return id_ in self.taken or sum(1 for other in self.taken if self.others(other, me)) < self.tables_max

    def turn(self, id_: str, me: object, now: float) -> tuple[float, bool, int]:
        """What the next snapshot is chosen by, of which this is the least: those that were found to wait come last."""
        return max(self.not_before.get(id_, 0.0), now), id_ in self.waiting, self.others(id_, me)

    def take(self, ids: Iterable[str], me: object) -> None:
        """Note which snapshots somebody is at: these, and no others."""
        kept = {id_: [each for each in owners if each is not me] for id_, owners in self.taken.items()}
        for id_ in ids:
            kept.setdefault(id_, []).append(me)
        self.taken = {id_: owners for id_, owners in kept.items() if owners}

    def plan(self, id_: str, progress: SnapshotProgress | None) -> ChunkPlan:
        """What of a snapshot is left to read."""
        if id_ not in self.plans:
            self.plans[id_] = ChunkPlan([("", "")] if progress is None else progress.ranges)
        return self.plans[id_]

    def order(self, snapshot: Snapshot, schema: TableSchema, key_range: KeyRange, low: Position) -> ChunkOrder:
        """What to read of a snapshot next."""
        options = replace(snapshot.options, chunk_rows=self.chunk_rows.get(snapshot.id, snapshot.options.chunk_rows))
        ahead = 0 if key_range.is_chunk or not self.shares(snapshot) else _CHUNKS_AHEAD
        return ChunkOrder(schema, options, key_range.begin, low, snapshot.id, key_range.end, ahead)

    def noted(self, reading: Reading, progress: SnapshotProgress, expected: int | None) -> Snapshot:
        """How the snapshot is once a chunk is published; of about `expected` rows, if it was not known before."""
        snapshot = reading.snapshot
        running_time = self.running_times.setdefault(snapshot.id, RunningTime(snapshot.ran_ms / 1000))
        return replace(
            snapshot,
            status=Status.DONE if progress.is_done else Status.RUNNING,
            rows=progress.rows,
            rows_expected=expected if snapshot.rows_expected is None else snapshot.rows_expected,
            started_at_ms=snapshot.started_at_ms or time.time_ns() // 1_000_000,
            error="",
            hint="",
            ran_ms=running_time.count(reading.began),
        )

    def waits(self, id_: str) -> None:
        """Note that nobody reads for a snapshot just now."""
        if id_ in self.running_times:
            self.running_times[id_].stop()

    def begins_again(self, id_: str) -> None:
        """Note that a snapshot has no rows yet."""
        self.plans.pop(id_, None)
        self.running_times[id_] = RunningTime(0)

    def counts(self, reading: Reading) -> bool:
        """Whether what is read is still to be read: its snapshot has neither ended nor begun again."""
        plan = self.plans.get(reading.snapshot.id)
        return reading.key_range is None or (plan is not None and plan.has(reading.key_range))

    def failed(self, reading: Reading) -> int:
        """Count a try that failed, and return how many did; what had begun before the last one failed is part of it."""
        self.waiting.pop(reading.snapshot.id, None)
        count, at = self.failures.get(reading.snapshot.id, (0, reading.began))
        if reading.began >= at:
            count, at = count + 1, time.monotonic()
        self.failures[reading.snapshot.id] = count, at
        return count

    def left_after(self, reading: Reading, chunk: Chunk) -> tuple[tuple[str, str], ...]:
        """Which ranges are left once `chunk` is published, whose reading counts."""
        plan = self.plans[reading.snapshot.id]
        if reading.key_range is not None:
            plan.done(reading.key_range, chunk.cursor, chunk.ahead)
        return plan.left()

    def forget(self, id_: str) -> None:
        """Have nobody go on with a snapshot: what they have read of it does not count."""
        self.taken.pop(id_, None)
        self.plans.pop(id_, None)
        self.waiting.pop(id_, None)
