"""Sessions of MariaDB and MySQL, as tests' own applications have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pymysql

if TYPE_CHECKING:
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql


def log_in(server: MariadbServer | OracleMysql, database: str | None = None, **more: Any) -> pymysql.Connection:  # noqa: ANN401 - what pymysql takes
    """Connect without TLS, which takes longer to prepare than most statements; each statement is committed."""
    settings: dict[str, Any] = {
        "host": server.host,
        "port": server.port,
        "user": server.user,
        "password": server.password,
        "database": database,
        "autocommit": True,
        "connect_timeout": 10,
        "read_timeout": 60,
        "ssl_disabled": True,
    }
    return pymysql.Connection(**settings | more)
