"""How statements are translated in less time: what is repeated is read once, and no tree is copied for each step.

To translate a statement takes fakesnow far longer than to run it.
"""

from __future__ import annotations

import re
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import sqlglot
from fakesnow.cursor import FakeSnowflakeCursor
from sqlglot import exp

from penstock.dev.snowflake.refusals import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

_KEPT: Final = 4_000
_LENGTH_MAX: Final = 50_000
"""Of a statement that is kept."""
_PLAIN: Final = re.compile(r"\s*(SELECT|INSERT\s+INTO|UPDATE|DELETE)\b", re.IGNORECASE)
_NO_TEXT_ALONE: Final = re.compile(
    r"\$|\b(IDENTIFIER|RESULT_SCAN|RANDOM|SEQ\d|NEXTVAL|(TABLE)?SAMPLE)\b", re.IGNORECASE
)
"""Where the translation has more to go by than the text."""
_within: Final = threading.local()
_merges: dict[tuple[str | None, str | None, str], str] = {}
_plain: dict[tuple[Any, ...], Any] = {}


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


def run_plain(cursor: Any, execute: Callable[..., Any], command: str, *rest: Any, **more: Any) -> Any:  # noqa: ANN401
    """Run a statement as fakesnow's `execute` does; a query or plain DML that ran before is not translated again."""
    if rest or len(command) > _LENGTH_MAX or not _PLAIN.match(command) or _NO_TEXT_ALONE.search(command):
        return execute(cursor, command, *rest, **more)
    session = cursor._conn  # noqa: SLF001 - fakesnow has no other way
    place = (session.database, session.schema, session.database_set, session.schema_set, command)
    known = _plain.get(place)
    if known is None:
        execute(cursor, command, **more)
        tree = cursor._last_transformed  # noqa: SLF001 - as above
        text = tree.sql(dialect="duckdb")
        tree.sql = lambda **_: text
        if len(_plain) >= _KEPT:
            _plain.clear()
        _plain[place] = tree
        return cursor
    values = more.get("binding_params")
    cursor._execute(known, None if values is None else list(values))  # noqa: SLF001 - as above
    return cursor


@lru_cache(maxsize=_KEPT)
def split_inserts(command: str) -> tuple[str, list[str]]:
    """Return the query of an INSERT ALL with conditions, and DuckDB's INSERTs from the table whose name goes into {}.

    Source: Snowflake SQL reference, "INSERT (multi-table)".
    """
    return _split(sqlglot.parse_one(command, read="snowflake"))


def _split(tree: Any) -> tuple[str, list[str]]:  # noqa: ANN401 - sqlglot's
    if str(tree.args.get("kind")).upper() != "ALL":
        message = "this stand-in has INSERT ALL alone"
        raise RefusedError(message)
    inserts = []
    for each in tree.expressions:
        condition, values = each.args.get("expression"), each.this.expression
        if condition is None or each.args.get("else_") or not isinstance(values, exp.Values):
            message = "this stand-in has INSERT ALL with WHEN, INTO and VALUES alone"
            raise RefusedError(message)
        ((row),) = values.expressions
        names = ", ".join(value.sql(dialect="duckdb") for value in row.expressions)
        into, when = each.this.this.sql(dialect="duckdb"), condition.sql(dialect="duckdb")
        if "{" in into + names + when:
            message = "this stand-in takes no braces in INSERT ALL"
            raise RefusedError(message)
        inserts.append(f"INSERT INTO {into} SELECT {names} FROM {{}} WHERE {when}")  # noqa: S608 - the session's own
    return tree.args["source"].sql(dialect="snowflake"), inserts


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


def describe_by_results() -> None:
    """Let the columns of an answer be told by the answer: fakesnow plans the statement again for that."""
    execute, describe = FakeSnowflakeCursor._execute, FakeSnowflakeCursor._describe_last_sql  # noqa: SLF001 - as above

    def remember(cursor: Any, translated: Any, *rest: Any) -> None:  # noqa: ANN401 - fakesnow's
        execute(cursor, translated, *rest)
        is_older = translated.args.get("result_scan_sfqid")
        cursor._penstock_columns = None if is_older else cursor._duck_conn.description  # noqa: SLF001 - as above

    def columns(cursor: Any) -> list[Any]:  # noqa: ANN401 - as above
        found = cursor._penstock_columns  # noqa: SLF001 - as above
        return describe(cursor) if found is None else [(name, str(type_), *4 * [None]) for name, type_, *_ in found]

    FakeSnowflakeCursor._execute = remember  # noqa: SLF001 - as above
    FakeSnowflakeCursor._describe_last_sql = columns  # noqa: SLF001 - as above
