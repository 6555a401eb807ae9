"""Generated columns of a PostgreSQL source, which are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.newer_postgres import newer_postgres
from tests.servers.postgres_source_case import source_database

from penstock.adapters.postgres.source.publication import Publication, require_whole_publication
from penstock.core.errors import UnfitServerError
from penstock.dev.postgres import start_postgres

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.nightly
def test_a_publication_that_has_generated_columns_is_refused(tmp_path: Path, fresh_name: str) -> None:
    """Only PostgreSQL 18 and later can have them in the log."""
    refused: list[str] = []
    with newer_postgres(), start_postgres(tmp_path / "server") as server, source_database(server, fresh_name) as source:
        source.execute("CREATE TABLE t (id int PRIMARY KEY, a int, g int GENERATED ALWAYS AS (id) STORED)")
        for what in (
            "ALL TABLES",
            "TABLE t (id, a)",
            "ALL TABLES WITH (publish_generated_columns = stored)",
            "TABLE t (id, g)",
        ):
            source.execute(f"CREATE PUBLICATION {source.name} FOR {what}")
            try:
                require_whole_publication(source.connection, Publication(source.name, "many"))
            except UnfitServerError as error:
                refused.append(error.message)
            source.execute(f"DROP PUBLICATION {source.name}")

    option, columns = refused
    assert "has generated columns" in option
    assert columns.endswith("are not carried: public.t")
