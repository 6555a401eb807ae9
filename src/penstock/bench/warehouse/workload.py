"""The changes that are loaded: inserts, updates and deletes, made by the source itself, the same in every run."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.adapters.mysql.connection import ask, connect
from penstock.bench.capture.workload import insert_range, login, without_sync

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.tables import TableId
    from penstock.embedded.mariadb import MariadbServer

WARM_UP_ROWS: Final = 20_000
"""Rows that are there before the changes, and that no change touches."""

_TRANSACTIONS: Final = 100
_GRAIN: Final = 2_000
_TIMEOUT_SECONDS: Final = 600.0
_CYCLE: Final = 5
_STRIDE: Final = 7919
"""A prime, by which the updated keys are spread."""


@dataclass(frozen=True, slots=True)
class Mix:
    """So many changes: half of them inserts, four in ten updates, one in ten deletes, over half as many keys.

    They come in a hundred transactions. Each inserts the next keys and updates older
    ones all over the table; those of the second half also delete. In the end every
    fifth key is gone.
    """

    rows: int

    @classmethod
    def of(cls, rows: int) -> Mix:
        """The mix with at most `rows` changes, so that every transaction has whole numbers of each kind."""
        return cls(max(_GRAIN, rows - rows % _GRAIN))

    @property
    def keys(self) -> int:
        """How many keys are inserted."""
        return self.rows // 2

    def transactions(self, table: TableId) -> Iterator[tuple[int, int, list[str]]]:
        """Yield the first and last key that each transaction inserts, and its further statements."""
        inserts = self.keys // _TRANSACTIONS
        for number in range(_TRANSACTIONS):
            first = WARM_UP_ROWS + 1 + number * inserts
            there = (number + 1) * inserts
            deletes = number >= _TRANSACTIONS // 2
            updates = inserts * 3 // 5 if deletes else inserts
            # In two statements, each of which finds a key at most once.
            halves = [(number * inserts * 2 + half * updates // 2, updates // 2) for half in range(2)]
            statements = [_update(table, there, *half) for half in halves]
            if deletes:
                low = WARM_UP_ROWS + (2 * number - _TRANSACTIONS) * inserts
                statements.append(
                    f"DELETE FROM {table} WHERE id > {low} AND id <= {low + 2 * inserts} "  # noqa: S608 - names and numbers of ours
                    f"AND (id - {WARM_UP_ROWS}) % {_CYCLE} = 0"
                )
            yield first, first + inserts - 1, statements


def _update(table: TableId, there: int, skip: int, count: int) -> str:
    """Update `count` keys of the first `there`, and of each five not the fifth, which is to be deleted."""
    lasting = there // _CYCLE * (_CYCLE - 1)
    place = f"(((seq + {skip}) * {_STRIDE}) % {lasting})"
    key = f"{WARM_UP_ROWS} + FLOOR({place} / {_CYCLE - 1}) * {_CYCLE} + {place} % {_CYCLE - 1} + 1"
    return (
        f"UPDATE {table} JOIN (SELECT {key} AS id FROM {table.schema}.seq_1_to_{count}) AS chosen USING (id) "  # noqa: S608 - as above
        f"SET quantity = quantity + 1, remark = CONCAT('called again, order ', SHA1(quantity + id))"
    )


def write_warm_up(server: MariadbServer, table: TableId) -> None:
    """Insert the rows that are there before."""
    with closing(connect(login(server), _TIMEOUT_SECONDS)) as connection:
        insert_range(connection, table, 1, WARM_UP_ROWS)


def write_changes(server: MariadbServer, table: TableId, mix: Mix) -> None:
    """Make all changes of `mix`. The source does not sync its files meanwhile: it is not what is measured."""
    with closing(connect(login(server), _TIMEOUT_SECONDS)) as connection, without_sync(connection):
        for first, last, statements in mix.transactions(table):
            ask(connection, "START TRANSACTION")
            insert_range(connection, table, first, last)
            for statement in statements:
                ask(connection, statement)
            ask(connection, "COMMIT")
