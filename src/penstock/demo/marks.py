"""Marks at the end of the source's log, by which the demo knows that the warehouse has all of it.

Changes of one table arrive in their order. So once a row that was written last
is there, everything before it is, table by table.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from penstock.adapters.mysql.connection import MysqlServer, connect
from penstock.core.errors import PenstockError
from penstock.demo import rows
from penstock.demo.schema import COLUMNS, SCHEMA, insert_sql
from penstock.demo.source_errors import explained

if TYPE_CHECKING:
    from penstock.demo.rows import Row
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


def write_end_marks(server: MysqlServer, attempt: int) -> EndMarks:
    """Add one row to each table of the marketplace, in one transaction.

    Raises UnavailableError and UnfitServerError; then try again with another
    `attempt` (0 to 99), for nobody knows whether the first is in.
    """
    number = _FIRST_ID + attempt
    marks = _mark_rows(number)
    connection = connect(server)
    try:
        connection.autocommit(False)  # noqa: FBT003 - the driver's own signature
        with explained(server), connection.cursor() as cursor:
            cursor.execute("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s", (SCHEMA,))
            present = {str(name) for (name,) in cursor.fetchall()}
            for table in present & set(marks):
                cursor.execute(insert_sql(table, COLUMNS[table]), marks[table])
            connection.commit()
    finally:
        connection.close()
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
