"""Whether we see all tables that are wanted: a server shows a user only those that he has a privilege on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.adapters.mysql.catalog import quote, read_table_ids
from penstock.adapters.mysql.connection import server_of
from penstock.adapters.mysql.grants import read_grants
from penstock.core.patterns import TablePatterns, has_wildcards
from penstock.core.system_schemas import MYSQL as SYSTEM_SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pymysql

_NAME = r'(\*|`(?:[^`]|``)*`|"(?:[^"]|"")*")'
_GRANT = re.compile(rf"GRANT (?P<privileges>.*?) ON {_NAME}\.{_NAME} TO ", re.IGNORECASE)
_ROLE = re.compile(r"GRANT (?:(?! ON ).)* TO ", re.IGNORECASE)
# A privilege on columns alone, SELECT (`a`), is none on the table.
_SELECT = re.compile(r"(?:^|, )(?:SELECT|ALL PRIVILEGES)(?=,|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class UnseenPattern:
    """A pattern of which we see no table (`is_missing`), or perhaps not all.

    `grant` is what would show the others; "" if we see all that there are.
    """

    pattern: str
    is_missing: bool
    grant: str


def unseen_patterns(connection: pymysql.Connection, patterns: Sequence[str]) -> Sequence[UnseenPattern]:
    """Look at `patterns`, exclusions left out, and name those of which tables are missing, or may be.

    What a role of ours may read is not looked at: with one, all there is counts as seen.
    """
    tables = read_table_ids(connection)
    lines = read_grants(connection)
    user = server_of(connection).user
    found = []
    for pattern in patterns:
        if pattern.startswith("!"):
            continue
        is_missing = not any(map(TablePatterns.parse([pattern], SYSTEM_SCHEMAS).matches, tables))
        is_named = not has_wildcards(pattern)
        target = "" if is_named and not is_missing else hidden_target(pattern, lines)
        if is_missing or target:
            found.append(UnseenPattern(pattern, is_missing, f"GRANT SELECT ON {target} TO {user}" if target else ""))
    return found


def hidden_target(pattern: str, lines: Sequence[str]) -> str:
    """What SELECT would have to be granted on, so that all tables of `pattern` show; "" if they do."""
    if any(_ROLE.match(line) for line in lines):
        return ""
    schema, _, name = pattern.partition(".")
    for line in lines:
        given = _GRANT.match(line)
        if given is None or not _SELECT.search(given["privileges"]):
            continue
        on_schema, on_table = given[2], given[3]
        if on_schema == "*" or (on_table == "*" and _covers(on_schema, schema)):
            return ""
        if (_unquoted(on_schema), _unquoted(on_table)) == (schema, name):
            return ""
    if has_wildcards(schema):
        return "*.*"
    return f"{quote(schema)}.*" if has_wildcards(name) else f"{quote(schema)}.{quote(name)}"


def _covers(granted: str, schema: str) -> bool:
    """Whether a grant on the databases `granted`, with the wildcards % and _, is one on `schema`."""
    parts = re.findall(r"\\.|.", _unquoted(granted), re.DOTALL)
    expression = "".join({"%": ".*", "_": "."}.get(part, re.escape(part.removeprefix("\\"))) for part in parts)
    return re.fullmatch(expression, schema, re.DOTALL | re.IGNORECASE) is not None


def _unquoted(name: str) -> str:
    mark = name[0]
    return name[1:-1].replace(mark * 2, mark)
