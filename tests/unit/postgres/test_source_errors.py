"""What a PostgreSQL source says is told as what it means, and tried again where that may help."""

from __future__ import annotations

import pytest
from psycopg import errors

from penstock.adapters.postgres.connection import PostgresServer
from penstock.adapters.postgres.source.connection import explain
from penstock.core.errors import UnavailableError, UnfitServerError

SERVER = PostgresServer("db", 5432, "shop", "penstock", "secret-1", {})


def test_a_server_that_is_a_standby_for_a_moment_is_asked_again() -> None:
    told = explain(SERVER, errors.ObjectNotInPrerequisiteState("recovery is in progress"))

    assert type(told) is UnavailableError
    assert "is a standby" in told.message
    assert "`host` and `port`" in told.hint


@pytest.mark.parametrize(
    "said",
    [
        "logical decoding requires wal_level >= logical",
        'logical decoding requires "wal_level" >= "logical"',
        'replication slots can only be used if wal_level >= "replica"; requires "wal_level" >= "logical"',
    ],
)
def test_a_wal_level_without_rows_is_named_with_the_statement_that_sets_it(said: str) -> None:
    told = explain(SERVER, errors.ObjectNotInPrerequisiteState(said))

    assert type(told) is UnfitServerError
    assert "wal_level that is not logical" in told.message
    assert "ALTER SYSTEM SET wal_level" in told.hint
