"""Picks the source of a kind, and the second target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.faults.sources import MariadbSource

if TYPE_CHECKING:
    from penstock.faults.second_target import PostgresTarget
    from penstock.faults.sources import FaultSource


def fault_source(kind: str) -> FaultSource:
    """Return the source of what the config calls a kind."""
    if kind == "mysql":
        return MariadbSource()
    # Imported here as its driver is in an extra.
    from penstock.faults.postgres_source import PostgresSource  # noqa: PLC0415

    return PostgresSource()


def second_target() -> PostgresTarget:
    """Return the target that a pipeline with two of them has beside its DuckDB."""
    from penstock.faults.second_target import PostgresTarget  # noqa: PLC0415 - as above

    return PostgresTarget()
