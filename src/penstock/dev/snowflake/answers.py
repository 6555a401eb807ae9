"""What the stand-in answers itself: rows of texts."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Sequence


def render_rows(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> pa.Table:
    """Return rows as a table of texts."""
    return pa.table({name: pa.array([str(row[name]) for row in rows], pa.string()) for name in columns})


def answer(cursor: Any, rows: Sequence[dict[str, Any]]) -> Any:  # noqa: ANN401 - fakesnow's
    """Let a cursor of fakesnow have these rows, as if it had run a query for them."""
    table = render_rows(rows, tuple(rows[0]) if rows else ("name",))
    cursor._arrow_table, cursor._arrow_table_fetch_index = table, None  # noqa: SLF001 - fakesnow has no other way
    cursor._rowcount, cursor._sfqid = table.num_rows, str(uuid.uuid4())  # noqa: SLF001 - as above
    cursor._last_sql, cursor._last_params, cursor._last_transformed = None, None, exp.Select()  # noqa: SLF001 - as above
    cursor._penstock_columns = [(name, "VARCHAR") for name in table.column_names]  # noqa: SLF001 - as above
    return cursor
