"""Errors of Snowflake's connector as ours, told apart by their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.errors import ConflictError, PenstockError, RefusedStatementError, SinkError, UnavailableError

if TYPE_CHECKING:
    from types import ModuleType

    from penstock.adapters.snowflake.account import SnowflakeAccount

_LOGIN_REFUSED: Final = {250001, 390100, 390101, 390144, 390189, 390201, 394300}
_NO_RIGHTS: Final = {2003, 2043, 3001}
"""What is not there, or is not shown to this role; and insufficient privileges."""
_NO_WAREHOUSE: Final = {606, 90073}
"""No virtual warehouse that runs: it is suspended and may not resume, or over the quota of a resource monitor."""
_CONFLICTS: Final = {625, 630}
"""A statement that was aborted for another transaction, or gave up waiting for its lock."""
_PASSING: Final = {603, 604, *range(390111, 390116)}
"""An internal error, a statement that was cancelled, and a session or its token that is gone."""
_PASSING_STATES: Final = ("08", "57014", "XX000")
"""What their SQLSTATEs begin with, under whatever number: a lost connection, cancelled, an internal error."""


def explain(account: SnowflakeAccount, error: Exception, errors: ModuleType) -> PenstockError:
    """Turn an error of the connector, whose `errors` are given, into ours."""
    number = getattr(error, "errno", None)
    cause = " ".join(str(error).split())
    if number in _LOGIN_REFUSED:
        return _explain_login(account, cause)
    if number in _CONFLICTS:
        hint = "a rerun goes on from here; see that no other pipeline has the same name and database"
        return ConflictError(f"{account} had another writer at the same time: {cause}", hint)
    if number in _NO_WAREHOUSE:
        alter = f"ALTER WAREHOUSE {account.virtual_warehouse}"
        hint = f"in Snowflake: {alter} RESUME, or {alter} SET AUTO_RESUME = TRUE; or raise its quota"
        return UnavailableError(f"{account} has no virtual warehouse that runs: {cause}", hint)
    if _passes(error, number, errors):
        return UnavailableError(
            f"{account} cannot be reached, or ended the statement: {cause}", "a rerun goes on from here"
        )
    # Of the many other numbers for names, syntax and values none is about more than the statement's table.
    if isinstance(error, errors.ProgrammingError | errors.DataError | errors.IntegrityError):
        return RefusedStatementError(f"{account} refused a statement: {cause}", _hint(account, number))
    return SinkError(f"{account} refused a statement: {cause}", "run again; report it if it stays")


def _passes(error: Exception, number: object, errors: ModuleType) -> bool:
    """Whether trying again may help. The connector has one class for almost all that the server itself says."""
    if isinstance(error, errors.OperationalError | errors.InterfaceError | errors.HttpError):
        return True
    is_of_server = isinstance(error, errors.ProgrammingError)
    return number in _PASSING or (is_of_server and str(getattr(error, "sqlstate", "")).startswith(_PASSING_STATES))


def _explain_login(account: SnowflakeAccount, cause: str) -> PenstockError:
    if "Failed to connect" in cause and "could not connect" in cause.casefold():
        return UnavailableError(f"{account} cannot be reached: {cause}", "a rerun goes on from here")
    hint = "look at account, user, role, and the password or the key of the sink"
    return SinkError(f"{account} refused the login: {cause}", hint)


def _hint(account: SnowflakeAccount, number: int | None) -> str:
    if number not in _NO_RIGHTS:
        return "correct what the error names, and run again"
    role = account.role or "the user's default role"
    rights = f"CREATE SCHEMA ON DATABASE {account.database}, USAGE ON WAREHOUSE {account.virtual_warehouse}"
    return f"grant {role} what the error names ({rights}, OWNERSHIP of what Penstock made), and run again"
