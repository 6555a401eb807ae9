"""Rows that get another primary key, and what is in a change log when it gets one."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from penstock.core.warehouse.columns import DELETED_AT, REFRESH_OR_ANEW, by_name, stopped
from penstock.core.warehouse.dialect import Dialect, quote_name
from penstock.core.warehouse.migration import Check
from penstock.core.warehouse.row_keys import value_terms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.tables import TableSchema
    from penstock.core.warehouse.target_table import TargetTable


def plan_key_checks(dialect: Dialect, target: TargetTable, after: TableSchema) -> Iterator[Check]:
    """Yield the checks that the rows of a table can be known by another key; TableStoppedError where they cannot."""
    there = by_name(target.schema)
    for name in after.key:
        if name.casefold() not in there:
            reason = "it came with the primary key, and only the source knows its values in rows that are older"
            raise stopped(after, name, reason, REFRESH_OR_ANEW)
    columns = [there[name.casefold()] for name in after.key]
    names = [quote_name(dialect, column.name) for column in columns]
    key = ", ".join(names)
    terms = (value_terms(dialect, column.type, name) for column, name in zip(columns, names, strict=True))
    alike = ", ".join(chain.from_iterable(terms))
    missing = " OR ".join(f"{name} IS NULL" for name in names)
    path = target.path(dialect)
    if target.schema.key:
        where = f"{quote_name(dialect, DELETED_AT.name)} IS NULL" if target.deletes == "soft" else "1 = 1"
        twice = f"SELECT {key} FROM {path} WHERE {where} GROUP BY {alike} HAVING COUNT(*) > 1 LIMIT 1"  # noqa: S608 - names are quoted
        null = f"SELECT {key} FROM {path} WHERE {where} AND ({missing}) LIMIT 1"  # noqa: S608 - names are quoted
    else:
        living = f"FROM {path} AS s WHERE {behind_truncates(dialect, target)}"
        twice = f"SELECT {key} {living} GROUP BY {alike} HAVING SUM({SIGN}) NOT IN (0, 1) LIMIT 1"
        null = f"SELECT {key} {living} AND ({missing}) GROUP BY {key} HAVING SUM({SIGN}) <> 0 LIMIT 1"
    yield Check(twice, "", f"its primary key is now ({', '.join(after.key)}), and two rows here have the same one")
    yield Check(null, "", f"its primary key is now ({', '.join(after.key)}), and a row here has none")


SIGN = "CASE WHEN s.\"_op\" IN ('c', 'r', 'u+') THEN 1 ELSE -1 END"
"""What a row of a change log `s` adds to how often the table has these values. The name needs no other quotes."""


def behind_truncates(dialect: Dialect, log: TargetTable) -> str:
    """Return the condition that a row `s` of a change log is behind its last TRUNCATE, and is none."""
    op, file, pos = (quote_name(dialect, name) for name in ("_op", "_file", "_pos"))
    later = f"e.{file} > s.{file} OR (e.{file} = s.{file} AND e.{pos} >= s.{pos})"
    emptied = f"SELECT 1 FROM {log.path(dialect)} AS e WHERE e.{op} = 't' AND ({later})"  # noqa: S608 - names are quoted
    return f"NOT EXISTS ({emptied})"
