"""How Debezium's MariaDB connector is set up, wherever it runs.

Settings are those of Debezium's documentation, "Debezium connector for MariaDB".
What is not set has its default.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock.embedded.jars import JarSet, ensure_jars, listed_jars

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.adapters.mysql.connection import MysqlServer
    from penstock.core.tables import TableId

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
    return os.pathsep.join(str(file) for jar, file in jars if jar.organisation != "io.debezium")


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
