"""The two that read a table again: ours, and Debezium in Kafka Connect."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from penstock.adapters.kafka.cluster import KafkaCluster, create_topics, open_admin
from penstock.adapters.mysql.connection import ask, connect
from penstock.bench.capture.pipeline import BenchPipeline, await_session
from penstock.bench.capture.workload import login
from penstock.bench.peers.debezium import connector_settings, topic_of
from penstock.bench.peers.debezium_connect import ConnectWorker, start_connect
from penstock.core.errors import UnavailableError
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.bench.lab import Lab
    from penstock.embedded.processes import Child

TABLE: Final = TableId("bench_snapshot", "orders")
_SIGNALS: Final = TableId(TABLE.schema, "signals")
_REQUEST_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.05


class Side(Protocol):
    """Whoever carries the table."""

    @property
    def topic(self) -> str:
        """Where its rows go."""
        ...

    @property
    def pid(self) -> int:
        """The process whose tree is measured."""
        ...

    def alive(self) -> bool:
        """Whether it runs."""
        ...

    def begin(self) -> None:
        """Begin the initial snapshot, unless it begins by itself."""
        ...

    def read_again(self) -> None:
        """Ask for all rows of the table, and return."""
        ...


@dataclass(frozen=True, slots=True)
class Ours:
    """`penstock run` and `penstock snapshot`."""

    pipeline: BenchPipeline
    child: Child

    @property
    def topic(self) -> str:
        """See Side."""
        return self.pipeline.topic

    @property
    def pid(self) -> int:
        """See Side."""
        return self.child.pid

    def alive(self) -> bool:
        """See Side."""
        return self.child.alive()

    def begin(self) -> None:
        """See Side: it did, with its session."""

    def read_again(self) -> None:
        """See Side. The command is a process of its own, and counted to nobody, as the source's INSERT is."""
        self.pipeline.snapshot()


@dataclass(frozen=True, slots=True)
class Debezium:
    """A connector with a table for signals in the source."""

    lab: Lab
    worker: ConnectWorker
    folder: Path

    @property
    def topic(self) -> str:
        """See Side."""
        return topic_of(TABLE)

    @property
    def pid(self) -> int:
        """See Side."""
        return self.worker.pid

    def alive(self) -> bool:
        """See Side."""
        return self.worker.alive()

    def begin(self) -> None:
        """See Side."""
        settings = connector_settings(login(self.lab.source()), TABLE.schema, self.folder)
        self.worker.start_connector({**settings, "snapshot.mode": "initial", "signal.data.collection": str(_SIGNALS)})

    def read_again(self) -> None:
        """See Side. Source: Debezium's documentation, "Sending signals to a Debezium connector"."""
        data = f'{{"data-collections": ["{TABLE}"], "type": "incremental"}}'
        with closing(connect(login(self.lab.source()))) as connection:
            ask(connection, f"INSERT INTO {_SIGNALS} VALUES (UUID(), 'execute-snapshot', '{data}')")  # noqa: S608 - our own names


@contextmanager
def ours(lab: Lab) -> Iterator[Ours]:
    """Start a pipeline on a table that has rows already, and let its work begin."""
    pipeline = BenchPipeline(lab, "bench_snapshot_ours", TABLE, lab.folder("snapshot-ours"))
    pipeline.write_file()
    child = pipeline.start("run.log", once=False)
    try:
        await_session(child)
        yield Ours(pipeline, child)
    finally:
        child.stop()


@contextmanager
def debezium(lab: Lab) -> Iterator[Debezium]:
    """Start a worker that runs; its connector is to be started."""
    folder = lab.folder("snapshot-debezium")
    with closing(connect(login(lab.source()))) as connection:
        columns = "id VARCHAR(42) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048)"
        ask(connection, f"CREATE TABLE {_SIGNALS} ({columns})")
    topics = [topic_of(TABLE), topic_of(_SIGNALS)]
    create_topics(KafkaCluster(lab.kafka().bootstrap_servers), topics, {}, partitions=1)
    with start_connect(lab.kafka().bootstrap_servers, folder) as worker:
        yield Debezium(lab, worker, folder)


def await_topic(lab: Lab, topic: str, alive: Callable[[], bool], wait_seconds: float) -> None:
    """Wait until a topic is there. Raises UnavailableError, also when nobody is `alive` who would make it."""
    cluster = KafkaCluster(lab.kafka().bootstrap_servers)
    deadline = time.monotonic() + wait_seconds
    while topic not in open_admin(cluster).list_topics(timeout=_REQUEST_SECONDS).topics:
        if not alive() or time.monotonic() > deadline:
            message = f"there is no topic {topic}"
            raise UnavailableError(message, "read the logs under the bench's home")
        time.sleep(_POLL_SECONDS)
