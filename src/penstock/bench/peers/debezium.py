"""How Debezium's connectors are set up, wherever they run.

Settings are those of Debezium's documentation, "Debezium connector for MariaDB" and "... for PostgreSQL".
What is not set has its default.
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import psycopg

from penstock.adapters.mysql.connection import ask, connect
from penstock.dev.postgres import DATABASE
from penstock.embedded.jars import JarSet, ensure_jars, listed_jars

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.adapters.mysql.connection import MysqlServer
    from penstock.core.tables import TableId
    from penstock.dev.postgres import PostgresServer

_DEBEZIUM = "io.debezium"
_PREFIX = "debezium"
_SERVER_ID = 3_000_000_003
JVM_OPTIONS = ("-Xms256m", "-Xmx1g", "-Djava.awt.headless=true", "-Dlog4j2.level=WARN")
"""Room enough; the garbage collector is the one that Java chooses for the machine."""


def class_path() -> str:
    """The class path of Debezium and Kafka Connect; UnavailableError when the jars cannot be fetched."""
    return os.pathsep.join(map(str, ensure_jars(JarSet.DEBEZIUM)))


def connect_class_path() -> str:
    """The class path of Kafka Connect alone, for connectors that come as plugins; raises as `class_path`."""
    jars = zip(listed_jars(JarSet.DEBEZIUM), ensure_jars(JarSet.DEBEZIUM), strict=True)
    return os.pathsep.join(str(file) for jar, file in jars if jar.organisation != _DEBEZIUM)


def source_plugin(folder: Path) -> Path:
    """Make `folder`, with Debezium's connectors for sources as a plugin; raises as `class_path`."""
    folder.mkdir()
    for jar, file in zip(listed_jars(JarSet.DEBEZIUM), ensure_jars(JarSet.DEBEZIUM), strict=True):
        if jar.organisation == _DEBEZIUM:
            (folder / file.name).symlink_to(file)
    return folder


def topic_of(table: TableId) -> str:
    """The topic that changes of `table` go to."""
    return f"{_PREFIX}.{table}"


def connector_settings(server: MysqlServer, database: str, folder: Path) -> Mapping[str, str]:
    """Capture all tables of one database, from now on and without a copy; the schema history is a file in `folder`."""
    return {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "tasks.max": "1",
        "topic.prefix": _PREFIX,
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.user,
        "database.password": server.password,
        "database.server.id": str(_SERVER_ID),
        "database.ssl.mode": "disable",
        "database.include.list": database,
        "snapshot.mode": "no_data",
        "snapshot.locking.mode": "none",
        "include.schema.changes": "false",
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": str(folder / "schema-history.dat"),
    }


class CapturedServer(Protocol):
    """A server whose log Debezium follows."""

    def settings(self, schema: str, folder: Path) -> Mapping[str, str]:
        """Those of the connector that follows all tables of one schema."""
        ...

    def make_probe(self, probe: TableId) -> None:
        """Make the table `probe`, unless it is there."""
        ...

    def write_probe(self, probe: TableId) -> None:
        """Insert a row into it."""
        ...


@dataclass(frozen=True, slots=True)
class CapturedMariadb:
    """See CapturedServer."""

    server: MysqlServer

    def settings(self, schema: str, folder: Path) -> Mapping[str, str]:
        """See CapturedServer."""
        return connector_settings(self.server, schema, folder)

    def make_probe(self, probe: TableId) -> None:
        """See CapturedServer."""
        self._ask(f"CREATE TABLE IF NOT EXISTS {probe} (id INT PRIMARY KEY AUTO_INCREMENT)")

    def write_probe(self, probe: TableId) -> None:
        """See CapturedServer."""
        self._ask(f"INSERT INTO {probe} VALUES ()")  # noqa: S608 - our own name

    def _ask(self, statement: str) -> None:
        with closing(connect(self.server)) as connection:
            ask(connection, statement)


@dataclass(frozen=True, slots=True)
class CapturedPostgres:
    """See CapturedServer. `name` is that of the connector's slot and publication."""

    server: PostgresServer
    name: str

    def settings(self, schema: str, folder: Path) -> Mapping[str, str]:
        """See CapturedServer. There is no schema history: the log describes its tables."""
        del folder
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": "1",
            "topic.prefix": _PREFIX,
            "database.hostname": self.server.host,
            "database.port": str(self.server.port),
            "database.user": self.server.user,
            "database.password": self.server.password,
            "database.dbname": DATABASE,
            "database.sslmode": "disable",
            "plugin.name": "pgoutput",
            "slot.name": self.name,
            "publication.name": self.name,
            "publication.autocreate.mode": "all_tables",
            "schema.include.list": schema,
            "snapshot.mode": "no_data",
        }

    def make_probe(self, probe: TableId) -> None:
        """See CapturedServer."""
        self._ask(f"CREATE TABLE IF NOT EXISTS {probe} (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY)")

    def write_probe(self, probe: TableId) -> None:
        """See CapturedServer."""
        self._ask(f"INSERT INTO {probe} DEFAULT VALUES")

    def _ask(self, statement: str) -> None:
        server = self.server
        with psycopg.connect(
            host=server.host,
            port=server.port,
            user=server.user,
            password=server.password,
            dbname=DATABASE,
            autocommit=True,
        ) as connection:
            connection.execute(statement.encode())
