"""The peer: Debezium's MariaDB connector and its JDBC sink in one worker of Kafka Connect, into PostgreSQL."""

from __future__ import annotations

import functools
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

from penstock.adapters.kafka.cluster import KafkaCluster, create_topics
from penstock.adapters.mysql.connection import connect
from penstock.bench.capture.latency import TUNED, Ids
from penstock.bench.capture.workload import create_table, insert_range, login, without_sync
from penstock.bench.peers.debezium import connector_settings, source_plugin, topic_of
from penstock.bench.peers.debezium_connect import start_connect
from penstock.bench.peers.debezium_jdbc import jdbc_plugin, jdbc_settings
from penstock.bench.steady.stretches import RATES, START_SECONDS, Side, Steady, measure_side
from penstock.bench.steady.visible import Visible
from penstock.bench.warehouse.compare import create_database, require_equal_postgres
from penstock.core.errors import PenstockError
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from penstock.bench.lab import Lab

NAME: Final = "Debezium's source and JDBC sink in Kafka Connect"
NAME_LOW: Final = f"{NAME}, poll.interval.ms=5, linger.ms=0"
_WITH_SCHEMAS: Final = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "true",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "true",
}
"""The sink makes its table of the schema that comes with each message."""


@functools.cache
def measure_theirs(lab: Lab, *, is_low_latency: bool = False, rates: Sequence[int] = RATES) -> Steady | PenstockError:
    """What the peer took, measured once in a run for all who are compared with it; or why it could not be measured."""
    try:
        return _measure(lab, Ids(), rates, is_low_latency=is_low_latency)
    except PenstockError as error:
        return error


def _measure(lab: Lab, ids: Ids, rates: Sequence[int], *, is_low_latency: bool) -> Steady:
    name = NAME_LOW if is_low_latency else NAME
    table = TableId("bench_steady_debezium_soon" if is_low_latency else "bench_steady_debezium", "orders")
    database, brokers, folder = table.schema, lab.kafka().bootstrap_servers, lab.folder(table.schema)
    create_database(lab.postgres(), database)
    create_table(lab.source(), table)
    create_topics(KafkaCluster(brokers), [topic_of(table)], {}, partitions=1)
    plugins = [source_plugin(folder / "debezium-sources"), jdbc_plugin()]
    with closing(connect(login(lab.source()))) as source, without_sync(source):
        first = ids.take(1)
        insert_range(source, table, first, first)
        lab.say(f"steady: starting {name}")
        began = time.monotonic()
        with (
            start_connect(brokers, folder, plugins) as worker,
            Visible(lab.postgres(), database, table.name) as visible,
        ):
            extras = TUNED if is_low_latency else {}
            worker.start_connector({**_source_settings(lab, table, folder), **extras}, "source")
            worker.start_connector(jdbc_settings(lab.postgres(), database, topic_of(table), table.name), "sink")
            visible.await_id(first, START_SECONDS, worker.alive)
            side = Side(name, worker.pid, worker.alive, visible, table, folder)
            steady = measure_side(lab, side, ids, time.monotonic() - began, rates)
        require_equal_postgres(lab.source(), table, name, (lab.postgres(), database, table.name))
    return steady


def _source_settings(lab: Lab, table: TableId, folder: Path) -> Mapping[str, str]:
    """Those of the connector that copies the table first, as our side does."""
    captured = connector_settings(login(lab.source()), table.schema, folder)
    return {**captured, "snapshot.mode": "initial", **_WITH_SCHEMAS}
