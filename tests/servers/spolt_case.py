"""A spolt between real topics, carried when it is told to, without Spark; as a program it carries one of a file.

python -m tests.servers.spolt_case FILE SPOLT EPOCH
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from penstock.adapters.kafka.cluster import KafkaCluster
from penstock.adapters.kafka.reader import TopicReader
from penstock.adapters.registry.client import HttpRegistry
from penstock.config.load import load
from penstock.core.avro.wire import split
from penstock.core.spolts.avro_records import avro_records
from penstock.jobs.in_process import carry_link
from penstock.jobs.spolt_tasks import SpoltLinkPlanner
from penstock.links.spolts.process import RangeProcessed
from penstock.links.spolts.spec import spolt_job
from penstock.wiring.spolts import open_spolt_publisher

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.config.specs import PipelineSpec
    from penstock.core.spolts.raw import RawMessage
    from penstock.links.spolts.publish import SpoltPublisher

CONFIG = """\
pipeline: {name}
home: {home}
kafka: {{bootstrap_servers: "{kafka}", partitions: 3}}
schematizer: {{url: "{schematizer}"}}
sources:
  - {{name: nobody, kind: mysql, host: 127.0.0.1, user: u, password_env: NOBODY, tables: ["shop.*"]}}
spolts:
{spolts}
"""


@dataclass(frozen=True, slots=True)
class SpoltCase:
    """A pipeline of spolts alone, whose topics begin with its name."""

    file: Path
    name: str
    bootstrap_servers: str
    schematizer: str

    @property
    def spec(self) -> PipelineSpec:
        return load(self.file)

    @property
    def cluster(self) -> KafkaCluster:
        return KafkaCluster(self.bootstrap_servers)

    def make_topic(self, topic: str, partitions: int = 3) -> None:
        admin = AdminClient(self.cluster.client_settings())
        for outcome in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            outcome.result(30)

    def send(self, topic: str, messages: Sequence[tuple[str | None, object, int]]) -> None:
        """Write (key, value, partition); values that are no bytes as JSON."""
        producer = Producer(self.cluster.client_settings())
        for key, value, partition in messages:
            content = value if isinstance(value, bytes | None) else json.dumps(value).encode()
            producer.produce(topic, key=key, value=content, partition=partition)
        assert producer.flush(30) == 0

    def carry(self, spolt: str, epoch: int = 1) -> None:
        carry_link(self.spec, spolt, epoch)

    def raw(self, topic: str) -> dict[int, Sequence[RawMessage]]:
        """Every committed message of a topic, by partition."""
        with closing(TopicReader(self.cluster)) as log:
            count = log.shapes([topic])[topic][1]
            ends = log.ends([(topic, number) for number in range(count)])
            read = log.read_messages({place: (0, end) for place, end in ends.items()}, 1 << 30)
        return {partition: messages for (_, partition), messages in read.items()}

    def values(self, topic: str) -> list[Any]:
        """The decoded values of a topic of Avro, partition by partition."""
        with closing(HttpRegistry(self.schematizer)) as registry:
            found = [raw.value for _, raws in sorted(self.raw(topic).items()) for raw in raws]
            return [
                None if value is None else avro_records(registry.value_schema(split(value)[0])).decode(split(value)[1])
                for value in found
            ]


def make_case(directory: Path, name: str, servers: tuple[str, str], spolts: str, code: str) -> SpoltCase:
    """Write a pipeline's file, and user code beside it; `servers` are Kafka's and the Schematizer's addresses.

    In `spolts` and in the names of topics, {p} is the pipeline's name. Each case has
    a module of its own name, as they share a process.
    """
    kafka, schematizer = servers
    (directory / f"code_{name}.py").write_text(code)
    file = directory / "pipeline.yaml"
    text = spolts.replace("{p}", name)
    file.write_text(
        CONFIG.format(name=name, home=directory / "home", kafka=kafka, schematizer=schematizer, spolts=text)
    )
    return SpoltCase(file, name, kafka, schematizer)


def batches(spec: PipelineSpec, spolt: str) -> Iterator[list[RangeProcessed]]:
    """What each micro-batch makes, until nothing is left to read; whoever takes them publishes them."""
    planner = SpoltLinkPlanner(spec, spolt_job(spec, spolt), 2)
    while planner.has_work():
        made = [outcome for task in planner.plan() for outcome in task.run()]
        yield [outcome for outcome in made if isinstance(outcome, RangeProcessed)]


def open_publisher(spec: PipelineSpec, spolt: str, epoch: int) -> SpoltPublisher:
    """Take a spolt over."""
    return open_spolt_publisher(spec, spolt, epoch)


if __name__ == "__main__":
    carry_link(load(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3]))
