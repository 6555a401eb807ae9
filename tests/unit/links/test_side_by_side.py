"""Tables are loaded side by side, and share memory only with those that are loaded at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.tables import TableId
from penstock.links.warehouse.load_rules import LoadRules
from penstock.links.warehouse.side_by_side import SideBySide
from penstock.ports.sink import Loaded

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.core.batches import Batch
    from penstock.core.schema_changes import Move
    from penstock.core.tables import TableSchema

TABLES = [TableId("shop", name) for name in ("users", "orders", "items")]


class ListedLoads:
    """A target without rows, which remembers what it was asked."""

    def __init__(self, loads: list[tuple[TableId, int]]) -> None:
        self._loads = loads

    def load(
        self, table: TableId, batches: Sequence[Batch], schemas: Mapping[int, TableSchema], at_once: int = 1
    ) -> Loaded:
        del batches, schemas
        self._loads.append((table, at_once))
        return Loaded(1, 0)

    def batch_offset(self) -> int:
        raise AssertionError

    def waiting(self) -> dict[TableId, int]:
        raise AssertionError

    def finish(
        self, batch_offset: int, waiting: Mapping[TableId, int] | None = None, anew: Collection[TableId] = ()
    ) -> None:
        raise AssertionError((batch_offset, waiting, anew))

    def positions(self, table: TableId) -> dict[tuple[str, int], int]:
        raise AssertionError(table)

    def treated(self, table: TableId) -> dict[str, str]:
        raise AssertionError(table)

    def absent(self, tables: Collection[TableId]) -> set[TableId]:
        raise AssertionError(tables)

    @property
    def tables_together(self) -> int:
        return 1

    def load_together(
        self, work: Mapping[TableId, Sequence[Batch]], schemas: Mapping[int, TableSchema]
    ) -> dict[TableId, Loaded]:
        raise AssertionError((work, schemas))

    def rename(self, moves: Sequence[Move], order: tuple[int, int, int], schemas: Mapping[int, TableSchema]) -> None:
        raise AssertionError((moves, order, schemas))

    def close(self) -> None:
        """Nothing is open."""


def load(tables: Sequence[TableId], sinks: int) -> list[tuple[TableId, int]]:
    loads: list[tuple[TableId, int]] = []
    side_by_side = SideBySide([ListedLoads(loads) for _ in range(sinks)])
    outcomes = dict(side_by_side.load({table: [] for table in tables}, {}))
    assert all(isinstance(outcomes[table], Loaded) for table in tables)
    return sorted(loads, key=str)


def test_a_table_that_is_loaded_alone_has_all_memory() -> None:
    assert load(TABLES[:1], sinks=2) == [(TABLES[0], 1)]
    assert load(TABLES, sinks=1) == sorted([(table, 1) for table in TABLES], key=str)


def test_tables_share_with_as_many_as_are_loaded_at_once() -> None:
    assert load(TABLES, sinks=2) == sorted([(table, 2) for table in TABLES], key=str)
    assert load(TABLES[:2], sinks=4) == sorted([(table, 2) for table in TABLES[:2]], key=str)


def test_a_share_is_of_rows_and_bytes_and_never_nothing() -> None:
    rules = LoadRules(rows_max=10, bytes_max=3, held_bytes_max=9)

    share = rules.shared_by(4)
    assert (share.rows_max, share.bytes_max, share.held_bytes_max) == (2, 1, 2)
    assert rules.shared_by(1) == rules
