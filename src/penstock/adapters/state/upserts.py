"""INSERT that replaces or adds where the key is there already, in each server's words."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from sqlalchemy import case, literal_column
from sqlalchemy.dialects import mysql, postgresql, sqlite

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Insert, Table
    from sqlalchemy.sql.base import ReadOnlyColumnCollection

Row: TypeAlias = "Mapping[str, object]"


def upsert(
    connection: Connection,
    table: Table,
    rows: Sequence[Row],
    *,
    adding: Collection[str] = (),
    latest: Collection[str] = (),
    keeping: Collection[str] = (),
) -> None:
    """Write `rows`, which all have every column; each is one statement, so that concurrent writers cannot collide.

    Where a row with the same primary key exists its columns are replaced, except
    that those in `adding` are summed up, those in `latest` stay where the new
    value is 0, and those in `keeping` stay.
    """
    if rows:
        statement = _statement(connection.dialect.name, table, tuple(adding), tuple(latest), tuple(keeping))
        connection.execute(statement, [dict(row) for row in rows])


# Making a statement takes longer than executing it.
@cache
def _statement(
    dialect: str, table: Table, adding: tuple[str, ...], latest: tuple[str, ...], keeping: tuple[str, ...]
) -> Insert:
    match dialect:
        case "sqlite":
            lite = sqlite.insert(table)
            changes = _changes(table, lite.excluded, adding, latest, keeping)
            return lite.on_conflict_do_update(index_elements=table.primary_key.columns, set_=changes)
        case "postgresql":
            postgres = postgresql.insert(table)
            changes = _changes(table, postgres.excluded, adding, latest, keeping)
            return postgres.on_conflict_do_update(index_elements=table.primary_key.columns, set_=changes)
        case _:
            maria = mysql.insert(table)
            return maria.on_duplicate_key_update(_changes(table, maria.inserted, adding, latest, keeping))


def _changes(
    table: Table,
    new: ReadOnlyColumnCollection[str, ColumnElement[object]],
    adding: Collection[str],
    latest: Collection[str],
    keeping: Collection[str],
) -> dict[str, ColumnElement[object]]:
    keys = {column.name for column in table.primary_key}
    changes = {column.name: new[column.name] for column in table.columns if column.name not in {*keys, *keeping}}
    changes |= {name: table.c[name] + new[name] for name in adding}
    # PyMySQL takes no parameters behind the values of several rows.
    zero: ColumnElement[object] = literal_column("0")
    changes |= {name: case((new[name] != zero, new[name]), else_=table.c[name]) for name in latest}
    return changes
