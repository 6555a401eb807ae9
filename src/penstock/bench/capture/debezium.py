"""Debezium in Kafka Connect, brought to where it follows the log of the bench's source."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.adapters.kafka.cluster import KafkaCluster, create_topics
from penstock.bench.capture.arrivals import Arrivals
from penstock.bench.capture.workload import login
from penstock.bench.peers.debezium import CapturedMariadb, topic_of
from penstock.bench.peers.debezium_connect import ConnectWorker, start_connect
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.bench.lab import Lab
    from penstock.bench.peers.debezium import CapturedServer

NO_EXTRAS: Mapping[str, str] = {}
_PROBE_SECONDS = 300.0
_PROBE_EVERY_SECONDS = 0.5


def start_following(
    lab: Lab,
    table: TableId,
    name: str,
    extras: Mapping[str, str] = NO_EXTRAS,
    server: CapturedServer | None = None,
) -> ConnectWorker:
    """Start a worker, with its files in the folder `name`, whose connector follows the log of the table's database.

    It has seen a change of a probe table then. The log is MariaDB's, unless there is another `server`.
    Raises PenstockError when Debezium cannot be had.
    """
    folder = lab.folder(name)
    bootstrap_servers = lab.kafka().bootstrap_servers
    probe = TableId(table.schema, "probe")
    create_topics(KafkaCluster(bootstrap_servers), [topic_of(table), topic_of(probe)], {}, partitions=1)
    # A table that is made while the connector starts may be neither in its schema nor in its log.
    server = server or CapturedMariadb(login(lab.source()))
    server.make_probe(probe)
    worker = start_connect(bootstrap_servers, folder)
    try:
        worker.start_connector({**server.settings(table.schema, folder), **extras})
        _await_probe(lab, worker, server, probe)
    except BaseException:
        worker.kill()
        raise
    return worker


def _await_probe(lab: Lab, worker: ConnectWorker, server: CapturedServer, probe: TableId) -> None:
    with Arrivals(lab.kafka().bootstrap_servers, topic_of(probe)) as arrivals:
        before = arrivals.settled()
        deadline = time.monotonic() + _PROBE_SECONDS
        while arrivals.count == before and time.monotonic() < deadline:
            server.write_probe(probe)
            time.sleep(_PROBE_EVERY_SECONDS)
        arrivals.wait_for(before + 1, _PROBE_EVERY_SECONDS, worker.alive)
