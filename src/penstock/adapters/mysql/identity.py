"""Which server answers: what tells a master from its replicas, whatever their addresses are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.adapters.mysql.catalog import read_flavour
from penstock.adapters.mysql.connection import ask

if TYPE_CHECKING:
    import pymysql


def read_identity(connection: pymysql.Connection) -> str:
    """Return `server_uuid ...` of MySQL, `server_id ...` of MariaDB, which has none but that.

    Servers that replicate from each other differ in it, and a server keeps it when
    it is moved to another machine or address. Raises UnavailableError.
    """
    name = "server_uuid" if read_flavour(connection) == "mysql" else "server_id"
    return f"{name} {ask(connection, f'SELECT @@GLOBAL.{name}')[0][0]}"
