"""The marketplace in MariaDB."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

import pymysql
from pymysql.constants import ER

from penstock.adapters.mysql.connection import MysqlServer, connect
from penstock.demo import schema
from penstock.demo.source_errors import explained
from penstock.demo.source_rows import open_snapshot
from penstock.demo.sources.words import SqlWords
from penstock.embedded.mariadb import start_mariadb

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from penstock.demo.sources.database import Snapshot, SourceConnection, SourceServer
    from penstock.embedded.server import Server

_BINLOG_BYTES: Final = 16 << 20
_ALREADY_DONE: Final = frozenset({ER.DUP_FIELDNAME, ER.TABLE_EXISTS_ERROR})
WORDS: Final = SqlWords(
    begin_anew=(
        f"DROP DATABASE IF EXISTS {schema.SCHEMA}",
        f"CREATE DATABASE {schema.SCHEMA} CHARACTER SET utf8mb4",
    ),
    create_tables=schema.CREATE_TABLES,
    add_reply=schema.ADD_REPLY,
    add_written_on=schema.ADD_WRITTEN_ON,
    widen=schema.WIDEN,
    create_bookings=schema.CREATE_BOOKINGS,
    in_list="IN %s",
    change_log="UPDATE shop.audit_log SET detail = %s WHERE logged_at > %s ORDER BY logged_at LIMIT 3",
    cut_log="DELETE FROM shop.audit_log WHERE logged_at < %s ORDER BY logged_at DESC LIMIT 3",
)


class MariadbDatabase:
    """See SourceDatabase."""

    words: SqlWords = WORDS
    lost: tuple[type[Exception], ...] = (pymysql.err.OperationalError, pymysql.err.InterfaceError)
    refused: type[Exception] = pymysql.err.MySQLError

    def __init__(self, server: MysqlServer) -> None:
        """Connect when asked."""
        self._server = server

    def connect(self) -> SourceConnection:
        """See SourceDatabase."""
        connection = connect(self._server)
        connection.autocommit(False)  # noqa: FBT003 - the driver's own signature
        return connection

    def explained(self) -> AbstractContextManager[None]:
        """See SourceDatabase."""
        return explained(self._server)

    def is_done_already(self, error: Exception) -> bool:
        """See SourceDatabase."""
        return isinstance(error, pymysql.err.OperationalError) and error.args[0] in _ALREADY_DONE

    def tables(self) -> Collection[str]:
        """See SourceDatabase."""
        with closing(connect(self._server)) as connection, self.explained(), connection.cursor() as cursor:
            cursor.execute("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s", (schema.SCHEMA,))
            return {str(name) for (name,) in cursor.fetchall()}

    def create_login(self, user: str, password: str) -> None:
        """See SourceDatabase."""
        with closing(connect(self._server)) as connection, self.explained(), connection.cursor() as cursor:
            cursor.execute(f"CREATE OR REPLACE USER '{user}'@'%' IDENTIFIED BY '{password}'")
            cursor.execute(f"GRANT SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{user}'@'%'")

    def open_snapshot(self, schema: str) -> AbstractContextManager[Snapshot]:
        """See SourceDatabase."""
        return open_snapshot(self._server, schema)


class MariadbKind:
    """See SourceKind."""

    title: str = "MariaDB"
    name: str = "mariadb"

    def start(self, home: Path) -> tuple[Server, SourceServer]:
        """See SourceKind."""
        source = start_mariadb(home, max_binlog_size_bytes=_BINLOG_BYTES)
        return source, MysqlServer(source.host, source.port, source.user, source.password)

    def lines(self, server: SourceServer) -> Sequence[str]:
        """See SourceKind."""
        return ("kind: mysql", f"host: {server.host}", f"port: {server.port}")
