"""Somewhere rows end up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.core.batches import Batch
    from penstock.core.schema_changes import Move
    from penstock.core.tables import TableId, TableSchema


@dataclass(frozen=True, slots=True)
class Loaded:
    """What one load did: how many changes were new to the target, and when they became visible.

    `note` is what people should know of the table from here on, "" for nothing,
    None if that is as it was. `out_of_range` is how many values the target could not
    hold, and became others as configured.
    """

    rows: int
    committed_at_ms: int
    note: str | None = None
    out_of_range: int = 0


class Sink(Protocol):
    """A warehouse.

    Rows, schema and position become visible in one step, so loading a batch
    twice has the effect of loading it once: also one that empties its table, whose
    place in the source's log the target remembers. A sink keeps no progress in memory:
    after a crash `batch_offset()` and `positions()` answer from the target itself.
    """

    def batch_offset(self) -> int:
        """The offset in the batch topic from which to read on; 0 in a new target.

        It is as `finish` was given it: a `BatchOffset` tells which message is before it.
        """
        ...

    def waiting(self) -> Mapping[TableId, int]:
        """For each table that waits: the offset in the batch topic from which to read it, before `batch_offset()`.

        It is -1 for one that the link has dropped, and -2 for one that waits for its snapshot.
        """
        ...

    def finish(
        self, batch_offset: int, waiting: Mapping[TableId, int] | None = None, anew: Collection[TableId] = ()
    ) -> None:
        """Remember that every batch before `batch_offset` of the batch topic is loaded.

        Of a table in `waiting` every batch before the offset there is, and no other; -1 and -2 are kept as they are.
        Without `waiting` the tables that wait are as they were. What is loaded of the
        tables in `anew`, which are in `waiting`, does not count: they begin with the batch there, and no other
        table gets their rows by a `rename` from before it. Raises ConflictError where somebody else has moved the
        offset since this sink read it or wrote it, as far as the target can tell.
        """
        ...

    def positions(self, table: TableId) -> Mapping[tuple[str, int], int]:
        """For each (topic, partition) of `table`: the first Kafka offset that is not loaded."""
        ...

    def treated(self, table: TableId) -> Mapping[str, str] | None:
        """What is done to each column of `table`, by its name in lower case: "" for one that comes as it is.

        It is so under whatever name a rule was for it. None where nothing was ever done to a column of the table.
        """
        ...

    def absent(self, tables: Collection[TableId]) -> Collection[TableId]:
        """Which of `tables` the target does not have: it never had them, or they ended there and are gone."""
        ...

    def load(
        self, table: TableId, batches: Sequence[Batch], schemas: Mapping[int, TableSchema], at_once: int = 1
    ) -> Loaded:
        """Load `batches` of one table, in order, in one transaction, or very many rows in several.

        A target whose transactions are smaller takes several, each of which has
        the positions of its rows in it and leaves a state that the source's table had.

        `schemas` has the table's schema for every schema id in `batches`. Batches
        that are already in are skipped; a hole before a batch raises TableStoppedError.
        `at_once` tables are loaded side by side, in the same memory. Raises
        TableStoppedError when the table cannot take them and SinkError when the target
        fails. Where the first batch begins the table anew, it does not matter what is there of it.
        """
        ...

    @property
    def tables_together(self) -> int:
        """How many tables with a few rows each are best loaded in one transaction; 1 where each has its own."""
        ...

    def load_together(
        self, work: Mapping[TableId, Sequence[Batch]], schemas: Mapping[int, TableSchema]
    ) -> Mapping[TableId, Loaded]:
        """Do what `load` does to several tables, in one transaction.

        Raises TableStoppedError, whichever table it names, where one of them cannot
        take its batches: then nothing is loaded, and `load` finds out which it is.
        """
        ...

    def rename(self, moves: Sequence[Move], order: tuple[int, int, int], schemas: Mapping[int, TableSchema]) -> None:
        """Give tables with rows other names, all at once and at most once: `order` is where the source did it.

        Every batch of theirs from before `order` is loaded, and none from behind
        it. What else had one of the new names is gone. `schemas` has the schema of
        every new name. Raises TableStoppedError when one of them cannot be had.
        """
        ...

    def close(self) -> None:
        """Let go of the target."""
        ...
