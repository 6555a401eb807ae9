"""Late-binding views: a view without columns, whose query stands in its place in each statement that reads it.

Source: Amazon Redshift Database Developer Guide, "CREATE VIEW", WITH NO SCHEMA BINDING; "PG_VIEWS".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.dev.redshift.names import quoted
from penstock.dev.redshift.plan import Plan, Run
from penstock.dev.redshift.reading import Reading
from penstock.dev.redshift.tokens import SqlTokenKind, Statement, literal, render, tokenize

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.dev.redshift.plan import TargetPlace
    from penstock.dev.redshift.tokens import Token

BINDING = ("WITH", "NO", "SCHEMA", "BINDING")
_READERS = frozenset({"FROM", "JOIN"})
_NO_ALIAS = frozenset(
    """
    ) , WHERE JOIN LEFT RIGHT FULL INNER CROSS NATURAL ON USING GROUP ORDER HAVING LIMIT OFFSET UNION EXCEPT INTERSECT
    """.split()  # noqa: SIM905 - a list of words reads better as one
)
_DEPTH_MAX = 16
FIND = "SELECT 1 FROM standin_tables WHERE notes ? 'query' LIMIT 1"
"""Whether a database has one."""
LIST = """
    SELECT n.nspname, c.relname, notes ->> 'query'
    FROM standin_tables t JOIN pg_class c ON c.oid = t.id JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE notes ? 'query'"""


@dataclass(frozen=True, slots=True)
class CreateLateView:
    """CREATE VIEW ... WITH NO SCHEMA BINDING: nothing that it reads needs to be there."""

    statements: tuple[str, ...]

    async def run(self, place: TargetPlace) -> str:
        """Create it."""
        place.cluster.late_views[place.database] = True
        return await Run("CREATE VIEW", self.statements).run(place)


def plan_late_view(statement: Statement) -> Plan:
    """The plan for CREATE [OR REPLACE] VIEW name [(columns)] AS query WITH NO SCHEMA BINDING."""
    tokens = statement.tokens[: -len(BINDING)]
    reading = Reading(Statement(statement.text[: tokens[-1].end], tokens))
    reading.expect("CREATE")
    replace = "OR REPLACE " if reading.take_all("OR", "REPLACE") else ""
    reading.expect("VIEW")
    name = reading.qualified_name()
    columns = f"({', '.join(reading.column_list())})" if reading.peek() == "(" else ""
    reading.expect("AS")
    query = f"SELECT * FROM ({reading.rest()}) AS v {columns}" if columns else reading.rest()  # noqa: S608 - the client's own words
    notes = {"query": query, "definition": statement.text.strip() + ";"}
    note = f"SELECT standin_note({literal(name)}::regclass, {literal(json.dumps(notes))}::jsonb)"
    return Plan(statement.text, action=CreateLateView((f"CREATE {replace}VIEW {name} AS SELECT", note)))


def read_views(rows: Sequence[Sequence[str | None]]) -> dict[tuple[str, str], str]:
    """The queries of the views, by schema and name, that `LIST` has found."""
    return {(str(schema), str(name)): str(query) for schema, name, query in rows}


def put_in(sql: str, views: Mapping[tuple[str, str], str]) -> str:
    """`sql` with the query of each of `views` that it reads, after FROM or JOIN, in its place."""
    for _ in range(_DEPTH_MAX):
        edits = _find(tokenize(sql), views)
        if not edits:
            break
        sql = render(sql, edits)
    return sql


def _find(tokens: Sequence[Token], views: Mapping[tuple[str, str], str]) -> list[tuple[int, int, str]]:
    edits = []
    for index, token in enumerate(tokens[:-1]):
        if token.word not in _READERS:
            continue
        path = _path(tokens, index + 1)
        query = views.get((path[-2].name if len(path) > 1 else "public", path[-1].name)) if path else None
        if query is not None:
            following = tokens[index + 2 * len(path)] if index + 2 * len(path) < len(tokens) else None
            alias = "" if following is not None and _is_alias(following) else f" AS {quoted(path[-1].name)}"
            edits.append((path[0].start, path[-1].end, f"({query}){alias}"))
    return edits


def _path(tokens: Sequence[Token], index: int) -> list[Token]:
    """The names of a dotted path that begins at `index`."""
    path = []
    while index < len(tokens) and tokens[index].kind in {SqlTokenKind.WORD, SqlTokenKind.QUOTED}:
        path.append(tokens[index])
        if index + 1 >= len(tokens) or tokens[index + 1].text != ".":
            break
        index += 2
    return path


def _is_alias(token: Token) -> bool:
    return token.kind is SqlTokenKind.QUOTED or (token.kind is SqlTokenKind.WORD and token.word not in _NO_ALIAS)
