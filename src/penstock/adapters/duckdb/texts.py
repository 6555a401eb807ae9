"""Results of DuckDB as columns of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.audit.text_tables import table_of_texts

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


def texts_of(found: duckdb.DuckDBPyRelation | None) -> pa.Table:
    """Return what a query gives, None for nothing, as columns of texts. Raises duckdb.Error."""
    return table_of_texts(() if found is None else found.to_arrow_table().columns)
