"""What is kept of a tracker, as text, and how it is brought back: all of it, or what one statement touches."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock.adapters.mysql.catalog import (
    Creates,
    SchemaCreate,
    TableCreate,
    is_sequence,
    quote,
    quote_table,
    read_creates_of,
)
from penstock.adapters.mysql.connection import ask
from penstock.config.crash_points import CrashPoint
from penstock.core.errors import PositionError, UnfitServerError
from penstock.core.mysql.statements.storage_options import without_storage
from penstock.core.mysql.statements.touched import Touched
from penstock.core.system_schemas import MYSQL as SYSTEM_SCHEMAS
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pymysql

_PART_VERSION: Final = 2
"""Of the dump of a part; one of everything is a dump of version 1 (catalog.Creates), as earlier releases wrote them."""
_EMPTIED = CrashPoint("tracker.emptied", "what differs from a dump is dropped, and about to be made again")


@dataclass(frozen=True, slots=True)
class PartDump:
    """What there was of `touched`: whatever else is found there has come since."""

    touched: Touched
    creates: Creates

    def to_json(self) -> str:
        """The text of it."""
        part = self.touched
        tables = [[table.schema, table.name] for table in sorted(part.tables)]
        names = {"tables": tables, "schemas": sorted(part.schemas), "whole_schemas": sorted(part.whole_schemas)}
        return json.dumps({"version": _PART_VERSION, "touched": names, "creates": json.loads(self.creates.to_json())})

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> PartDump:
        """Read what `to_json` wrote."""
        names = fields["touched"]
        tables = frozenset(TableId(schema, name) for schema, name in names["tables"])
        touched = Touched(tables, frozenset(names["schemas"]), frozenset(names["whole_schemas"]))
        return cls(touched, Creates.from_json(json.dumps(fields["creates"])))


Dump: TypeAlias = "Creates | PartDump"


def read_dump(dump: str) -> Dump:
    """Read a dump; PositionError for one that neither this release nor one before it wrote."""
    try:
        fields = json.loads(dump)
        if isinstance(fields, dict) and fields.get("version") == _PART_VERSION:
            return PartDump.from_fields(fields)
        return Creates.from_json(dump)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"the dump of the schema tracker in the state database (mysql_dumps) cannot be read: {error!r}"
        hint = "a newer release wrote it, or somebody edited it: go on with that release, or restore the state database"
        raise PositionError(message, hint) from error


def put_back(connection: pymysql.Connection, dump: Dump) -> Mapping[TableId, str]:
    """Make the tracker hold what `dump` says; return the tables that the server refused, and why.

    What a dump says nothing of stays as it is. Doing it again, or anew after a crash, is the same.
    """
    if isinstance(dump, PartDump):
        return _put_part_back(connection, dump)
    for (schema,) in ask(connection, "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA"):
        if schema not in SYSTEM_SCHEMAS:
            # Whoever the tracker was taken from may be at the same still.
            ask(connection, f"DROP DATABASE IF EXISTS {quote(schema)}")
    _EMPTIED.maybe_crash()
    for schema in dump.schemas:
        _make_schema(connection, "CREATE", schema)
    return _make_tables(connection, dump.tables)


def _put_part_back(connection: pymysql.Connection, dump: PartDump) -> Mapping[TableId, str]:
    """Drop what is not as it was, then make what is missing."""
    there = read_creates_of(connection, dump.touched)
    before = {(each.table, each.kind, each.statement) for each in dump.creates.tables}
    kept = {each.table for each in there.tables if (each.table, each.kind, each.statement) in before}
    for each in there.tables:
        if each.table not in kept:
            what = "SEQUENCE" if is_sequence(each.kind) else "TABLE"
            ask(connection, f"DROP {what} {quote_table(each.table)}")
    _EMPTIED.maybe_crash()
    _put_schemas_back(connection, there.schemas, dump.creates.schemas)
    return _make_tables(connection, [each for each in dump.creates.tables if each.table not in kept])


def _put_schemas_back(
    connection: pymysql.Connection, there: Collection[SchemaCreate], before: Collection[SchemaCreate]
) -> None:
    names, names_before = {schema.name for schema in there}, {schema.name for schema in before}
    for name in names - names_before:
        ask(connection, f"DROP DATABASE {quote(name)}")
    for schema in before:
        if schema not in there:
            _make_schema(connection, "ALTER" if schema.name in names else "CREATE", schema)


def _make_schema(connection: pymysql.Connection, verb: str, schema: SchemaCreate) -> None:
    options = f"CHARACTER SET {schema.charset} COLLATE {schema.collation}"
    ask(connection, f"{verb} DATABASE {quote(schema.name)} {options}")


def _make_tables(connection: pymysql.Connection, tables: Sequence[TableCreate]) -> Mapping[TableId, str]:
    refused: dict[TableId, str] = {}
    for table in tables:
        ask(connection, f"USE {quote(table.schema)}")
        try:
            ask(connection, without_storage(table.statement))
        except UnfitServerError as error:
            refused[table.table] = error.message
    return refused
