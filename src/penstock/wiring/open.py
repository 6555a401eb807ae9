"""Opens the adapters of a pipeline from its spec.

Every function here works on a driver and on an executor alike: it needs the
spec and the environment, nothing else. A spec that reaches here has no
embedded part left: `penstock run` starts those and fills in where they are.

Many short-lived processes import this module, so what is slow to import and not
needed by most of them is imported where it is opened.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from penstock.adapters.kafka.cluster import KafkaCluster, create_topics
from penstock.adapters.kafka.publisher import TransactionalPublisher, read_position
from penstock.adapters.kafka.reader import TopicReader
from penstock.adapters.kafka.topics import LEDGER_SETTINGS, batches_topic, position_topic, schemas_topic
from penstock.adapters.lock.file import FileLock
from penstock.adapters.mysql.connection import MysqlServer, connect
from penstock.adapters.mysql.login import Tls
from penstock.adapters.mysql.tracker import MysqlTracker, read_source_defaults
from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.adapters.registry.client import HttpRegistry
from penstock.config.places import kafka_client_options, lock_file, objects_url, state_url
from penstock.config.secrets import secret
from penstock.core.errors import FencedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.adapters.state.store import SqlState
    from penstock.config.specs import LinkSpec, MysqlSourceSpec, PipelineSpec, TlsSpec, TrackerSpec
    from penstock.ports.lock import Lock
    from penstock.ports.objects import ObjectStore
    from penstock.ports.registry import Registry
    from penstock.ports.sink import Sink

OBJECTS_LINK = "objects"


def kafka_cluster(spec: PipelineSpec) -> KafkaCluster:
    """The brokers of the pipeline."""
    if spec.kafka.bootstrap_servers is None:
        message = "Kafka broker"
        raise _not_started(message)
    options = kafka_client_options(spec)
    return KafkaCluster(
        spec.kafka.bootstrap_servers, spec.kafka.partitions, spec.kafka.replication, tuple(options.items())
    )


def open_publisher(
    spec: PipelineSpec, link: str, epoch: int, transaction_timeout_seconds: float = 60.0
) -> TransactionalPublisher:
    """Become the one publisher of `link`, fencing whoever was it before.

    Raises FencedError, and fences nobody, if an instance with a higher number than
    `epoch` was here: we may have slept while it took over, and it must not end for that.
    """
    with closing(open_topic_log(spec)) as log:
        record = committed_position(spec, log, link)
    if record is not None and int(str(record["epoch"])) > epoch:
        message = f"a newer instance of this pipeline publishes for {link}"
        raise FencedError(message, "stop one of the two instances; this one has published nothing since")
    return TransactionalPublisher(kafka_cluster(spec), spec.pipeline, link, transaction_timeout_seconds)


def open_topic_log(spec: PipelineSpec) -> TopicReader:
    """Read topics by offset."""
    return TopicReader(kafka_cluster(spec))


def committed_position(spec: PipelineSpec, log: TopicReader, link: str) -> Mapping[str, object] | None:
    """The newest committed record of `link`, None before its first."""
    return read_position(log, position_topic(spec.pipeline, link))


def announcements_topic(spec: PipelineSpec) -> str:
    """Where captures announce schemas."""
    return schemas_topic(spec.pipeline)


def batch_topic(spec: PipelineSpec) -> str:
    """Where the S3 spolt announces files."""
    return batches_topic(spec.pipeline)


def create_ledgers(spec: PipelineSpec) -> None:
    """Create the topics that links tell each other things by, so that reading them can begin."""
    create_topics(kafka_cluster(spec), [announcements_topic(spec), batch_topic(spec)], LEDGER_SETTINGS, partitions=1)


def spark_kafka_options(spec: PipelineSpec) -> dict[str, str]:
    """How Spark's Kafka source reaches the brokers."""
    cluster = kafka_cluster(spec)
    return {"kafka.bootstrap.servers": cluster.bootstrap_servers, **cluster.java_settings()}


def open_registry(spec: PipelineSpec) -> Registry:
    """A client of the Schematizer."""
    if spec.schematizer is None:
        message = "Schematizer"
        raise _not_started(message)
    return HttpRegistry(spec.schematizer.url)


def open_pipeline_state(spec: PipelineSpec) -> SqlState:
    """The pipeline's rows of the state database."""
    from penstock.adapters.state.store import open_state  # noqa: PLC0415 - see the module's docstring

    return open_state(state_url(spec), spec.pipeline)


def open_object_store(spec: PipelineSpec) -> ObjectStore:
    """Where files are kept."""
    endpoint = spec.objects.endpoint if spec.objects else None
    return open_objects(ObjectsSpec(objects_url(spec), endpoint or ""))


def mysql_server(source: MysqlSourceSpec) -> MysqlServer:
    """The source's server and our login to it."""
    return MysqlServer(source.host, source.port, source.user, secret(source.password_env), _tls(source.tls))


def tracker_server(tracker: TrackerSpec) -> MysqlServer:
    """The tracker's server and our login to it."""
    return MysqlServer(tracker.host, tracker.port, tracker.user, secret(tracker.password_env), _tls(tracker.tls))


def _tls(spec: TlsSpec | None) -> Tls | None:
    if spec is None:
        return None
    ca, cert, key = (None if file is None else str(file) for file in (spec.ca, spec.cert, spec.key))
    return Tls(spec.verify, ca, cert, key)


def open_tracker(spec: PipelineSpec, source: MysqlSourceSpec) -> MysqlTracker:
    """The schema tracker of `source`."""
    if spec.tracker is None:
        message = "schema tracker"
        raise _not_started(message)
    with connect(mysql_server(source)) as connection:
        return MysqlTracker(tracker_server(spec.tracker), read_source_defaults(connection), source.policy)


def open_lock(spec: PipelineSpec) -> Lock:
    """The leader's lock of the pipeline; nothing is connected yet."""
    if spec.lock.zookeeper is None:
        return FileLock(lock_file(spec))
    from penstock.adapters.lock.zookeeper import ZookeeperLock  # noqa: PLC0415 - see the module's docstring
    from penstock.adapters.lock.zookeeper_client import ZookeeperPlace  # noqa: PLC0415

    servers, slash, path = spec.lock.zookeeper.partition("/")
    return ZookeeperLock(ZookeeperPlace(servers, slash + path, spec.lock.session_seconds), spec.pipeline)


def open_sink(spec: PipelineSpec, link: LinkSpec) -> Sink:
    """The target of `link`."""
    from penstock.adapters.duckdb.query_wire import run_file  # noqa: PLC0415 - see the module's docstring
    from penstock.adapters.duckdb.sink import DuckdbSink  # noqa: PLC0415

    sink = spec.sink(link.sink)
    objects = open_object_store(spec)
    target = DuckdbSink(sink.path, spec.pipeline, link.source, objects, dropped_tables=link.dropped_tables)
    target.serve_queries(run_file(spec.home, sink.name))
    return target


def _not_started(part: str) -> UsageError:
    return UsageError(f"the private {part} of this pipeline does not run", "start it with: penstock run FILE")
