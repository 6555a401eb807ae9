"""The kinds of source that the fault suite has a pipeline of."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, Protocol

import pymysql

from penstock.adapters.mysql.connection import MysqlServer
from penstock.embedded import mariadb
from penstock.embedded.ports import LOOPBACK
from penstock.faults.workload import CREATE_TABLES, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.demo.sources.database import SourceConnection, SourceServer
    from penstock.embedded.server import Server

CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 30


class FaultSource(Protocol):
    """A kind of source; the workload's tables are in `schema`.

    A capture of it does not come by the crash points whose names begin with `unreached`. `has_slot`: the server keeps
    its log for one reader, and no more than it may.
    """

    schema: str
    password: str
    password_env: str
    has_tracker: bool
    has_slot: bool
    unreached: tuple[str, ...]
    refused: type[Exception]

    def start(self, folder: Path) -> Server:
        """Start it, or start it again, with its data in `folder`."""
        ...

    def create(self, port: int) -> None:
        """Make the workload's tables."""
        ...

    def connect(self, port: int) -> SourceConnection:
        """Connect without autocommit; names without a schema are the workload's."""
        ...

    def server(self, port: int) -> SourceServer:
        """How it is logged in to."""
        ...

    def spec(self, port: int) -> Mapping[str, Any]:
        """What a pipeline's file says of it, beside its name."""
        ...


class MariadbSource:
    """See FaultSource."""

    password: str = mariadb.PASSWORD
    password_env: str = "FAULTS_MARIADB_PASSWORD"  # noqa: S105 - the variable's name
    has_tracker: bool = True
    has_slot: bool = False
    unreached: tuple[str, ...] = ()
    refused: type[Exception] = pymysql.err.MySQLError

    def __init__(self, schema: str = SCHEMA) -> None:
        """Have the workload's tables in the database `schema`."""
        self.schema = schema

    def start(self, folder: Path) -> Server:
        """See FaultSource."""
        return mariadb.start_mariadb(folder)

    def create(self, port: int) -> None:
        """See FaultSource."""
        # The engine is for snapshots that the source copies into its own log.
        first = ("INSTALL SONAME 'ha_blackhole'", f"CREATE DATABASE {self.schema}", f"USE {self.schema}")
        with closing(self._connect(port, None)) as connection, connection.cursor() as cursor:
            for statement in (*first, *CREATE_TABLES):
                cursor.execute(statement)

    def connect(self, port: int) -> SourceConnection:
        """See FaultSource."""
        return self._connect(port, self.schema)

    def _connect(self, port: int, database: str | None) -> pymysql.Connection:
        return pymysql.connect(
            host=LOOPBACK,
            port=port,
            user=mariadb.USER,
            password=mariadb.PASSWORD,
            database=database,
            connect_timeout=CONNECT_SECONDS,
            ssl_disabled=True,
            read_timeout=READ_SECONDS,
        )

    def server(self, port: int) -> SourceServer:
        """See FaultSource."""
        return MysqlServer(LOOPBACK, port, mariadb.USER, mariadb.PASSWORD)

    def spec(self, port: int) -> Mapping[str, Any]:
        """See FaultSource."""
        login = {"user": mariadb.USER, "password_env": self.password_env}
        return {"kind": "mysql", "host": LOOPBACK, "port": port, **login, "tables": [f"{self.schema}.*"]}
