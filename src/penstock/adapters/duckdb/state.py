"""What a DuckDB target knows of its own progress: the tables of its schema `penstock`.

`positions`  for each topic partition of a table, the first Kafka offset not loaded
`tables`     for each table, the schema that it has now, the furthest place in the
             source's log where that schema was seen, where it was last emptied,
             begun or ended, and whether it has ended in the source
`batches`    for each source, the offset in the batch topic from which to read on

All are written in the transactions whose progress they tell. They have no
indexes: a few rows are found without, and DuckDB's make updates conflict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from penstock.adapters.duckdb.database import CATALOG
from penstock.core.announcements import Kind
from penstock.core.errors import PositionError, TableStoppedError
from penstock.core.warehouse.load_plan import SchemaInPlace
from penstock.core.warehouse.schema_text import parse_schema, render_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from penstock.core.tables import TableId, TableSchema
    from penstock.core.warehouse.load_plan import Step

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
    # Files of older releases lack these.
    f"ALTER TABLE {_STATE}.tables ADD COLUMN IF NOT EXISTS border_file BIGINT DEFAULT -1",
    f"ALTER TABLE {_STATE}.tables ADD COLUMN IF NOT EXISTS border_offset BIGINT DEFAULT -1",
    f"ALTER TABLE {_STATE}.tables ADD COLUMN IF NOT EXISTS border_row BIGINT DEFAULT -1",
    f"ALTER TABLE {_STATE}.tables ADD COLUMN IF NOT EXISTS ended BOOLEAN DEFAULT FALSE",
)
NO_BORDER = (-1, -1, -1)
"""Before every place in a log."""


@dataclass(frozen=True, slots=True)
class TableState:
    """The schema of a target's table, in full and by its id and age.

    `border` is the newest place in the log, of those that are loaded, where the
    table was emptied, began or ended; it is done, and never again. `ended` says
    that the source has the table no more; the target may have it or not.
    """

    schema: TableSchema
    in_place: SchemaInPlace
    border: tuple[int, int, int] = NO_BORDER
    ended: bool = False

    def has_before_it(self, step: Step) -> bool:
        """Whether a border is still to be crossed: also one at which the rows left, and none came to this target."""
        left = step.kind is Kind.RENAME and self.ended and step.last_order == self.border
        return step.last_order > self.border or left

    def end(self, order: tuple[int, int, int]) -> TableState:
        """Return what is known of the table once it has ended at `order`."""
        in_place = replace(self.in_place, order=max(self.in_place.order, order))
        return replace(self, in_place=in_place, border=order, ended=True)


def require_rows(known: TableState | None, origin: TableId, table: TableId) -> TableState:
    """Return what is known of `origin`, whose rows `table` gets; TableStoppedError if the target lacks them."""
    if known is None or known.ended:
        reason = f"it got the rows of {origin}, which are not in this target"
        hint = f"carry both from a fresh copy: a new pipeline whose link has {origin} among its `tables` too"
        raise TableStoppedError(str(table), "", "the target's table", reason, hint)
    return known


def check_behind_border(known: TableState | None, step: Step) -> None:
    """Raise PositionError for rows from before the place where the table was last emptied, begun or ended.

    They would be rows that the source has not. Whoever wrote the batch topic put them before that place.
    """
    for piece in step.pieces if known else ():
        batch = piece.batch
        if batch.rows and known and (batch.last_order < known.border or known.ended):
            message = f"{batch.table}: rows up to {batch.last_order} come behind its border at {known.border}"
            raise PositionError(
                message, "this is a mistake in Penstock; nothing was loaded: report it with both places"
            )


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
        columns = "schema, schema_id, log_file, log_offset, log_row, border_file, border_offset, border_row, ended"
        for text, schema_id, *numbers, ended in self._select("tables", columns, {"source_table": str(table)}):
            file, offset, row, *border = map(int, numbers)
            in_place = SchemaInPlace(int(schema_id), (file, offset, row))
            return TableState(parse_schema(str(text)), in_place, (border[0], border[1], border[2]), bool(ended))
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
            "border_file": state.border[0],
            "border_offset": state.border[1],
            "border_row": state.border[2],
            "ended": state.ended,
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
