"""What a load has to do: which batches are new, which rows of them, and under which schema."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.core.errors import FILL_AGAIN, TableStoppedError
from penstock.core.schema_changes import SchemaChangeKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.batches import Batch
    from penstock.core.transforms.column_rules import Treatment


DroppedTables: TypeAlias = Literal["keep", "drop"]
"""What a target does with a table that the source has dropped: keep its rows, or drop it too."""

Deletes: TypeAlias = Literal["hard", "soft"]
"""What a table with a key does with a row that the source deletes: lose it, or keep it and say when it went."""

Overflow: TypeAlias = Literal["stop", "null", "clamp"]
"""What becomes of a value that the target cannot hold: see `penstock.core.warehouse.overflow`."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The new part of a batch: its rows from Kafka offset `from_offset` on.

    `treatment` is what the link's rules for columns do to them, None for nothing.
    """

    batch: Batch
    from_offset: int
    treatment: Treatment | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every row of the batch is new."""
        return self.from_offset <= self.batch.start_offset


@dataclass(frozen=True, slots=True)
class Step:
    """Pieces of one topic and one schema, in order, few enough to be merged at once.

    One that empties, begins or ends the table is a step on its own, and one that
    renames columns begins with that.
    """

    topic: str
    schema_id: int
    pieces: tuple[Piece, ...]

    @property
    def kind(self) -> SchemaChangeKind:
        """What becomes of the table."""
        return self.pieces[0].batch.kind

    @property
    def has_rows(self) -> bool:
        """Whether any of its batches has a file."""
        return any(piece.batch.rows for piece in self.pieces)

    @property
    def column_renames(self) -> tuple[tuple[str, str], ...]:
        """Which columns have got another name before its rows: (old, new)."""
        return self.pieces[0].batch.column_renames

    @property
    def first_orders(self) -> tuple[tuple[int, int, int], ...]:
        """Where each batch begins in the source's log."""
        return tuple(piece.batch.first_order for piece in self.pieces)

    @property
    def last_order(self) -> tuple[int, int, int]:
        """The furthest place in the source's log that a batch reaches."""
        return max(piece.batch.last_order for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class SchemaInPlace:
    """The schema that the target's table has, and where in the log it was first seen since another one was.

    Nothing moves while the schema stays: of each change the schema-change event comes
    before any rows behind it, so what is told of another one is older than that place,
    or younger than all rows of this one so far.
    """

    schema_id: int
    order: tuple[int, int, int]

    def gives_way_to(self, step: Step) -> bool:
        """Whether a batch of `step` is younger than the schema in place, and has another.

        One that is older only came late, from another partition.
        """
        return step.schema_id != self.schema_id and any(order > self.order for order in step.first_orders)

    def after(self, step: Step) -> SchemaInPlace:
        """Return the schema in place once `step` is merged: the same, for most, so that nothing is to be written."""
        return SchemaInPlace(step.schema_id, step.last_order) if self.gives_way_to(step) else self


def plan_steps(
    positions: Mapping[tuple[str, int], int], batches: Sequence[Batch], rows_max: int, bytes_max: int
) -> list[Step]:
    """Return what of `batches`, in their order, is not at `positions` yet, in steps.

    A step has at most `rows_max` rows and `bytes_max` bytes of files, unless a
    single batch has more. Schema-change events (no rows) are always in it: those of a
    schema do no harm twice, and of the others the target remembers the newest.
    Raises TableStoppedError for a hole.
    """
    steps: list[Step] = []
    for piece in _new_pieces(positions, batches):
        batch, last = piece.batch, steps[-1] if steps else None
        if last and _go_together(last, batch):
            together = (*last.pieces, piece)
            rows, size = sum(each.batch.rows for each in together), sum(each.batch.size_bytes for each in together)
            if rows <= rows_max and size <= bytes_max:
                steps[-1] = replace(last, pieces=together)
                continue
        steps.append(Step(batch.topic, batch.schema_id, (piece,)))
    return steps


def plan_transactions(
    batches: Sequence[Batch], rows_max: int, bytes_max: int, *, apart: bool = False
) -> list[Sequence[Batch]]:
    """Return `batches` in their order, in parts of at most `rows_max` rows and `bytes_max` bytes of files.

    A single batch may have more.

    A part is a transaction of its own: what a warehouse keeps of an open one, to be
    able to undo it, may be far more than its rows. Where they have to be `apart`,
    whatever may change the table's definition begins a part.
    """
    parts: list[list[Batch]] = [[]]
    rows = size = 0
    for batch in batches:
        changes = apart and bool(parts[-1]) and not _has_same_columns(parts[-1][-1], batch)
        if parts[-1] and (changes or rows + batch.rows > rows_max or size + batch.size_bytes > bytes_max):
            parts.append([])
            rows = size = 0
        parts[-1].append(batch)
        rows += batch.rows
        size += batch.size_bytes
    return list(parts)


def plan_positions(positions: Mapping[tuple[str, int], int], batches: Sequence[Batch]) -> dict[tuple[str, int], int]:
    """Return the positions that loading `batches` changes, with their new values.

    A schema-change event that speaks for no offset sets no position.
    """
    moved: dict[tuple[str, int], int] = {}
    for batch in batches:
        place = (batch.topic, batch.partition)
        known = moved.get(place, positions.get(place))
        if batch.end_offset > (batch.start_offset if known is None else known):
            moved[place] = batch.end_offset
    return moved


def _has_same_columns(before: Batch, batch: Batch) -> bool:
    """Whether nothing becomes of the table between two batches."""
    kinds = {before.kind, batch.kind}
    return before.schema_id == batch.schema_id and kinds == {SchemaChangeKind.SCHEMA} and not batch.column_renames


def _go_together(step: Step, batch: Batch) -> bool:
    same = (step.topic, step.schema_id) == (batch.topic, batch.schema_id)
    return (
        same
        and step.kind is SchemaChangeKind.SCHEMA
        and batch.kind is SchemaChangeKind.SCHEMA
        and not batch.column_renames
    )


def _new_pieces(positions: Mapping[tuple[str, int], int], batches: Sequence[Batch]) -> list[Piece]:
    known = dict(positions)
    pieces = []
    for batch in batches:
        place = (batch.topic, batch.partition)
        position = known.get(place, batch.start_offset)
        if batch.start_offset > position:
            reason = (
                f"the next batch of {batch.topic} partition {batch.partition} starts at offset {batch.start_offset}, "
                f"and the target has everything before {position} only: the link left the table out for a while, or "
                "the batch topic lost messages"
            )
            raise TableStoppedError(str(batch.table), "", "the target's table", reason, FILL_AGAIN)
        if batch.end_offset > position or not batch.rows:
            pieces.append(Piece(batch, position))
        if batch.end_offset > batch.start_offset:
            known[place] = max(position, batch.end_offset)
    return pieces
