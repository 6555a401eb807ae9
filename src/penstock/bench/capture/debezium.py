"""Debezium in Kafka Connect, brought to where it follows the log of the bench's source."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from penstock.adapters.kafka.cluster import KafkaCluster, create_topics
from penstock.adapters.mysql.connection import ask, connect
from penstock.bench.capture.arrivals import Arrivals
from penstock.bench.capture.workload import login
from penstock.bench.peers.debezium import connector_settings, topic_of
from penstock.bench.peers.debezium_connect import ConnectWorker, start_connect
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.bench.lab import Lab

NO_EXTRAS: Mapping[str, str] = {}
_PROBE_SECONDS = 300.0
_PROBE_EVERY_SECONDS = 0.5


def start_following(lab: Lab, table: TableId, name: str, extras: Mapping[str, str] = NO_EXTRAS) -> ConnectWorker:
    """Start a worker, with its files in the folder `name`, whose connector follows the log of the table's database.

    It has seen a change of a probe table then. Raises PenstockError when Debezium cannot be had.
    """
    folder = lab.folder(name)
    bootstrap_servers = lab.kafka().bootstrap_servers
    probe = TableId(table.schema, "probe")
    create_topics(KafkaCluster(bootstrap_servers), [topic_of(table), topic_of(probe)], {}, partitions=1)
    # A table that is made while the connector starts may be neither in its schema nor in its log.
    with closing(connect(login(lab.source()))) as connection:
        ask(connection, f"CREATE TABLE IF NOT EXISTS {probe} (id INT PRIMARY KEY AUTO_INCREMENT)")
    worker = start_connect(bootstrap_servers, folder)
    try:
        worker.start_connector({**connector_settings(login(lab.source()), table.schema, folder), **extras})
        _await_probe(lab, worker, probe)
    except BaseException:
        worker.kill()
        raise
    return worker


def _await_probe(lab: Lab, worker: ConnectWorker, probe: TableId) -> None:
    bootstrap_servers = lab.kafka().bootstrap_servers
    with closing(connect(login(lab.source()))) as connection, Arrivals(bootstrap_servers, topic_of(probe)) as arrivals:
        before = arrivals.settled()
        deadline = time.monotonic() + _PROBE_SECONDS
        while arrivals.count == before and time.monotonic() < deadline:
            ask(connection, f"INSERT INTO {probe} VALUES ()")  # noqa: S608 - our own name
            time.sleep(_PROBE_EVERY_SECONDS)
        arrivals.wait_for(before + 1, _PROBE_EVERY_SECONDS, worker.alive)
