"""From batch files to rows that DuckDB can read as a table."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import SinkError
from penstock.core.files import LACKS, OFFSET, OP, parse_file
from penstock.core.warehouse.partial_rows import Lacking

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.tables import TableSchema
    from penstock.core.warehouse.load_plan import Piece
    from penstock.ports.objects import ObjectStore

STAGED = "__penstock_staged"
"""The name under which staged rows are read."""


def read_pieces(objects: ObjectStore, schema: TableSchema, pieces: Sequence[Piece]) -> pa.Table | None:
    """Return the new rows of `pieces`, laid out as files; None if none of them has a file.

    Raises SinkError for a file that is not what its batch says.
    """
    tables = [_read_piece(objects, schema, piece) for piece in pieces if piece.batch.rows]
    return pa.concat_tables(tables) if tables else None


def count_changes(rows: pa.Table) -> int:
    """Return how many changes `rows` stand for: an update's two images are one."""
    doubled = pc.equal(rows.column(OP), pa.scalar("u-"))
    return rows.num_rows - rows.filter(doubled).num_rows


def find_lacking(schema: TableSchema, rows: pa.Table) -> Lacking:
    """Return which columns of `schema` some of `rows`, laid out as files, lack. One that went lacks nothing we need."""
    found: dict[str, set[str]] = {"c": set(), "u": set()}
    if schema.partial_rows and schema.key:
        for kind in rows.group_by([OP, LACKS]).aggregate([]).to_pylist():
            flags = zip(schema.columns, kind[LACKS], strict=False)
            found.setdefault(kind[OP], set()).update(column.name for column, flag in flags if flag == "1")
    return Lacking(created=found["c"], changed=found["u"])


@contextmanager
def staged(connection: duckdb.DuckDBPyConnection, rows: pa.Table) -> Iterator[None]:
    """Let DuckDB read `rows`, without a copy, as `STAGED`."""
    connection.register(STAGED, rows)
    try:
        yield
    finally:
        # What failed inside is what the caller should hear of, and not that this fails too.
        with suppress(duckdb.Error):
            connection.unregister(STAGED)


def _read_piece(objects: ObjectStore, schema: TableSchema, piece: Piece) -> pa.Table:
    batch = piece.batch
    try:
        rows = parse_file(schema, objects.get(batch.path))
    except (pa.ArrowException, ValueError) as error:
        message = f"{batch.path} is not a file of {batch.table}: {error}"
        raise SinkError(message, _REFETCH) from error
    if rows.num_rows != batch.rows:
        message = f"{batch.path} has {rows.num_rows} rows, and its batch message says {batch.rows}"
        raise SinkError(message, _REFETCH)
    if piece.from_offset <= batch.start_offset:
        return rows
    return rows.filter(pc.greater_equal(rows.column(OFFSET), pa.scalar(piece.from_offset)))


_REFETCH = "restore the file, or start a new pipeline with a fresh copy: another `pipeline` name, `home` and target"
