"""Streams on fakesnow's DuckDB.

Source: Snowflake user guide, "Introduction to streams". A stream is a view of the
rows behind its offset, and the offset is a row of a table in the same database: it
moves in the transaction of the statement that read the stream, and with it alone.
Rows are told apart by DuckDB's row numbers, which grow in the order of commits as
long as nobody deletes from the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.dev.snowflake.refusals import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.dev.snowflake.statements import CreateStream


_UNCOMMITTED: Final = 36_028_797_018_960_000
"""DuckDB's first row number of what the open transaction itself has added, which a stream does not show."""


class Duck(Protocol):
    """A connection of DuckDB."""

    def execute(self, query: str, parameters: Sequence[Any] = ...) -> Any:  # noqa: ANN401 - DuckDB's own connection
        """Run a statement."""
        ...

    def register(self, name: str, rows: Any) -> Any:  # noqa: ANN401 - as above
        """Let statements read a table of Arrow's under a name."""
        ...

    def unregister(self, name: str) -> Any:  # noqa: ANN401 - as above
        """Forget it."""
        ...


@dataclass(frozen=True, slots=True)
class Name:
    """A name in full, as Snowflake keeps it: in capitals unless it was quoted."""

    database: str
    schema: str
    name: str

    def __str__(self) -> str:
        """Quoted, as SQL takes it."""
        return ".".join('"' + part.replace('"', '""') + '"' for part in (self.database, self.schema, self.name))


def parse_name(text: str, database: str, schema: str) -> Name:
    """Return a name in full; what it does not say is the session's."""
    parts: list[str] = []
    rest = text
    while rest:
        if rest.startswith('"'):
            end = 1
            while rest[end : end + 1] != '"' or rest[end : end + 2] == '""':
                end += 2 if rest[end : end + 2] == '""' else 1
            parts.append(rest[1:end].replace('""', '"'))
            rest = rest[end + 1 :].removeprefix(".")
        else:
            part, _, rest = rest.partition(".")
            parts.append(part.upper())
    return Name(*[database, schema, ""][: 3 - len(parts)], *parts)


def prepare(duck: Duck, database: str) -> None:
    """Make our tables in a database that lacks them."""
    ours = f'"{database}"._penstock'
    duck.execute(f"CREATE SCHEMA IF NOT EXISTS {ours}")
    columns = "schema_name VARCHAR, name VARCHAR, base VARCHAR, next_row BIGINT, created_on TIMESTAMPTZ DEFAULT now()"
    duck.execute(f"CREATE TABLE IF NOT EXISTS {ours}.streams ({columns})")
    duck.execute(f"ALTER TABLE {ours}.streams ADD COLUMN IF NOT EXISTS is_stale BOOLEAN DEFAULT FALSE")
    duck.execute(f"ALTER TABLE {ours}.streams ADD COLUMN IF NOT EXISTS copy VARCHAR DEFAULT ''")


def has_table(duck: Duck, table: Name) -> bool:
    """Whether there is a table of this name."""
    query = "SELECT 1 FROM information_schema.tables WHERE table_catalog = ? AND table_schema = ? AND table_name = ?"
    return bool(duck.execute(query, [table.database, table.schema, table.name]).fetchall())


def require_table(duck: Duck, table: Name) -> None:
    """Refuse a statement about a table that is not there."""
    if not has_table(duck, table):
        message = f"Table '{table.name}' does not exist or not authorized."
        raise RefusedError(message)


def create_stream(duck: Duck, name: Name, base: Name, statement: CreateStream) -> str:
    """Make a stream; return what Snowflake says then."""
    ours = f'"{name.database}"._penstock.streams'
    if find_streams(duck, name.database, [name]):
        if statement.if_not_exists:
            return f"{name.name} already exists, statement succeeded."
        if not statement.replace:
            message = f"Object '{name.name}' already exists."
            raise RefusedError(message)
        drop_stream(duck, name)
    start = "0" if statement.initial_rows else _end(base)
    copy = "" if statement.append_only else str(Name(name.database, "_penstock", f"{name.schema}.{name.name}"))
    insert = f"INSERT INTO {ours} (schema_name, name, base, copy, next_row) SELECT ?, ?, ?, ?, {start}"
    duck.execute(insert, [name.schema, name.name, str(base), copy])
    if copy:
        rows = "LIMIT 0" if statement.initial_rows else ""
        duck.execute(f"CREATE OR REPLACE TABLE {copy} AS SELECT * FROM {base} {rows}")  # noqa: S608 - quoted
        _show_changes(duck, name, base, copy)
        return f"Stream {name.name} successfully created."
    offset = f"(SELECT next_row FROM {ours} WHERE schema_name = {_text(name.schema)} AND name = {_text(name.name)})"  # noqa: S608 - quoted
    more = """'INSERT' AS "METADATA$ACTION", FALSE AS "METADATA$ISUPDATE", rowid::VARCHAR AS "METADATA$ROW_ID" """
    news = f"rowid >= {offset} AND rowid < {_UNCOMMITTED}"
    duck.execute(f"CREATE VIEW {name} AS SELECT *, {more} FROM {base} WHERE {news}")  # noqa: S608 - quoted
    return f"Stream {name.name} successfully created."


def _show_changes(duck: Duck, name: Name, base: Name, copy: str) -> None:
    """Make the view of a standard stream: a row that was updated has gone, and has come."""

    def less(one: object, other: object, action: str) -> str:
        return (
            f"SELECT *, '{action}' AS \"METADATA$ACTION\" FROM (SELECT * FROM {one} EXCEPT ALL SELECT * FROM {other})"  # noqa: S608 - quoted
        )

    duck.execute(
        f"CREATE OR REPLACE VIEW {name} AS {less(base, copy, 'INSERT')} UNION ALL {less(copy, base, 'DELETE')}"
    )


def copies_of(duck: Duck, base: Name) -> list[str]:
    """Return the copies that the standard streams on a table have, quoted."""
    return [copy for _, copy in _standard_streams(duck, base)]


def renew_views(duck: Duck, base: Name) -> None:
    """Show the columns that a table and the copies of its streams have now."""
    for name, copy in _standard_streams(duck, base):
        _show_changes(duck, name, base, copy)


def end_copies(duck: Duck, base: Name) -> None:
    """Let the standard streams on a table that was replaced be stale."""
    for name, _ in _standard_streams(duck, base):
        ours = f'"{name.database}"._penstock.streams'
        update = f"UPDATE {ours} SET is_stale = TRUE WHERE schema_name = ? AND name = ?"  # noqa: S608 - quoted
        duck.execute(update, [name.schema, name.name])


def _standard_streams(duck: Duck, base: Name) -> list[tuple[Name, str]]:
    if not has_table(duck, Name(base.database, "_penstock", "streams")):
        return []
    query = f"SELECT schema_name, name, copy FROM \"{base.database}\"._penstock.streams WHERE base = ? AND copy <> ''"  # noqa: S608 - quoted
    rows = duck.execute(query, [str(base)]).fetchall()
    return [(Name(base.database, schema, name), copy) for schema, name, copy in rows]


def drop_stream(duck: Duck, name: Name) -> bool:
    """Drop a stream; return whether there was one."""
    if not find_streams(duck, name.database, [name]):
        return False
    duck.execute(f"DROP VIEW IF EXISTS {name}")
    ours = f'"{name.database}"._penstock.streams'
    duck.execute(f"DELETE FROM {ours} WHERE schema_name = ? AND name = ?", [name.schema, name.name])  # noqa: S608 - quoted
    return True


def find_streams(duck: Duck, database: str, names: Iterable[Name]) -> dict[Name, str]:
    """Return those of `names` that are streams, with the tables that they are on, quoted."""
    wanted = {name for name in names if name.database == database}
    marks = ", ".join("?" for _ in wanted)
    query = f'SELECT schema_name, name, base FROM "{database}"._penstock.streams WHERE name IN ({marks})'  # noqa: S608 - quoted
    rows = duck.execute(query, [name.name for name in wanted]).fetchall() if wanted else []
    there = {Name(database, schema, name): base for schema, name, base in rows}
    return {name: there[name] for name in names if name in there}


def make_stale(duck: Duck, base: Name) -> None:
    """Let streams on a table become stale that have something: their table keeps it no longer for them."""
    ours = f'"{base.database}"._penstock.streams'
    update = f"UPDATE {ours} SET is_stale = TRUE WHERE base = ? AND next_row < {_end(base)}"  # noqa: S608 - quoted
    duck.execute(update, [str(base)])


def require_fresh(duck: Duck, names: Iterable[Name]) -> None:
    """Refuse a statement that reads a stale stream."""
    for name in names:
        ours = f'"{name.database}"._penstock.streams'
        query = f"SELECT is_stale FROM {ours} WHERE schema_name = ? AND name = ?"  # noqa: S608 - quoted
        if duck.execute(query, [name.schema, name.name]).fetchall() == [(True,)]:
            message = f"Stream '{name.name}' has become stale."
            raise RefusedError(message)


def read_end(duck: Duck, base: str) -> int:
    """Return the offset behind what is in a table now."""
    return int(duck.execute(f"SELECT {_end(base)}").fetchone()[0])


def advance(duck: Duck, ends: dict[Name, int]) -> None:
    """Move offsets, in the transaction that is open."""
    for name, end in ends.items():
        ours = f'"{name.database}"._penstock.streams'
        update = f"UPDATE {ours} SET next_row = ? WHERE schema_name = ? AND name = ? AND next_row <> ?"  # noqa: S608 - quoted
        duck.execute(update, [end, name.schema, name.name, end])
        query = f"SELECT base, copy FROM {ours} WHERE schema_name = ? AND name = ? AND copy <> ''"  # noqa: S608 - quoted
        for base, copy in duck.execute(query, [name.schema, name.name]).fetchall():
            duck.execute(f"DELETE FROM {copy}")  # noqa: S608 - quoted
            duck.execute(f"INSERT INTO {copy} SELECT * FROM {base}")  # noqa: S608 - quoted


def _end(base: Name | str) -> str:
    return f"(SELECT COALESCE(MAX(rowid) + 1, 0) FROM {base} WHERE rowid < {_UNCOMMITTED})"  # noqa: S608 - quoted


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
