"""What `penstock check --connect` says of tables whose rows a server changes because of a foreign key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.adapters.mysql.connection import ask
from penstock.adapters.mysql.foreign_keys import read_cascades, read_keys_above
from penstock.core.findings import Finding
from penstock.core.mysql.statements.foreign_keys import with_children
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import pymysql

    from penstock.core.mysql.statements.foreign_keys import Cascade


def cascade_findings(
    connection: pymysql.Connection, tables: Collection[TableId], *, rereads: bool, by_master: bool = False
) -> Iterator[Finding]:
    """Tell of each foreign key of `tables` that changes rows inside the storage engine, where the log does not see it.

    With `rereads` such rows are read again, of tables that have a primary key. `by_master` says that only a master
    of the server may do so.
    """
    where = "if its master is older than MySQL 9.6, or has innodb_native_foreign_keys=ON, " if by_master else ""
    cascades = read_cascades(connection, set(tables).__contains__)
    above = read_keys_above(connection, {found.parent for found in cascades})
    for parent, grant in above.hidden.items():
        children = with_children([parent], [*cascades, *above.cascades]) & set(tables)
        listed = ", ".join(map(str, sorted(children)))
        message = (
            f"{where}rows of {listed} change with those of {parent}, and the server does not show with what these do"
        )
        hint = f"{grant}; or, if there is no such table, drop the foreign key; or leave {listed} out"
        yield Finding("warning" if by_master else "error", f"foreign keys to {parent}", message, hint)
    has_key = _with_primary_key(connection) if cascades and rereads else frozenset()
    for found in cascades:
        subject, rules = f"foreign key {found.child}.{found.name}", _rules(found)
        rows = f"rows that the server deletes or changes with those of {found.parent} ({rules})"
        what = f"{where}{rows} are not in the binlog"
        first = f"the first such change of {found.parent} stops {found.child}"
        if found.child in has_key:
            yield Finding("ok", subject, f"{what}: {found.child} is read again after each such change")
        elif rereads:
            hint = "give it a primary key, by which its rows can be read again, or leave the table out"
            yield Finding("warning", subject, f"{what}, and {found.child} has no primary key: {first}", hint)
        else:
            hint = "make it RESTRICT and change the rows by statements of the application; or leave the table out"
            yield Finding("warning", subject, f"{what}: {first}", f"{hint}; or give the source `cascades: reread`")


def _rules(found: Cascade) -> str:
    rules = (("ON DELETE", found.on_delete), ("ON UPDATE", found.on_update))
    return ", ".join(f"{when} {rule}" for when, rule in rules if rule)


def _with_primary_key(connection: pymysql.Connection) -> frozenset[TableId]:
    rows = ask(
        connection,
        "SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME FROM information_schema.STATISTICS WHERE INDEX_NAME = 'PRIMARY'",
    )
    return frozenset(TableId(schema, name) for schema, name in rows)
