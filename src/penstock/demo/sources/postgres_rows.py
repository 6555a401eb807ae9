"""Reads the tables of a PostgreSQL source as they are at one moment, for a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from psycopg import sql

from penstock.demo.source_rows import SourceColumn, SourceTable, with_float_bits

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from penstock.demo.rows import Row

_FETCH_ROWS: Final = 5_000
_FLOATS: Final = {"real": "float", "double precision": "double"}
_READ: Final = {
    # As they are in a warehouse: instants without a zone, truth as a number, times as spans.
    "boolean": "{}::integer",
    "real": "{}::double precision",
    "timestamp with time zone": "{} AT TIME ZONE 'UTC'",
    "time without time zone": "{} - time '00:00'",
    "uuid": "{}::text",
}
_AS_THEY_ARE: Final = frozenset(
    {
        *("smallint", "integer", "bigint", "oid", "numeric", "bytea", "date", "timestamp without time zone"),
        *("double precision", "text", "character varying", "character"),
    }
)
_TEXTS: Final = frozenset({"text", "character varying", "character", "USER-DEFINED"})


class PostgresSnapshot:
    """See sources/database.Snapshot."""

    def __init__(self, connection: psycopg.Connection, schema: str) -> None:
        """Read in the transaction that is open."""
        self._connection = connection
        self._schema = schema
        self._types: dict[tuple[str, str], str] = {}

    def tables(self) -> tuple[SourceTable, ...]:
        """See Snapshot."""
        columns: dict[str, list[SourceColumn]] = {}
        for table, column, data_type in self._connection.execute(
            "SELECT c.table_name, c.column_name, c.data_type FROM information_schema.columns c"
            " JOIN information_schema.tables t USING (table_schema, table_name)"
            " WHERE table_schema = %s AND t.table_type = 'BASE TABLE' ORDER BY c.table_name, c.ordinal_position",
            (self._schema,),
        ).fetchall():
            self._types[table, column] = data_type
            columns.setdefault(table, []).append(SourceColumn(column, _FLOATS.get(data_type) or str(data_type)))
        keys: dict[str, list[str]] = dict(
            self._connection.execute(
                "SELECT c.relname, ARRAY(SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY k(attnum, place)"
                " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum ORDER BY k.place)"
                " FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
                " WHERE n.nspname = %s AND i.indisprimary",
                (self._schema,),
            ).fetchall()
        )
        return tuple(SourceTable(name, tuple(of), tuple(keys.get(name, ()))) for name, of in columns.items())

    def read(self, table: SourceTable) -> Iterator[Row]:
        """See Snapshot."""
        selected = [self._select(table, column.name) for column in table.columns]
        query = sql.SQL("SELECT {} FROM ONLY {}").format(
            sql.SQL(", ").join(selected), sql.Identifier(self._schema, table.name)
        )
        if table.key:
            order = [self._order(table, name) for name in table.key]
            query = sql.SQL("{} ORDER BY {}").format(query, sql.SQL(", ").join(order))
        floats = [i for i, column in enumerate(table.columns) if column.is_float]
        with self._connection.cursor(name="rows") as cursor:
            cursor.execute(query)
            while some := cursor.fetchmany(_FETCH_ROWS):
                yield from with_float_bits(some, floats)

    def _select(self, table: SourceTable, name: str) -> sql.Composable:
        kind = self._types[table.name, name]
        how = _READ.get(kind, "{}" if kind in _AS_THEY_ARE else "CASE WHEN {0} IS NOT NULL THEN CONCAT({0}) END")
        return sql.SQL(how).format(sql.Identifier(name))

    def _order(self, table: SourceTable, name: str) -> sql.Composable:
        """Return by what a key column sorts here as it does in the warehouse: text by its bytes."""
        is_text = self._types[table.name, name] in _TEXTS
        return sql.SQL('{}::text COLLATE "C"' if is_text else "{}").format(sql.Identifier(name))
