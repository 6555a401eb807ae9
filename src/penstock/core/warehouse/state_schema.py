"""Where a target keeps what we know of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.core.warehouse.dialect import Dialect

_SCHEMA = "penstock"
TASKS: Final = "tasks"
"""The table of how far tasks are. In its schema's name the same word stands for a source, where each has a schema."""


def state_schema(dialect: Dialect, pipeline: str, source: str) -> str:
    """Return the schema of our state tables; one per pipeline and source where a row's writer locks its table."""
    return f"{_SCHEMA}_{pipeline}_{source}".lower() if dialect.locks_tables else _SCHEMA
