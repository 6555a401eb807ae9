"""What a PostgreSQL source says is told as what it means, and tried again where that may help."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from penstock.adapters.postgres.connection import PostgresServer
from penstock.adapters.postgres.source.connection import explain
from penstock.adapters.postgres.source.slot import creation
from penstock.core.errors import UnavailableError, UnfitServerError

SERVER = PostgresServer("db", 5432, "shop", "penstock", "secret-1", {})


def test_a_server_that_is_a_standby_for_a_moment_is_asked_again() -> None:
    told = explain(SERVER, errors.ObjectNotInPrerequisiteState("recovery is in progress"))

    assert type(told) is UnavailableError
    assert "is a standby" in told.message
    assert "`host` and `port`" in told.hint


@pytest.mark.parametrize(
    "error",
    [
        errors.CharacterNotInRepertoire('invalid byte sequence for encoding "UTF8": 0xff'),
        errors.UntranslatableCharacter('character with byte sequence 0x81 in encoding "WIN1252" has no equivalent'),
    ],
)
def test_a_text_that_cannot_be_sent_as_utf_8_is_not_asked_for_again(error: psycopg.Error) -> None:
    told = explain(SERVER, error)

    assert type(told) is UnfitServerError
    assert "correct the row" in told.hint


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


@pytest.mark.parametrize(
    "error",
    [
        errors.InsufficientPrivilege('library "pgoutput" may not be used as an output plugin'),
        errors.UndefinedFile('could not access file "pgoutput": No such file or directory'),
        errors.UndefinedFile('could not access file "$libdir/pgoutput": No such file or directory'),
    ],
)
def test_a_server_that_does_not_let_pgoutput_be_used_is_told_what_to_type(error: psycopg.Error) -> None:
    told = explain(SERVER, error)

    assert type(told) is UnfitServerError
    assert "does not let the log be read by pgoutput" in told.message
    assert "ALTER SYSTEM SET output_plugin_libraries = 'pgoutput, ...'" in told.hint


@pytest.mark.parametrize(
    "said",
    [
        "FATAL:  must be superuser or replication role to start walsender",
        "FATAL:  permission denied to start WAL sender",
    ],
)
def test_who_may_not_replicate_is_told_what_to_type_on_every_version(said: str) -> None:
    told = explain(SERVER, psycopg.OperationalError(f"connection failed: {said}"))

    assert type(told) is UnfitServerError
    assert "ALTER ROLE penstock REPLICATION" in told.hint


@pytest.mark.parametrize(
    ("failover", "command"),
    [
        (False, 'CREATE_REPLICATION_SLOT "s" LOGICAL pgoutput EXPORT_SNAPSHOT'),
        (True, """CREATE_REPLICATION_SLOT "s" LOGICAL pgoutput (SNAPSHOT 'export', FAILOVER true)"""),
    ],
)
def test_a_slot_is_made_as_the_file_asks(failover: bool, command: str) -> None:  # noqa: FBT001 - a parameter
    assert creation("s", failover=failover) == command
