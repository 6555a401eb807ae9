"""What Snowflake says is told as what it means, with what to type."""

from __future__ import annotations

import pytest
from snowflake.connector import errors

from penstock.adapters.snowflake.account import SnowflakeAccount
from penstock.adapters.snowflake.errors import explain
from penstock.core.errors import ConflictError, PenstockError, RefusedStatementError, SinkError, UnavailableError

ACCOUNT = SnowflakeAccount("acme", None, 443, "https", "PENSTOCK", "SHOP", "LOAD_WH", "LOADER", "secret-1")


@pytest.mark.parametrize(
    ("number", "kind", "hint"),
    [
        (606, UnavailableError, "ALTER WAREHOUSE LOAD_WH RESUME"),
        (90073, UnavailableError, "raise its quota"),
        (3001, RefusedStatementError, "grant LOADER what the error names (CREATE SCHEMA ON DATABASE SHOP"),
        (2003, RefusedStatementError, "USAGE ON WAREHOUSE LOAD_WH"),
        (1003, RefusedStatementError, "correct what the error names"),
        (625, ConflictError, "no other pipeline"),
        (390100, SinkError, "look at account, user, role"),
        (100051, RefusedStatementError, "correct what the error names"),
    ],
)
def test_a_number_of_snowflake_is_an_error_with_what_to_do(number: int, kind: type[PenstockError], hint: str) -> None:
    told = explain(ACCOUNT, errors.ProgrammingError(msg="it said so", errno=number), errors)

    assert type(told) is kind
    assert hint in told.hint
    assert "it said so" in told.message
    assert "secret-1" not in str(told) + repr(ACCOUNT)


def test_what_the_network_does_is_tried_again() -> None:
    assert isinstance(explain(ACCOUNT, errors.OperationalError(msg="gone"), errors), UnavailableError)


@pytest.mark.parametrize("number", [603, 604, 390111, 390112, 390113, 390114, 390115])
def test_what_passes_is_never_taken_for_a_mistake_of_the_table(number: int) -> None:
    told = explain(ACCOUNT, errors.ProgrammingError(msg="it said so", errno=number), errors)

    assert type(told) is UnavailableError
    assert "it said so" in told.message


@pytest.mark.parametrize("state", ["08001", "08S01", "57014", "XX000"])
def test_what_passes_is_known_by_its_state_under_a_number_that_is_not(state: str) -> None:
    told = explain(ACCOUNT, errors.ProgrammingError(msg="gone", errno=1, sqlstate=state), errors)

    assert type(told) is UnavailableError


def test_a_state_of_a_statement_that_names_what_is_not_there_is_about_its_table() -> None:
    told = explain(ACCOUNT, errors.ProgrammingError(msg="no column", errno=904, sqlstate="42000"), errors)

    assert type(told) is RefusedStatementError
