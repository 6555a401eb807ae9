"""The peer: Debezium's MariaDB connector and its JDBC sink in one worker of Kafka Connect, into PostgreSQL."""

from __future__ import annotations

import functools
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

from penstock.adapters.kafka.cluster import KafkaCluster, create_topics
from penstock.adapters.mysql.connection import connect
from penstock.bench.capture.latency import Ids
from penstock.bench.capture.workload import create_table, insert_range, login, without_sync
from penstock.bench.peers.debezium import connector_settings, source_plugin, topic_of
from penstock.bench.peers.debezium_connect import start_connect
from penstock.bench.peers.debezium_jdbc import jdbc_plugin, jdbc_settings
from penstock.bench.steady.stretches import START_SECONDS, Side, Steady, measure_side
from penstock.bench.steady.visible import Visible
from penstock.bench.warehouse.compare import create_database, require_equal_postgres
from penstock.core.errors import PenstockError
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.bench.lab import Lab

NAME: Final = "Debezium's source and JDBC sink in Kafka Connect"
_TABLE: Final = TableId("bench_steady_debezium", "orders")
_WITH_SCHEMAS: Final = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "true",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "true",
}
"""The sink makes its table of the schema that comes with each message."""


@functools.cache
def measure_theirs(lab: Lab) -> Steady | PenstockError:
    """What the peer took, measured once in a run for all who are compared with it; or why it could not be measured."""
    try:
        return _measure(lab, Ids())
    except PenstockError as error:
        return error


def _measure(lab: Lab, ids: Ids) -> Steady:
    database, brokers, folder = _TABLE.schema, lab.kafka().bootstrap_servers, lab.folder(_TABLE.schema)
    create_database(lab.postgres(), database)
    create_table(lab.source(), _TABLE)
    create_topics(KafkaCluster(brokers), [topic_of(_TABLE)], {}, partitions=1)
    plugins = [source_plugin(folder / "debezium-sources"), jdbc_plugin()]
    with closing(connect(login(lab.source()))) as source, without_sync(source):
        first = ids.take(1)
        insert_range(source, _TABLE, first, first)
        lab.say(f"steady: starting {NAME}")
        began = time.monotonic()
        with (
            start_connect(brokers, folder, plugins) as worker,
            Visible(lab.postgres(), database, _TABLE.name) as visible,
        ):
            worker.start_connector(_source_settings(lab, folder), "source")
            worker.start_connector(jdbc_settings(lab.postgres(), database, topic_of(_TABLE), _TABLE.name), "sink")
            visible.await_id(first, START_SECONDS, worker.alive)
            side = Side(NAME, worker.pid, worker.alive, visible, _TABLE, folder)
            steady = measure_side(lab, side, ids, time.monotonic() - began)
        require_equal_postgres(lab.source(), _TABLE, NAME, (lab.postgres(), database, _TABLE.name))
    return steady


def _source_settings(lab: Lab, folder: Path) -> Mapping[str, str]:
    """Those of the connector that copies the table first, as our side does."""
    captured = connector_settings(login(lab.source()), _TABLE.schema, folder)
    return {**captured, "snapshot.mode": "initial", **_WITH_SCHEMAS}
