"""Marks at the end of the source's log, by which the demo knows that the warehouse has all of it.

Changes of one table arrive in their order. So once a row that was written last
is there, everything before it is, table by table.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError
from penstock.demo import rows
from penstock.demo.schema import SCHEMA
from penstock.demo.sources.pick import database_of

if TYPE_CHECKING:
    from penstock.demo.rows import Row
    from penstock.demo.sources.database import SourceServer
    from penstock.demo.warehouse_rows import QuerySql

# Below the largest INT UNSIGNED, far above every id of the marketplace.
_FIRST_ID: Final = 4_000_000_000


@dataclass(frozen=True, slots=True)
class EndMarks:
    """The last rows: for each table the condition, in SQL, that finds its own."""

    conditions: dict[str, str]

    def missing(self, query: QuerySql) -> tuple[str, ...]:
        """Return the tables whose mark the warehouse does not show yet; all of them while it cannot be asked."""
        left = dict(self.conditions)
        for table, condition in self.conditions.items():
            try:
                if query(f"SELECT 1 FROM {SCHEMA}.{table} WHERE {condition} LIMIT 1").num_rows:  # noqa: S608 - our own names and numbers
                    del left[table]
            except PenstockError:
                continue
        return tuple(left)


def write_end_marks(server: SourceServer, attempt: int) -> EndMarks:
    """Add one row to each table of the marketplace, in one transaction.

    Raises UnavailableError and UnfitServerError; then try again with another
    `attempt` (0 to 99), for nobody knows whether the first is in.
    """
    number = _FIRST_ID + attempt
    marks = _mark_rows(number)
    database = database_of(server)
    present = set(database.tables())
    with closing(database.connect()) as connection, database.explained(), connection.cursor() as cursor:
        for table in present & set(marks):
            cursor.execute(database.words.insert(table), marks[table])
        connection.commit()
    keys = {"ad_packages": "business_id", "audit_log": "entity_id"}
    return EndMarks({table: f"{keys.get(table, 'id')} = {number}" for table in sorted(present & set(marks))})


def _mark_rows(number: int) -> dict[str, Row]:
    random = Random(number)  # noqa: S311 - any row will do
    return {
        "businesses": rows.business(random, number),
        "users": rows.user(random, number),
        "reviews": rows.review(random, number, 1, 1),
        "ad_packages": rows.ad_package(random, number, "the end"),
        "audit_log": (rows.instant(random), "demo", "end", number, None),
        "bookings": rows.booking(random, number, 1, 1),
    }
