"""What a MySQL or MariaDB server says of its replication.

Sources: MySQL Reference Manual, "SHOW REPLICA STATUS"; MariaDB Knowledge Base, "SHOW REPLICA STATUS".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pymysql
from pymysql.constants import ER

from penstock.adapters.mysql.catalog import read_flavour
from penstock.adapters.mysql.connection import error_code, explain, server_of
from penstock.adapters.mysql.write_locks import is_denied
from penstock.core.errors import UnfitServerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Of MySQL the first is unknown before 8.0.22, the second since 8.4.
_STATUS: Final = {"mariadb": ("SHOW ALL SLAVES STATUS",), "mysql": ("SHOW REPLICA STATUS", "SHOW SLAVE STATUS")}


def read_status(connection: pymysql.Connection, denied: str) -> Sequence[Mapping[str, object]]:
    """Return a mapping for each master that a server replicates from, none if it is no replica.

    Raises UnavailableError, and UnfitServerError, with `denied` as what to do where we may not ask.
    """
    return ask_either(connection, _STATUS[read_flavour(connection)], denied)


def ask_either(
    connection: pymysql.Connection, statements: Sequence[str], denied: str
) -> Sequence[Mapping[str, object]]:
    """Ask the first of `statements` that the server knows; raises as `read_status` does."""
    statement, *others = statements
    try:
        return _fetch(connection, statement)
    except pymysql.err.MySQLError as error:
        if others and error_code(error) == ER.PARSE_ERROR:
            return ask_either(connection, others, denied)
        told = explain(error, server_of(connection))
        told.__cause__ = error
        if isinstance(told, UnfitServerError) and is_denied(told):
            raise UnfitServerError(told.message, denied) from error
        raise told from error


def first_of(row: Mapping[str, object], *names: str) -> object:
    """The value of the first column of `names` that there is, None for none and for NULL."""
    return next((row[name] for name in names if name in row), None)


def _fetch(connection: pymysql.Connection, statement: str) -> Sequence[Mapping[str, object]]:
    with connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())
