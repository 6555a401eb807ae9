"""Picks what speaks to a kind of source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.adapters.mysql.connection import MysqlServer
from penstock.demo.sources.mariadb import MariadbDatabase, MariadbKind

if TYPE_CHECKING:
    from penstock.demo.sources.database import SourceDatabase, SourceKind, SourceServer


def kind_of(name: str) -> SourceKind:
    """Return the kind of source that the config calls so."""
    if name == "mysql":
        return MariadbKind()
    # Imported here as its driver is in an extra.
    from penstock.demo.sources.postgres import PostgresKind  # noqa: PLC0415

    return PostgresKind()


def database_of(server: SourceServer) -> SourceDatabase:
    """Return what speaks to `server`."""
    if isinstance(server, MysqlServer):
        return MariadbDatabase(server)
    from penstock.demo.sources.postgres import PostgresDatabase  # noqa: PLC0415 - as above

    return PostgresDatabase(server)
