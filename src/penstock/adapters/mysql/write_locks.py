"""Having those who write wait, for the moment in which a copy begins."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pymysql.constants import ER

from penstock.adapters.mysql.catalog import quote_table
from penstock.adapters.mysql.connection import ask, connect, error_code, server_of
from penstock.core.errors import UnavailableError, UnfitServerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pymysql

    from penstock.core.tables import TableId

WAITING = "SET SESSION lock_wait_timeout = 30"
"""No waiting without end for a lock, behind which others would wait in turn."""
LOST_SECONDS = 60
"""So long a session that holds locks may say nothing: then its host is lost, and the server ends it."""
# Amazon RDS refuses FLUSH TABLES WITH READ LOCK with the error of a login, whatever was granted.
_DENIED = frozenset({
    ER.SPECIFIC_ACCESS_DENIED_ERROR, ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR
})  # fmt: skip


def is_denied(error: UnfitServerError) -> bool:
    """Whether the server refused a statement because we lack a privilege."""
    return error_code(error) in _DENIED


@contextlib.contextmanager
def all_writes_locked(connection: pymysql.Connection) -> Iterator[None]:
    """Let nobody commit while the block lasts. Raises UnfitServerError when we may not, and UnavailableError."""
    ask(connection, f"SET SESSION wait_timeout = {LOST_SECONDS}")
    ask(connection, "FLUSH TABLES WITH READ LOCK")
    try:
        yield
    finally:
        ask(connection, "UNLOCK TABLES")
        ask(connection, "SET SESSION wait_timeout = DEFAULT")


@contextlib.contextmanager
def writes_locked(connection: pymysql.Connection, tables: Sequence[TableId]) -> Iterator[None]:
    """Let nobody commit while the block lasts, or where we may not, nobody change rows of `tables`, on MySQL.

    Each of the locks is had as soon as all who have written have also committed,
    so that in the block the end of the log and what is committed agree, for
    `tables` at least. Raises UnfitServerError when we may have neither lock, and
    UnavailableError when one is not to be had in 30 seconds or a table is gone.
    """
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(all_writes_locked(connection))
        except UnfitServerError as error:
            if not is_denied(error):
                raise
            held.enter_context(_locked(connection, tables))
        yield


@contextlib.contextmanager
def _locked(connection: pymysql.Connection, tables: Sequence[TableId]) -> Iterator[None]:
    """Lock `tables` over another connection: START TRANSACTION gives up the locks of its own."""
    server = server_of(connection)
    with contextlib.closing(connect(server)) as other:
        ask(other, WAITING)
        ask(other, f"SET SESSION wait_timeout = {LOST_SECONDS}")
        try:
            if tables:
                ask(other, "LOCK TABLES " + ", ".join(f"{quote_table(table)} READ" for table in tables))
        except UnfitServerError as error:
            if error_code(error) == ER.NO_SUCH_TABLE:
                message = f"a table of {server} was renamed or dropped as its initial snapshot began"
                raise UnavailableError(message, "try again when the source's tables are not being changed") from error
            if not is_denied(error):
                raise
            message = f"an initial snapshot has to lock out writers of {server} for a moment, and {server.user} may not"
            hint = (
                f"GRANT RELOAD ON *.* TO {server.user}; where the server refuses FLUSH TABLES WITH READ LOCK all the "
                f"same, as Amazon RDS does, GRANT LOCK TABLES ON *.* TO {server.user}"
            )
            raise UnfitServerError(message, hint) from error
        yield
