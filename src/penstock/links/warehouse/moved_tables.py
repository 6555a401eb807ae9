"""A target that has a link's tables in another schema than the source has them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.core.errors import PositionError
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.core.batches import Batch
    from penstock.core.schema_changes import Move
    from penstock.core.tables import TableSchema
    from penstock.ports.sink import Loaded, Sink


class MovedTables:
    """A `Sink` whose caller knows tables by the source's names, all of one schema, and whose target by its own.

    All that the target remembers has its own names.
    """

    def __init__(self, sink: Sink, origin: str, schema: str) -> None:
        """Have the tables of the source's schema `origin` in `schema` of `sink`, which is closed with this."""
        self._sink = sink
        self._origin = origin
        self._schema = schema

    def batch_offset(self) -> int:
        """See `Sink`."""
        return self._sink.batch_offset()

    def waiting(self) -> dict[TableId, int]:
        """See `Sink`. Raises PositionError where the link had another schema before."""
        found = self._sink.waiting()
        if strange := [table for table in found if table.schema != self._schema]:
            message = f"{strange[0]} waits in the target, and the link puts all of its tables into {self._schema}"
            raise PositionError(message, "give the link the `schema` that it had")
        return {TableId(self._origin, table.name): offset for table, offset in found.items()}

    def finish(
        self, batch_offset: int, waiting: Mapping[TableId, int] | None = None, anew: Collection[TableId] = ()
    ) -> None:
        """See `Sink`."""
        moved = None if waiting is None else {self._table(table): offset for table, offset in waiting.items()}
        self._sink.finish(batch_offset, moved, {self._table(table) for table in anew})

    def positions(self, table: TableId) -> Mapping[tuple[str, int], int]:
        """See `Sink`."""
        return self._sink.positions(self._table(table))

    def load(
        self, table: TableId, batches: Sequence[Batch], schemas: Mapping[int, TableSchema], at_once: int = 1
    ) -> Loaded:
        """See `Sink`."""
        return self._sink.load(self._table(table), self._batches(batches), self._schemas(schemas), at_once)

    @property
    def tables_together(self) -> int:
        """See `Sink`."""
        return self._sink.tables_together

    def load_together(
        self, work: Mapping[TableId, Sequence[Batch]], schemas: Mapping[int, TableSchema]
    ) -> Mapping[TableId, Loaded]:
        """See `Sink`."""
        moved = {self._table(table): self._batches(batches) for table, batches in work.items()}
        loaded = self._sink.load_together(moved, self._schemas(schemas))
        return {table: loaded[self._table(table)] for table in work}

    def rename(self, moves: Sequence[Move], order: tuple[int, int, int], schemas: Mapping[int, TableSchema]) -> None:
        """See `Sink`."""
        self._sink.rename([self._move(move) for move in moves], order, self._schemas(schemas))

    def close(self) -> None:
        """See `Sink`."""
        self._sink.close()

    def _table(self, table: TableId) -> TableId:
        """Tables of other schemas are not the link's: they are named where one was renamed from or to there."""
        return replace(table, schema=self._schema) if table.schema == self._origin else table

    def _schemas(self, schemas: Mapping[int, TableSchema]) -> dict[int, TableSchema]:
        return {number: replace(schema, table=self._table(schema.table)) for number, schema in schemas.items()}

    def _batches(self, batches: Sequence[Batch]) -> list[Batch]:
        return [
            replace(batch, table=self._table(batch.table), moves=tuple(self._move(move) for move in batch.moves))
            for batch in batches
        ]

    def _move(self, move: Move) -> Move:
        origin, table = (str(self._table(TableId.parse(name))) for name in (move.origin, move.table))
        return move._replace(origin=origin, table=table)
