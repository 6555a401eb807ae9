"""What tables a server has, and the statements that make them again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from penstock.core.mysql.describe import ColumnRow, Flavour, TableRow, describe_table
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pymysql

    from penstock.core.tables import TableSchema

SYSTEM_SCHEMAS = frozenset({"mysql", "information_schema", "performance_schema", "sys"})

_BASE_TABLE_KINDS = ("BASE TABLE", "SYSTEM VERSIONED")
_IN_QUERY_MAX = 500
_DUMP_VERSION = 1


@dataclass(frozen=True, slots=True)
class SchemaCreate:
    """A schema (database) with what its tables inherit."""

    name: str
    charset: str
    collation: str


@dataclass(frozen=True, slots=True)
class TableCreate:
    """A base table or a sequence with its SHOW CREATE statement.

    A statement can hold bytes that are no text (the default of a BINARY column):
    they are lone surrogates in `statement`, as `surrogateescape` makes them.
    `created_at` is the server's CREATE_TIME, "" in a dump: only of use to see
    that a table was replaced by another one of the same definition.
    """

    schema: str
    name: str
    kind: str
    statement: str
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class Creates:
    """All user schemas, sequences and base tables of a server, sorted, sequences before the tables that use them."""

    schemas: tuple[SchemaCreate, ...]
    tables: tuple[TableCreate, ...]

    def to_json(self) -> str:
        """The dump text of the schema tracker."""
        tables = [{**asdict(table), "created_at": ""} for table in self.tables]
        fields = {"version": _DUMP_VERSION, "schemas": [asdict(schema) for schema in self.schemas], "tables": tables}
        return json.dumps(fields)

    @classmethod
    def from_json(cls, dump: str) -> Creates:
        """Read a dump; ValueError for a version that this release does not know."""
        fields = json.loads(dump)
        if fields.get("version") != _DUMP_VERSION:
            text = f"tracker dump of version {fields.get('version')}; this release reads version {_DUMP_VERSION}"
            raise ValueError(text)
        schemas = tuple(SchemaCreate(**schema) for schema in fields["schemas"])
        return cls(schemas, tuple(TableCreate(**table) for table in fields["tables"]))


def quote(name: str) -> str:
    """`name` as an identifier in a statement."""
    return "`" + name.replace("`", "``") + "`"


def quote_table(table: TableId) -> str:
    """`schema`.`name` as it stands in a statement."""
    return f"{quote(table.schema)}.{quote(table.name)}"


def read_flavour(connection: pymysql.Connection) -> Flavour:
    """Whether the server is MariaDB or MySQL, from the greeting; no query is sent."""
    return "mariadb" if "mariadb" in connection.get_server_info().lower() else "mysql"


def read_tables(
    connection: pymysql.Connection, tables: Collection[TableId] | None = None
) -> Mapping[TableId, TableSchema]:
    """Read the schemas of `tables` (None: of every base table there is), sorted, system schemas left out.

    Three queries for each 500 tables. Tables that do not exist are left out.
    The connection's sql_mode must not have NO_BACKSLASH_ESCAPES, by which the
    server would print defaults differently.
    """
    if tables is None:
        return _read_some(connection, None)
    wanted = sorted(tables)
    found: dict[TableId, TableSchema] = {}
    for start in range(0, len(wanted), _IN_QUERY_MAX):
        found |= _read_some(connection, wanted[start : start + _IN_QUERY_MAX])
    return found


def read_table_ids(connection: pymysql.Connection) -> Sequence[TableId]:
    """Every base table, sorted, system schemas left out."""
    return sorted(row.table for row in _read_table_rows(connection, None))


def read_creates(connection: pymysql.Connection) -> Creates:
    """Read the statements that make everything again: one query for each table.

    Raises pymysql's ProgrammingError when a table goes away in the meantime.
    """
    where = f"SCHEMA_NAME NOT IN ({_literals(connection, sorted(SYSTEM_SCHEMAS))})"
    schemas = _rows(
        connection,
        "SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME "  # noqa: S608 - no text from outside
        f"FROM information_schema.SCHEMATA WHERE {where} ORDER BY SCHEMA_NAME",
    )
    kinds = (*_BASE_TABLE_KINDS, "SEQUENCE")
    listed = _rows(
        connection,
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, COALESCE(CREATE_TIME, '') "  # noqa: S608 - no text from outside
        f"FROM information_schema.TABLES WHERE TABLE_TYPE IN ({_literals(connection, kinds)}) "
        f"AND {where.replace('SCHEMA_NAME', 'TABLE_SCHEMA')} "
        "ORDER BY TABLE_TYPE <> 'SEQUENCE', TABLE_SCHEMA, TABLE_NAME",
    )
    _rows(connection, "SET character_set_results = binary")
    creates = [
        TableCreate(schema, name, kind, _show_create(connection, TableId(schema, name), kind), str(created))
        for schema, name, kind, created in listed
    ]
    _rows(connection, "SET character_set_results = utf8mb4")
    return Creates(tuple(SchemaCreate(*row) for row in schemas), tuple(creates))


def _show_create(connection: pymysql.Connection, table: TableId, kind: str) -> str:
    what = "SEQUENCE" if kind == "SEQUENCE" else "TABLE"
    rows = _rows(connection, f"SHOW CREATE {what} {quote_table(table)}")
    statement: bytes = rows[0][1]
    return statement.decode("utf-8", "surrogateescape")


def _read_some(connection: pymysql.Connection, tables: Sequence[TableId] | None) -> dict[TableId, TableSchema]:
    """Read one group of tables. What changes between the queries is seen as one of its states, or not at all."""
    if tables is not None and not tables:
        return {}
    where = _where(connection, tables)
    generation = "COALESCE(GENERATION_EXPRESSION, '')"
    columns: dict[TableId, list[ColumnRow]] = {}
    for schema, name, *fields in _rows(
        connection,
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, EXTRA, "  # noqa: S608 - every text in it is escaped
        f"{generation}, COALESCE(CHARACTER_SET_NAME, ''), COALESCE(CHARACTER_MAXIMUM_LENGTH, 0), "
        f"COALESCE(DATETIME_PRECISION, 0), COLUMN_COMMENT FROM information_schema.COLUMNS WHERE {where} "
        "ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION",
    ):
        columns.setdefault(TableId(schema, name), []).append(_column_row(fields))
    keys: dict[TableId, list[str]] = {}
    for schema, name, column in _rows(
        connection,
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.STATISTICS "  # noqa: S608 - escaped
        f"WHERE INDEX_NAME = 'PRIMARY' AND {where} ORDER BY TABLE_SCHEMA, TABLE_NAME, SEQ_IN_INDEX",
    ):
        keys.setdefault(TableId(schema, name), []).append(column)
    flavour = read_flavour(connection)
    return {
        row.table: describe_table(row, columns[row.table], keys.get(row.table, []), flavour)
        for row in _read_table_rows(connection, tables)
        if row.table in columns
    }


def _read_table_rows(connection: pymysql.Connection, tables: Sequence[TableId] | None) -> Sequence[TableRow]:
    kinds = _literals(connection, _BASE_TABLE_KINDS)
    rows = _rows(
        connection,
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, TABLE_COMMENT FROM information_schema.TABLES "  # noqa: S608 - escaped
        f"WHERE TABLE_TYPE IN ({kinds}) AND {_where(connection, tables)} ORDER BY TABLE_SCHEMA, TABLE_NAME",
    )
    return [TableRow(TableId(schema, name), kind, comment) for schema, name, kind, comment in rows]


def _column_row(fields: Sequence[object]) -> ColumnRow:
    name, data_type, column_type, nullable, default, extra, generation, charset, length, digits, comment = fields
    return ColumnRow(
        name=str(name),
        data_type=str(data_type),
        column_type=str(column_type),
        nullable=nullable == "YES",
        default=None if default is None else str(default),
        extra=str(extra),
        generation=str(generation),
        charset=str(charset),
        characters_max=int(str(length)),
        fraction_digits=int(str(digits)),
        comment=str(comment),
    )


def _where(connection: pymysql.Connection, tables: Sequence[TableId] | None) -> str:
    if tables is None:
        return f"TABLE_SCHEMA NOT IN ({_literals(connection, sorted(SYSTEM_SCHEMAS))})"
    by_schema: dict[str, list[str]] = {}
    for table in tables:
        by_schema.setdefault(table.schema, []).append(table.name)
    parts = [
        f"(TABLE_SCHEMA = {_literals(connection, [schema])} AND TABLE_NAME IN ({_literals(connection, names)}))"
        for schema, names in by_schema.items()
    ]
    return f"({' OR '.join(parts)})"


def _literals(connection: pymysql.Connection, texts: Sequence[str]) -> str:
    return ", ".join(connection.escape(text) for text in texts)


def _rows(connection: pymysql.Connection, sql: str) -> Sequence[tuple]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())
