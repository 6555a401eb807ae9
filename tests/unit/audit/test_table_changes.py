"""Changes that lack columns: what is left of their rows can be compared, until a change has all columns again."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.adapters.duckdb.folded_rows import DuckdbFoldedRows
from penstock.adapters.registry.client import HttpRegistry
from penstock.core.audit.stage_columns import left_out
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.links.audit.table_changes import TableChanges, repeated

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.core.audit.stage_columns import ArrowColumn

LONG = IntegerType(64, unsigned=False)
SCHEMA = TableSchema(
    TableId("shop", "orders"),
    (Column("id", LONG, nullable=False), Column("n", LONG, nullable=True), Column("m", LONG, nullable=True)),
    ("id",),
    partial_rows=True,
)


def test_a_column_counts_for_a_table_once_the_newest_change_of_every_living_row_has_it(tmp_path: Path) -> None:
    with (
        closing(DuckdbFoldedRows(tmp_path / "f.duckdb")) as folded,
        closing(HttpRegistry("http://127.0.0.1:1")) as none,
    ):
        changes = TableChanges("src", SCHEMA, folded, none, written={7: SCHEMA})
        changes.create()

        _fold(changes, (1, 1, 1, "c", ""), (2, None, 2, "u", '["n"]'), (3, None, None, "d", '["n", "m"]'))
        lacking = left_out(SCHEMA, changes.living_schemas())
        _fold(changes, (2, 2, 2, "u", ""))
        whole = left_out(SCHEMA, changes.living_schemas())
        rows = folded.fetch(f"SELECT id, n, m FROM {folded.living} ORDER BY id")

    assert set(lacking) == {"n"}
    assert whole == {}
    assert rows == [(1, 1, 1), (2, 2, 2)]


def _fold(changes: TableChanges, *given: tuple[int, int | None, int | None, str, str]) -> None:
    """Fold (id, n, m, op, what is lacking), each at the next offset."""
    ids, ns, ms, ops, lacks = zip(*given, strict=True)
    rows = pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array(ns, pa.int64()), "m": pa.array(ms, pa.int64())})
    ours: list[ArrowColumn] = [
        pa.array(ops, pa.string()),
        pa.array(range(len(given)), pa.int64()),
        repeated("topic", pa.string(), rows),
        repeated(0, pa.int32(), rows),
        repeated("f.1:4", pa.string(), rows),
    ]
    changes.fold(7, rows, ours, pa.array(lacks, pa.string()))
