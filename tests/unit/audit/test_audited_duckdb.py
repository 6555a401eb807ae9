"""What an audit says where DuckDB does not take its query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from penstock.adapters.duckdb.audited import AuditedDuckdb
from penstock.core.errors import SinkError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

QUERY = 'SELECT COUNT(*) FROM "shop"."orders"'


def test_nobody_is_told_to_correct_a_query_of_a_table_that_was_dropped(tmp_path: Path) -> None:
    path = tmp_path / "wh.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE SCHEMA shop")

    with pytest.raises(SinkError, match="orders does not exist") as told:
        AuditedDuckdb(path, tmp_path / "nobody.json").fetch(QUERY)

    assert "somebody dropped or altered the table there" in told.value.hint


def test_a_file_that_is_not_there_is_told_as_that(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no warehouse") as told:
        AuditedDuckdb(tmp_path / "wh.duckdb", tmp_path / "nobody.json").fetch(QUERY)

    assert "start the pipeline" in told.value.hint
