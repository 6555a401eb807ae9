"""What a DuckDB target knows of its own progress: the tables of its schema `penstock`.

`positions`  for each topic partition of a table, the first Kafka offset not loaded
`tables`     for each table, the schema that it has now, and the furthest place in
             the source's log where that schema was seen
`batches`    for each source, the offset in the batch topic from which to read on

All are written in the transactions whose progress they tell. They have no
indexes: a few rows are found without, and DuckDB's make updates conflict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from penstock.adapters.duckdb.database import CATALOG
from penstock.core.warehouse.load_plan import SchemaInPlace
from penstock.core.warehouse.schema_text import parse_schema, render_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from penstock.core.tables import TableId, TableSchema

Value: TypeAlias = str | int
"""What a state table's column holds."""

_STATE = f'"{CATALOG}"."penstock"'
_CREATE = (
    f"CREATE SCHEMA IF NOT EXISTS {_STATE}",
    f"""CREATE TABLE IF NOT EXISTS {_STATE}.positions (
        pipeline VARCHAR NOT NULL, source VARCHAR NOT NULL, source_table VARCHAR NOT NULL,
        topic VARCHAR NOT NULL, partition INTEGER NOT NULL, next_offset BIGINT NOT NULL)""",
    f"""CREATE TABLE IF NOT EXISTS {_STATE}.tables (
        pipeline VARCHAR NOT NULL, source VARCHAR NOT NULL, source_table VARCHAR NOT NULL,
        schema_id INTEGER NOT NULL, schema VARCHAR NOT NULL,
        log_file BIGINT NOT NULL, log_offset BIGINT NOT NULL, log_row BIGINT NOT NULL)""",
    f"""CREATE TABLE IF NOT EXISTS {_STATE}.batches (
        pipeline VARCHAR NOT NULL, source VARCHAR NOT NULL, next_batch_offset BIGINT NOT NULL)""",
)


@dataclass(frozen=True, slots=True)
class TableState:
    """The schema of a target's table, in full and by its id and age."""

    schema: TableSchema
    in_place: SchemaInPlace


class DuckdbState:
    """The state rows of one pipeline and source. Its statements run in the caller's transaction."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, pipeline: str, source: str) -> None:
        """Use `connection`, which the caller closes."""
        self._connection = connection
        self._mine: dict[str, Value] = {"pipeline": pipeline, "source": source}

    def create(self) -> None:
        """Make the tables if they are missing."""
        for statement in _CREATE:
            self._connection.execute(statement)

    def batch_offset(self) -> int:
        """Return where to read on in the batch topic; 0 at first."""
        for (offset,) in self._select("batches", "next_batch_offset"):
            return int(offset)
        return 0

    def set_batch_offset(self, offset: int) -> None:
        """Remember where to read on."""
        self._replace("batches", {}, {"next_batch_offset": offset})

    def positions(self, table: TableId) -> dict[tuple[str, int], int]:
        """Return the first offset not loaded, by topic and partition."""
        found = self._select("positions", "topic, partition, next_offset", {"source_table": str(table)})
        return {(str(topic), int(partition)): int(offset) for topic, partition, offset in found}

    def set_positions(self, table: TableId, positions: Mapping[tuple[str, int], int]) -> None:
        """Replace the positions of these topic partitions."""
        for (topic, partition), offset in positions.items():
            key: dict[str, Value] = {"source_table": str(table), "topic": topic, "partition": partition}
            self._replace("positions", key, {"next_offset": offset})

    def table(self, table: TableId) -> TableState | None:
        """Return the schema of the target's table; None if it has not been made."""
        columns = "schema, schema_id, log_file, log_offset, log_row"
        for text, schema_id, file, offset, row in self._select("tables", columns, {"source_table": str(table)}):
            order = (int(file), int(offset), int(row))
            return TableState(parse_schema(str(text)), SchemaInPlace(int(schema_id), order))
        return None

    def set_table(self, table: TableId, state: TableState) -> None:
        """Replace what is known of the target's table."""
        file, offset, row = state.in_place.order
        values: dict[str, Value] = {
            "schema_id": state.in_place.schema_id,
            "schema": render_schema(state.schema),
            "log_file": file,
            "log_offset": offset,
            "log_row": row,
        }
        self._replace("tables", {"source_table": str(table)}, values)

    def _select(self, name: str, columns: str, key: Mapping[str, Value] | None = None) -> list[tuple[Value, ...]]:
        where, values = self._where(key or {})
        statement = f"SELECT {columns} FROM {_STATE}.{name} WHERE {where}"  # noqa: S608 - names of ours
        return self._connection.execute(statement, values).fetchall()

    def _replace(self, name: str, key: Mapping[str, Value], row: Mapping[str, Value]) -> None:
        where, values = self._where(key)
        self._connection.execute(f"DELETE FROM {_STATE}.{name} WHERE {where}", values)  # noqa: S608 - names of ours
        whole = {**self._mine, **key, **row}
        marks = ", ".join("?" for _ in whole)
        statement = f"INSERT INTO {_STATE}.{name} ({', '.join(whole)}) VALUES ({marks})"  # noqa: S608 - names of ours
        self._connection.execute(statement, list(whole.values()))

    def _where(self, key: Mapping[str, Value]) -> tuple[str, list[Value]]:
        whole = {**self._mine, **key}
        return " AND ".join(f"{column} = ?" for column in whole), list(whole.values())
