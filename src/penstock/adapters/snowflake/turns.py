"""Transactions of one pipeline and source take turns, whichever instance begins them.

In Snowflake a statement sees what others committed before it, and a transaction
locks nothing until it changes rows. So two instances could both read how far a
table is, and load it one behind the other. Each transaction begins with an UPDATE
of a table that is for nothing else: whoever changes rows of a table keeps others
from it ("Transactions: Resource locking"), so the tables of positions, which
pipelines share, would make those wait for each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.tables import TableId
from penstock.core.warehouse.dialect import quote_name
from penstock.core.warehouse.dialects import SNOWFLAKE
from penstock.core.warehouse.state_schema import state_schema

if TYPE_CHECKING:
    from penstock.ports.warehouse import StateDatabase


def prepare_turns(database: StateDatabase, name: str) -> str:
    """Make what transactions called `name` take turns by, if it is missing; return the statement that takes one.

    Outside of a transaction; the schema of our state tables is there.
    """
    table = TableId(state_schema(SNOWFLAKE, "", ""), f"turns/{name}")
    path = quote_name(SNOWFLAKE, table.schema, table.name)
    if not database.columns(table):
        database.run(f'CREATE TRANSIENT TABLE IF NOT EXISTS {path} ("taken" NUMBER(38, 0))')
    if not database.fetch(f"SELECT 1 FROM {path} LIMIT 1"):  # noqa: S608 - the name is quoted
        database.run(f"INSERT INTO {path} SELECT 0")
    return f'UPDATE {path} SET "taken" = "taken" + 1'  # noqa: S608 - the name is quoted
