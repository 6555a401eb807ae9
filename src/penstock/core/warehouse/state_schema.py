"""Where a target keeps what we know of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.core.warehouse.dialect import Dialect

_SCHEMA = "penstock"


def state_schema(dialect: Dialect, pipeline: str, source: str) -> str:
    """Return the schema of our state tables; one per pipeline and source where a row's writer locks its table."""
    return f"{_SCHEMA}_{pipeline}_{source}".lower() if dialect.locks_tables else _SCHEMA
