"""Statements that define something, for a warehouse in which each of them is a transaction of its own.

A run that ended while one was under way cannot know whether it is done: it is run
again in a form that does no harm then. Snowflake SQL reference, "CREATE TABLE",
"ALTER TABLE", "DROP TABLE": IF EXISTS and IF NOT EXISTS.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_CHANGES_ROWS: Final = re.compile(r"(INSERT|UPDATE|DELETE|MERGE)\s")
_NAME: Final = r'"(?:[^"]|"")+"'
_PATH: Final = rf"(?P<path>{_NAME}(?:\.{_NAME})*)"
_AGAIN: Final = (
    (re.compile(r"CREATE TABLE (?!IF )"), "CREATE TABLE IF NOT EXISTS "),
    (re.compile(r"DROP TABLE (?!IF )"), "DROP TABLE IF EXISTS "),
    (re.compile(rf"ALTER TABLE {_PATH} ADD COLUMN (?!IF )"), r"ALTER TABLE \g<path> ADD COLUMN IF NOT EXISTS "),
    (re.compile(rf"ALTER TABLE {_PATH} DROP COLUMN (?!IF )"), r"ALTER TABLE \g<path> DROP COLUMN IF EXISTS "),
    (re.compile(rf"ALTER TABLE {_PATH} RENAME TO "), r"ALTER TABLE IF EXISTS \g<path> RENAME TO "),
)
_COLUMN_RENAME: Final = re.compile(rf"ALTER TABLE {_PATH} RENAME COLUMN (?P<old>{_NAME}) TO {_NAME}")


@dataclass(frozen=True, slots=True)
class ColumnRename:
    """The table, by the parts of its name, and the column that gets another name."""

    path: tuple[str, ...]
    old: str


def is_definition(statement: str) -> bool:
    """Whether a statement of the planner defines something; the others change rows."""
    return not _CHANGES_ROWS.match(statement)


def render_again(statement: str) -> str:
    """Return a statement of the planner so that it does no harm where it is done already.

    A column's rename has no such form: see `parse_column_rename`.
    """
    for pattern, form in _AGAIN:
        again, found = pattern.subn(form, statement, count=1) if pattern.match(statement) else (statement, 0)
        if found:
            return again
    return statement


def parse_column_rename(statement: str) -> ColumnRename | None:
    """Return what a statement of the planner renames, if it renames a column."""
    match = _COLUMN_RENAME.fullmatch(statement)
    if match is None:
        return None
    path = tuple(_plain(part) for part in re.findall(_NAME, match["path"]))
    return ColumnRename(path, _plain(match["old"]))


def _plain(quoted: str) -> str:
    return quoted[1:-1].replace('""', '"')
