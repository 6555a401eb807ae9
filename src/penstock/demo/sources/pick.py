"""Picks what speaks to a kind of source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.adapters.mysql.connection import MysqlServer
from penstock.demo.sources.mariadb import MariadbDatabase, MariadbKind
from penstock.demo.sources.postgres import PostgresDatabase, PostgresKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.demo.sources.database import SourceDatabase, SourceKind, SourceServer

KINDS: Final[Mapping[str, SourceKind]] = {"mysql": MariadbKind(), "postgres": PostgresKind()}
"""By what the config calls the kind of source."""


def database_of(server: SourceServer) -> SourceDatabase:
    """Return what speaks to `server`."""
    return MariadbDatabase(server) if isinstance(server, MysqlServer) else PostgresDatabase(server)
