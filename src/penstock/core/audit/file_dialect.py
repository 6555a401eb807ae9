"""The SQL of tables that are files, which DuckDB reads."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Final

from penstock.core.audit.dialects import DUCKDB

DELTA: Final = replace(
    DUCKDB,
    name="delta",
    # There are no spans of time, and so they are numbers of microseconds.
    texts=MappingProxyType({**DUCKDB.texts, "time": "CAST({0} AS VARCHAR)"}),
)
"""Delta tables, of which DuckDB reads the Parquet files."""

PARQUET: Final = replace(DUCKDB, name="parquet")
"""Parquet files as others write them."""
