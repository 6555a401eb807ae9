"""How statements are translated in less time: what tasks repeat is read once, and no tree is copied for each step.

To translate a statement takes fakesnow far longer than to run it.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any, Final

import sqlglot
from fakesnow.cursor import FakeSnowflakeCursor
from sqlglot import exp

_KEPT: Final = 4_000
_within: Final = threading.local()
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


def copy_no_trees() -> None:
    """Let the seventy steps of fakesnow's translation change one tree, in place of a copy each."""
    transform_tree, translate = exp.Expression.transform, FakeSnowflakeCursor._transform  # noqa: SLF001 - as above

    def transform(tree: Any, step: Any, *arguments: Any, copy: bool = True, **more: Any) -> Any:  # noqa: ANN401 - sqlglot's
        if not getattr(_within, "is_between_steps", False):
            return transform_tree(tree, step, *arguments, copy=copy, **more)
        _within.is_between_steps = False
        try:
            return transform_tree(tree, step, *arguments, copy=False, **more)
        finally:
            _within.is_between_steps = True

    def translate_in_place(cursor: Any, statement: Any, *rest: Any) -> Any:  # noqa: ANN401 - fakesnow's
        _within.is_between_steps = True
        try:
            return translate(cursor, statement.copy(), *rest)
        finally:
            _within.is_between_steps = False

    exp.Expression.transform = transform  # type: ignore[assignment,method-assign]
    FakeSnowflakeCursor._transform = translate_in_place  # noqa: SLF001 - as above
