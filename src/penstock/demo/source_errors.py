"""The driver's errors in our words, around a few statements."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pymysql

from penstock.adapters.mysql.connection import MysqlServer, explain

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def explained(server: MysqlServer) -> Iterator[None]:
    """Raise UnavailableError or UnfitServerError for what the driver raises inside."""
    try:
        yield
    except pymysql.err.MySQLError as error:
        raise explain(error, server) from error
