"""Statements of state databases, as drivers take them."""

from __future__ import annotations

from sqlalchemy.dialects import mysql

from penstock.adapters.state.tables import TABLE_PROGRESS
from penstock.adapters.state.upserts import _statement


def test_what_comes_behind_the_values_has_no_parameters_on_mysql() -> None:
    """PyMySQL writes the values of several rows into one statement, and takes none behind them."""
    statement = _statement("mysql", TABLE_PROGRESS, ("carried_rows",), ("last_timestamp_ms",), ("error",))
    text = str(statement.compile(dialect=mysql.dialect(paramstyle="pyformat")))
    values, found, changes = text.partition("ON DUPLICATE KEY UPDATE")

    assert found
    assert "%(carried_rows)s" in values
    assert "%(" not in changes
