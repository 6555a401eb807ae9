"""Statements that tasks run again and again, read and translated once: it takes far longer than to run them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import sqlglot
from sqlglot import exp

_KEPT: Final = 4_000
_merges: dict[tuple[str | None, str | None, str], str] = {}


@lru_cache(maxsize=_KEPT)
def tables_of(command: str) -> frozenset[tuple[str, ...]]:
    """Return the names of tables in a statement, in parts; those that are not quoted in capitals."""
    found = set()
    for table in sqlglot.parse_one(command, read="snowflake").find_all(exp.Table):
        given = [part for part in table.parts if isinstance(part, exp.Identifier)]
        found.add(tuple(part.name if part.quoted else part.name.upper() for part in given))
    return frozenset(found - {()})


def translate_merge(cursor: Any, command: str) -> str:  # noqa: ANN401 - fakesnow's own
    """Return a MERGE of a cursor's session as DuckDB takes it."""
    connection = cursor._conn  # noqa: SLF001 - fakesnow has no other way
    known = (connection.database, connection.schema, command)
    if known not in _merges:
        if len(_merges) >= _KEPT:
            _merges.clear()
        merge = cursor._transform(sqlglot.parse_one(command, read="snowflake"), None)  # noqa: SLF001 - as above
        _merges[known] = merge.sql(dialect="duckdb")
    return _merges[known]
