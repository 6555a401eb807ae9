"""What tables a server has, and the statements that make them again."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pymysql.constants import ER

from penstock.adapters.mysql.connection import ask, error_code, server_of
from penstock.core.errors import UnfitServerError
from penstock.core.mysql.statements.describe import ColumnRow, Flavour, TableRow, describe_table
from penstock.core.system_schemas import MYSQL as SYSTEM_SCHEMAS
from penstock.core.table_policy import DEFAULT_POLICY
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import pymysql

    from penstock.core.mysql.statements.touched import Touched
    from penstock.core.table_policy import TablePolicy
    from penstock.core.tables import TableSchema

_BASE_TABLE_KINDS = ("BASE TABLE", "SYSTEM VERSIONED")
_IN_QUERY_MAX = 500
# MariaDB opens a table that is named alone at once; for several it looks through the schema's whole directory.
_ALONE_MAX = 10
_DUMP_VERSION = 1
_COUNTER = re.compile(r"(\n\) ENGINE=\w+) AUTO_INCREMENT=\d+")
# The last one is MariaDB's for a sequence.
_GONE = frozenset({ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR, ER.BAD_TABLE_ERROR, 4091})
# Its file is not there or not whole, or its engine: missing and discarded tablespaces, tables unknown to InnoDB.
_BROKEN = frozenset({ER.GET_ERRNO, ER.FILE_NOT_FOUND, ER.NOT_FORM_FILE, ER.UNKNOWN_STORAGE_ENGINE, 1812, 1814, 1932})
# How servers call a directory whose name none of theirs would be, such as lost+found: nobody can create one.
_NO_SCHEMA = "#mysql50#"


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
    they are lone surrogates in `statement`, as `surrogateescape` makes them. The
    counter of an AUTO_INCREMENT column, which every insert moves, is left out.
    `created_at` is the server's CREATE_TIME, "" in a dump: only of use to see
    that a table was replaced by another one of the same definition.
    """

    schema: str
    name: str
    kind: str
    statement: str
    created_at: str = ""

    @property
    def table(self) -> TableId:
        """Which table it makes."""
        return TableId(self.schema, self.name)


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
        """Read a dump; `{"schemas": []}` is the empty one. ValueError for a version that this release does not know."""
        fields = json.loads(dump)
        version = fields.get("version", _DUMP_VERSION)
        if version != _DUMP_VERSION:
            text = f"tracker dump of version {version}; this release reads version {_DUMP_VERSION}"
            raise ValueError(text)
        schemas = tuple(SchemaCreate(**schema) for schema in fields["schemas"])
        return cls(schemas, tuple(TableCreate(**table) for table in fields.get("tables", ())))


def quote(name: str) -> str:
    """`name` as an identifier in a statement."""
    return "`" + name.replace("`", "``") + "`"


def quote_table(table: TableId) -> str:
    """`schema`.`name` as it stands in a statement."""
    return f"{quote(table.schema)}.{quote(table.name)}"


def read_flavour(connection: pymysql.Connection) -> Flavour:
    """Return whether the server is MariaDB or MySQL, by its greeting; no query is sent."""
    return "mariadb" if "mariadb" in read_greeting(connection).lower() else "mysql"


def read_greeting(connection: pymysql.Connection) -> str:
    """Return the version as the server said it when we connected."""
    return str(connection.get_server_info())  # type: ignore[no-untyped-call]


def read_tables(
    connection: pymysql.Connection, tables: Collection[TableId] | None = None, policy: TablePolicy = DEFAULT_POLICY
) -> Mapping[TableId, TableSchema]:
    """Read the schemas of `tables` (None: of every base table there is), sorted, system schemas left out.

    They are shaped as `policy` wants them. Three queries for each of ten tables,
    and for each 500 of more. Tables that do not exist are left out.
    The connection's sql_mode must not have NO_BACKSLASH_ESCAPES, by which the
    server would print defaults differently.
    """
    if tables is None:
        return _shaped(_read_some(connection, None), policy)
    found: dict[TableId, TableSchema] = {}
    for group in _groups(tables):
        found |= _read_some(connection, group)
    return _shaped(found, policy)


def _shaped(tables: Mapping[TableId, TableSchema], policy: TablePolicy) -> Mapping[TableId, TableSchema]:
    return {table: policy.applied_to(schema) for table, schema in tables.items()}


def read_table_ids(connection: pymysql.Connection) -> Sequence[TableId]:
    """Every base table, sorted, system schemas left out."""
    return sorted(row.table for row in _read_tableask(connection, None))


def read_kinds(connection: pymysql.Connection, tables: Collection[TableId] | None) -> Mapping[TableId, str]:
    """Return what each of `tables` is, "VIEW" or a kind of table (None: all there are); what is not there is left out.

    `is_table` and `is_sequence` say what the kinds mean.
    """
    wheres = [_where(connection, group) for group in ([None] if tables is None else _groups(tables))]
    return _read_kinds(connection, wheres)


def read_kinds_of_schemas(connection: pymysql.Connection, schemas: Collection[str]) -> Mapping[TableId, str]:
    """Do as `read_kinds`, of all that is in `schemas`."""
    return _read_kinds(connection, [_where_schema(connection, schema) for schema in sorted(schemas)])


def read_partitions(connection: pymysql.Connection, table: TableId) -> Collection[str]:
    """Return the names of a table's partitions, none of a table that has none or is not there."""
    rows = ask(
        connection,
        "SELECT PARTITION_NAME FROM information_schema.PARTITIONS "  # noqa: S608 - both are escaped
        f"WHERE TABLE_SCHEMA = {connection.escape(table.schema)} AND TABLE_NAME = {connection.escape(table.name)} "
        "AND PARTITION_NAME IS NOT NULL",
    )
    return frozenset(name for (name,) in rows)


def is_table(kind: str) -> bool:
    """Whether `read_kinds` calls a table so that has rows of its own."""
    return kind in _BASE_TABLE_KINDS


def is_sequence(kind: str) -> bool:
    """Whether `read_kinds` calls a sequence of MariaDB so; MySQL has none."""
    return kind == "SEQUENCE"


def _read_kinds(connection: pymysql.Connection, wheres: Sequence[str]) -> Mapping[TableId, str]:
    found: dict[TableId, str] = {}
    for where in wheres:
        rows = ask(
            connection,
            f"SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES WHERE {where}",  # noqa: S608 - escaped
        )
        found |= {TableId(schema, name): kind for schema, name, kind in rows}
    return found


def read_creates(connection: pymysql.Connection, needed: Callable[[TableId], bool] = lambda _: True) -> Creates:
    """Read the statements that make everything again: one query for each table.

    A table that goes away in the meantime is left out, and so is one that is not
    `needed` and that the server itself cannot open. Raises UnfitServerError for one that is.
    """
    schemas = _read_schemas(connection, f"SCHEMA_NAME NOT IN ({_literals(connection, sorted(SYSTEM_SCHEMAS))})")
    listed = _list_creatable(connection, _where(connection, None))
    creates = _with_statements(connection, [fields for *fields, _ in listed], needed)
    real = [schema for schema in schemas if not schema.name.startswith(_NO_SCHEMA)]
    return Creates(tuple(real), tuple(create for create in creates if not create.schema.startswith(_NO_SCHEMA)))


def read_creates_of(connection: pymysql.Connection, touched: Touched) -> Creates:
    """Do as `read_creates`, of what `touched` names and what there is of it."""
    schemas = sorted(touched.schemas)
    found = _read_schemas(connection, f"SCHEMA_NAME IN ({_literals(connection, schemas)})") if schemas else []
    wheres = [_where(connection, group) for group in _groups(touched.tables)]
    wheres += [_where_schema(connection, schema) for schema in sorted(touched.whole_schemas)]
    listed = {TableId(*row[:2]): row[:4] for where in wheres for row in _list_creatable(connection, where)}
    in_order = sorted(listed.values(), key=lambda row: (not is_sequence(row[2]), *row))
    return Creates(tuple(found), tuple(_with_statements(connection, in_order, lambda _: True)))


def _read_schemas(connection: pymysql.Connection, where: str) -> Sequence[SchemaCreate]:
    rows = ask(
        connection,
        "SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME "  # noqa: S608 - escaped
        f"FROM information_schema.SCHEMATA WHERE {where} ORDER BY SCHEMA_NAME",
    )
    return [SchemaCreate(*row) for row in rows]


def read_create(connection: pymysql.Connection, table: TableId) -> tuple[TableCreate | None, str]:
    """Read the statement of one table, None if it is gone, and its engine."""
    listed = _list_creatable(connection, _where(connection, [table]))
    creates = _with_statements(connection, [fields for *fields, _ in listed], lambda _: True)
    return (creates[0], str(listed[0][-1])) if creates else (None, "")


def _list_creatable(connection: pymysql.Connection, where: str) -> Sequence[tuple[str, ...]]:
    """Schema, name, kind, CREATE_TIME and engine of base tables and sequences, in the order to make them."""
    return ask(
        connection,
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, COALESCE(CREATE_TIME, ''), ENGINE "  # noqa: S608 - all escaped
        f"FROM information_schema.TABLES WHERE {where} "
        f"AND TABLE_TYPE IN ({_literals(connection, (*_BASE_TABLE_KINDS, 'SEQUENCE'))}) "
        "ORDER BY TABLE_TYPE <> 'SEQUENCE', TABLE_SCHEMA, TABLE_NAME",
    )


def _with_statements(
    connection: pymysql.Connection, listed: Sequence[Sequence[str]], needed: Callable[[TableId], bool]
) -> Sequence[TableCreate]:
    ask(connection, "SET character_set_results = binary")
    creates = [
        TableCreate(schema, name, kind, statement, str(created_at))
        for schema, name, kind, created_at in listed
        if (statement := _show_create(connection, TableId(schema, name), kind, needed))
    ]
    ask(connection, "SET character_set_results = utf8mb4")
    return creates


def _show_create(connection: pymysql.Connection, table: TableId, kind: str, needed: Callable[[TableId], bool]) -> str:
    """Return the statement of one table, "" if it is gone, or cannot be opened and is not `needed`."""
    what = "SEQUENCE" if kind == "SEQUENCE" else "TABLE"
    try:
        statement: bytes = ask(connection, f"SHOW CREATE {what} {quote_table(table)}")[0][1]
    except UnfitServerError as error:
        if error_code(error) in _GONE or (error_code(error) in _BROKEN and not needed(table)):
            return ""
        if error_code(error) not in _BROKEN:
            raise
        message = f"{server_of(connection)} cannot open its own table {table}: {error.message}"
        hint = f'repair or drop it, or leave it out with "!{table}" under tables'
        raise UnfitServerError(message, hint) from error
    return _COUNTER.sub(r"\1", statement.decode("utf-8", "surrogateescape"), count=1)


def _read_some(connection: pymysql.Connection, tables: Sequence[TableId] | None) -> dict[TableId, TableSchema]:
    """Read one group of tables. What changes between the queries is seen as one of its states, or not at all."""
    if tables is not None and not tables:
        return {}
    where = _where(connection, tables)
    generation = "COALESCE(GENERATION_EXPRESSION, '')"
    columns: dict[TableId, list[ColumnRow]] = {}
    for schema, name, *fields in ask(
        connection,
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, EXTRA, "  # noqa: S608 - every text in it is escaped
        f"{generation}, COALESCE(CHARACTER_SET_NAME, ''), COALESCE(CHARACTER_MAXIMUM_LENGTH, 0), "
        f"COALESCE(DATETIME_PRECISION, 0), COLUMN_COMMENT, COALESCE(COLLATION_NAME, '') "
        f"FROM information_schema.COLUMNS WHERE {where} ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION",
    ):
        columns.setdefault(TableId(schema, name), []).append(_column_row(fields))
    keys: dict[TableId, list[str]] = {}
    for schema, name, column in ask(
        connection,
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.STATISTICS "  # noqa: S608 - escaped
        f"WHERE INDEX_NAME = 'PRIMARY' AND {where} ORDER BY TABLE_SCHEMA, TABLE_NAME, SEQ_IN_INDEX",
    ):
        keys.setdefault(TableId(schema, name), []).append(column)
    flavour = read_flavour(connection)
    return {
        row.table: describe_table(row, columns[row.table], keys.get(row.table, []), flavour)
        for row in _read_tableask(connection, tables)
        if row.table in columns
    }


def _read_tableask(connection: pymysql.Connection, tables: Sequence[TableId] | None) -> Sequence[TableRow]:
    kinds = _literals(connection, _BASE_TABLE_KINDS)
    rows = ask(
        connection,
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, TABLE_COMMENT FROM information_schema.TABLES "  # noqa: S608 - escaped
        f"WHERE TABLE_TYPE IN ({kinds}) AND {_where(connection, tables)} ORDER BY TABLE_SCHEMA, TABLE_NAME",
    )
    return [TableRow(TableId(schema, name), kind, comment) for schema, name, kind, comment in rows]


def _column_row(fields: Sequence[object]) -> ColumnRow:
    name, data_type, column_type, nullable, default, extra, generation, charset, length, digits, *described = fields
    comment, collation = described
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
        collation=str(collation),
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


def _where_schema(connection: pymysql.Connection, schema: str) -> str:
    return f"TABLE_SCHEMA = {_literals(connection, [schema])}"


def _groups(tables: Collection[TableId]) -> Iterator[Sequence[TableId]]:
    """Cut `tables` into what is asked for at once."""
    wanted = sorted(tables)
    size = 1 if len(wanted) <= _ALONE_MAX else _IN_QUERY_MAX
    for start in range(0, len(wanted), size):
        yield wanted[start : start + size]


def _literals(connection: pymysql.Connection, texts: Sequence[str]) -> str:
    return ", ".join(connection.escape(text) for text in texts)
