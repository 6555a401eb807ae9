"""A locked table of MySQL is let go of, whatever is being done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, cast

from tests.unit.links.snapshot_source import TABLE

from penstock.adapters.mysql.table_lock import LockedTable
from penstock.core.mysql.types.text_rows import PrintedRows

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    import pymysql


class Connection:
    """A driver's connection to a server that grants everything."""

    open = True

    def cursor(self) -> Connection:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def execute(self, statement: bytes) -> None:
        """Everything works."""

    def fetchall(self) -> Sequence[object]:
        return ()

    def close(self) -> None:
        self.open = False


def test_a_lock_ends_also_while_another_thread_reads_rows_over_its_connection() -> None:
    connection = Connection()
    locked = LockedTable(cast("pymysql.Connection", connection), TABLE)

    def rows() -> Generator[PrintedRows]:
        # As whoever closes it from elsewhere, while this runs.
        locked.close()
        yield PrintedRows(())

    locked._rows = rows()
    next(locked._rows)

    assert not locked.is_held
