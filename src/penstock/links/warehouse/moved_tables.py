"""A target that has a link's tables in another schema than the source has them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.core.batches import Batch
    from penstock.core.schema_changes import Move
    from penstock.core.tables import TableSchema
    from penstock.core.warehouse.moved_names import MovedNames
    from penstock.ports.sink import Loaded, Sink


class MovedTables:
    """A `Sink` whose caller knows tables by the source's names, all of one schema, and whose target by its own.

    All that the target remembers has its own names.
    """

    def __init__(self, sink: Sink, names: MovedNames) -> None:
        """Have the tables in `sink`, which is closed with this, as `names` has it."""
        self._sink = sink
        self._names = names

    def batch_offset(self) -> int:
        """See `Sink`."""
        return self._sink.batch_offset()

    def waiting(self) -> dict[TableId, int]:
        """See `Sink`. Raises PositionError where the link had another schema before."""
        return {self._names.in_source(table): offset for table, offset in self._sink.waiting().items()}

    def finish(
        self, batch_offset: int, waiting: Mapping[TableId, int] | None = None, anew: Collection[TableId] = ()
    ) -> None:
        """See `Sink`."""
        moved = None if waiting is None else {self._names.in_target(table): offset for table, offset in waiting.items()}
        self._sink.finish(batch_offset, moved, {self._names.in_target(table) for table in anew})

    def positions(self, table: TableId) -> Mapping[tuple[str, int], int]:
        """See `Sink`."""
        return self._sink.positions(self._names.in_target(table))

    def treated(self, table: TableId) -> Mapping[str, str] | None:
        """See `Sink`."""
        return self._sink.treated(self._names.in_target(table))

    def absent(self, tables: Collection[TableId]) -> set[TableId]:
        """See `Sink`."""
        there = self._sink.absent([self._names.in_target(table) for table in tables])
        return {table for table in tables if self._names.in_target(table) in there}

    def load(
        self, table: TableId, batches: Sequence[Batch], schemas: Mapping[int, TableSchema], at_once: int = 1
    ) -> Loaded:
        """See `Sink`."""
        return self._sink.load(self._names.in_target(table), self._batches(batches), self._schemas(schemas), at_once)

    @property
    def tables_together(self) -> int:
        """See `Sink`."""
        return self._sink.tables_together

    def load_together(
        self, work: Mapping[TableId, Sequence[Batch]], schemas: Mapping[int, TableSchema]
    ) -> Mapping[TableId, Loaded]:
        """See `Sink`."""
        moved = {self._names.in_target(table): self._batches(batches) for table, batches in work.items()}
        loaded = self._sink.load_together(moved, self._schemas(schemas))
        return {table: loaded[self._names.in_target(table)] for table in work}

    def rename(self, moves: Sequence[Move], order: tuple[int, int, int], schemas: Mapping[int, TableSchema]) -> None:
        """See `Sink`."""
        self._sink.rename([self._move(move) for move in moves], order, self._schemas(schemas))

    def close(self) -> None:
        """See `Sink`."""
        self._sink.close()

    def _schemas(self, schemas: Mapping[int, TableSchema]) -> dict[int, TableSchema]:
        return {
            number: replace(schema, table=self._names.in_target(schema.table)) for number, schema in schemas.items()
        }

    def _batches(self, batches: Sequence[Batch]) -> list[Batch]:
        return [
            replace(
                batch, table=self._names.in_target(batch.table), moves=tuple(self._move(move) for move in batch.moves)
            )
            for batch in batches
        ]

    def _move(self, move: Move) -> Move:
        origin, table = (str(self._names.in_target(TableId.parse(name))) for name in (move.origin, move.table))
        return move._replace(origin=origin, table=table)
