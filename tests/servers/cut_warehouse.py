"""Warehouses that fail on purpose, or that can do less than they could."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from penstock.core.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from penstock.core.tables import TableId
    from penstock.core.warehouse.dialect import Dialect
    from penstock.core.warehouse.target_table import TargetTable
    from penstock.ports.warehouse import Value, Warehouse

T = TypeVar("T")


class CutError(UnavailableError):
    """The connection was cut on purpose."""


class CutWarehouse:
    """A warehouse whose connection is cut before one of its statements, or on one side of a commit."""

    def __init__(self, warehouse: Warehouse, statements: int) -> None:
        self._warehouse = warehouse
        self._left = statements

    def run(self, statement: str, values: Sequence[Value] = ()) -> None:
        self._count()
        self._warehouse.run(statement, values)

    def fetch(self, statement: str, values: Sequence[Value] = ()) -> list[tuple[Value, ...]]:
        self._count()
        return self._warehouse.fetch(statement, values)

    def adding(self) -> Callable[[TargetTable, pa.Table], None] | None:
        add = self._warehouse.adding()
        if add is None:
            return None

        def counted(target: TargetTable, rows: pa.Table) -> None:
            self._count()
            add(target, rows)

        return counted

    def transact(self, work: Callable[[], T], tables: Sequence[TableId] = (), *, lock_seconds: float = 2.0) -> T:
        def counted() -> T:
            result = work()
            self._count()
            return result

        result = self._warehouse.transact(counted, tables, lock_seconds=lock_seconds)
        self._count()
        return result

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            self._warehouse.close()
            message, hint = "cut", "-"
            raise CutError(message, hint)

    def __getattr__(self, name: str) -> object:
        return getattr(self._warehouse, name)


class LesserWarehouse:
    """A warehouse with another dialect, such as one that cannot change a type in its place."""

    def __init__(self, warehouse: Warehouse, dialect: Dialect) -> None:
        self._warehouse = warehouse
        self.dialect = dialect

    def __getattr__(self, name: str) -> object:
        return getattr(self._warehouse, name)
