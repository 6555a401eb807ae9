"""Debezium's JDBC sink connector in Kafka Connect: rows of a topic into PostgreSQL.

Settings are those of Debezium's documentation, "Debezium connector for JDBC", of
the Kafka documentation, "Kafka Connect Configs", and of PostgreSQL's JDBC driver;
they are tuned for rows per second. What is not set has its default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.embedded.jars import JarSet, ensure_jars, jar_directory

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.dev.postgres import PostgresServer

_ROWS_AT_ONCE = 10_000
_FETCH_BYTES = 32 << 20


def jdbc_plugin() -> Path:
    """The folder with the connector's jars; UnavailableError when they cannot be fetched."""
    ensure_jars(JarSet.DEBEZIUM_JDBC)
    return jar_directory(JarSet.DEBEZIUM_JDBC)


def jdbc_settings(server: PostgresServer, database: str, topic: str, table: str) -> Mapping[str, str]:
    """Upsert and delete rows of `table`, by the record key's field `id`, as messages of `topic` say."""
    url = f"jdbc:postgresql://{server.host}:{server.port}/{database}?reWriteBatchedInserts=true"
    return {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "tasks.max": "1",
        "topics": topic,
        "connection.url": url,
        "connection.username": server.user,
        "connection.password": server.password,
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "primary.key.mode": "record_key",
        "primary.key.fields": "id",
        "schema.evolution": "basic",
        "collection.name.format": table,
        "key.converter.schemas.enable": "true",
        "value.converter.schemas.enable": "true",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "batch.size": str(_ROWS_AT_ONCE),
        "use.reduction.buffer": "true",
        "consumer.override.max.poll.records": str(_ROWS_AT_ONCE),
        "consumer.override.max.partition.fetch.bytes": str(_FETCH_BYTES),
        "consumer.override.fetch.max.bytes": str(_FETCH_BYTES),
        "consumer.override.auto.offset.reset": "earliest",
    }
