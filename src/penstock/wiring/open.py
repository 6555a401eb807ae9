"""Opens the adapters of a pipeline from its spec.

Every function here works on a driver and on an executor alike: it needs the
spec and the environment, nothing else. A spec that reaches here has no
embedded part left: `penstock run` starts those and fills in where they are.

Many short-lived processes import this module, so what is slow to import and not
needed by most of them is imported where it is opened.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from penstock.adapters.kafka.cluster import TRANSACTION_SECONDS, KafkaCluster, create_topics
from penstock.adapters.kafka.ends import settled_ends
from penstock.adapters.kafka.publisher import TransactionalPublisher, read_position
from penstock.adapters.kafka.reader import TopicReader
from penstock.adapters.kafka.topics import (
    LEDGER_SETTINGS,
    batches_topic,
    letters_topic,
    position_topic,
    schemas_topic,
    timelines_topic,
)
from penstock.adapters.lock.file import FileLock
from penstock.adapters.mysql.connection import MysqlServer, connect
from penstock.adapters.mysql.login import Tls
from penstock.adapters.mysql.tracker import MysqlTracker, read_source_defaults
from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.config.mysql_source import MysqlSourceSpec
from penstock.config.places import (
    kafka_client_options,
    lake_endpoint,
    lake_region,
    lake_url,
    lock_file,
    objects_url,
    schema_directory,
    state_url,
)
from penstock.config.secrets import secret
from penstock.core.errors import FencedError, UsageError
from penstock.links.large_messages import LargeMessages, large_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.adapters.registry.access import RegistryAccess
    from penstock.adapters.registry.client import HttpRegistry
    from penstock.adapters.state.history import SqlHistory
    from penstock.adapters.state.snapshots import SqlSnapshots
    from penstock.adapters.state.store import SqlState
    from penstock.adapters.state.table_actions import SqlTableActions
    from penstock.config.mysql_source import TrackerSpec
    from penstock.config.sinks import DeltaSinkSpec
    from penstock.config.spec import TlsSpec
    from penstock.config.specs import PipelineSpec, SchematizerSpec, SourceSpec
    from penstock.core.topic_policy import TopicRule
    from penstock.ports.checkpoints import Checkpoint, Checkpoints
    from penstock.ports.lock import Lock
    from penstock.ports.objects import ObjectStore
    from penstock.ports.publisher import CapturePublisher, MessageCheck
    from penstock.ports.refreshes import Refreshes
    from penstock.ports.registry import Registry
    from penstock.ports.subjects import Subjects
    from penstock.ports.topics import TopicTail

OBJECTS_LINK = "objects"
_LARGE_FILE_SECONDS = 300.0
"""For a file of a gibibyte, or less."""
_SAVE_SECONDS = 0.2
"""So that less than one publication in a hundred waits for a checkpoint, which takes longer than itself.

An instance that was replaced notices this much later, while its successor waits for half a second of rest.
"""


def kafka_cluster(spec: PipelineSpec) -> KafkaCluster:
    """The brokers of the pipeline."""
    servers = spec.kafka.bootstrap_servers
    if servers is None:
        message = "Kafka broker"
        raise _not_started(message)
    options = kafka_client_options(spec)
    login = tuple(options.items())
    return KafkaCluster(servers, spec.kafka.partitions, spec.kafka.replication, login, topic_rules(spec))


def topic_rules(spec: PipelineSpec) -> tuple[TopicRule, ...]:
    """How topics of tables are to be kept, the first that matches: what a join says of its own, then `police`."""
    joined = [rule for join in spec.joins if (rule := join.topic_rule) is not None]
    return (*joined, *(() if spec.police is None else spec.police.topic_rules))


def open_publisher(
    spec: PipelineSpec,
    link: str,
    epoch: int,
    transaction_timeout_seconds: float = TRANSACTION_SECONDS,
    log: TopicReader | None = None,
) -> CapturePublisher:
    """Become the one publisher of `link`, fencing whoever was it before.

    `log` saves opening another one; it stays open.
    Raises FencedError, and fences nobody, if an instance with a higher number than
    `epoch` was here: we may have slept while it took over, and it must not end for that.
    Raises PositionError if the link's topics are not what it left.
    """
    with ExitStack() as opened:
        log = log or opened.enter_context(closing(open_topic_log(spec)))
        record = committed_position(spec, log, link)
        if record is not None and int(str(record["epoch"])) > epoch:
            message = f"a newer instance of this pipeline publishes for {link}"
            raise FencedError(message, "stop one of the two instances; this one has published nothing since")
        cluster, check = kafka_cluster(spec), _own_messages(spec, link)
        if spec.kafka.transactions:
            return TransactionalPublisher(cluster, spec.pipeline, link, transaction_timeout_seconds, check, log)
    from penstock.adapters.kafka.watermarks import Saving, WatermarkPublisher  # noqa: PLC0415 - see the module's docstring

    checkpoints = _open_checkpoints(spec, link)
    # What the S3 spolt plans depends on how far topics reach when it looks; a capture's changes on the log alone.
    saving = Saving(is_repeatable=link != OBJECTS_LINK, seconds=_SAVE_SECONDS)
    try:
        return WatermarkPublisher(cluster, spec.pipeline, link, checkpoints, saving, check)
    except BaseException:
        checkpoints.close()
        raise


def _open_checkpoints(spec: PipelineSpec, link: str) -> Checkpoints:
    from penstock.adapters.state.checkpoints import open_checkpoints  # noqa: PLC0415 - see the module's docstring

    return open_checkpoints(state_url(spec), spec.pipeline, link)


def _own_messages(spec: PipelineSpec, link: str) -> MessageCheck:
    """What `link` writes; the registry is asked where something else is found."""
    from penstock.links.own_messages import (  # noqa: PLC0415 - see the module's docstring
        BatchMessages,
        CaptureMessages,
        JoinMessages,
        SpoltMessages,
    )

    if link == OBJECTS_LINK:
        return BatchMessages()
    for spolt in spec.spolts:
        if link in {spolt.name, spolt.replay_link}:
            return SpoltMessages(letters_topic(spec.pipeline, spolt.name))

    def value_schema(schema_id: int) -> str:
        with closing(open_registry(spec)) as registry:
            return registry.value_schema(schema_id)

    if link in {join.name for join in spec.joins}:
        return JoinMessages(link, schema_changes_topic(spec), letters_topic(spec.pipeline, link), value_schema)
    folder = large_folder(spec.pipeline, link)
    told = schema_changes_topic(spec), failovers_topic(spec)
    return CaptureMessages(link, *told, folder, value_schema, spec.source(link).format)


def open_topic_log(spec: PipelineSpec) -> TopicReader:
    """Read topics by offset."""
    return TopicReader(kafka_cluster(spec))


def open_topic_tail(spec: PipelineSpec, starts: Mapping[tuple[str, int], int]) -> TopicTail:
    """Follow topics at their ends, each (topic, partition) from its offset in `starts` on."""
    from penstock.adapters.kafka.tail import TopicTail as KafkaTail  # noqa: PLC0415 - see the module's docstring

    return KafkaTail(kafka_cluster(spec), starts)


def committed_position(spec: PipelineSpec, log: TopicReader, link: str) -> Mapping[str, object] | None:
    """The newest record of `link`, None before its first: where Kafka has no transactions, from the state database."""
    if spec.kafka.transactions:
        return read_position(log, position_topic(spec.pipeline, link))
    record = _read_checkpoint(spec, link).record
    return json.loads(record) if record else None


def committed_end(spec: PipelineSpec, log: TopicReader, link: str, topic: str) -> int:
    """Where `topic`, which has one partition that `link` alone writes to, ends for whoever goes on from its record.

    Without transactions a crash leaves messages there that no record covers: they come again.
    """
    end = log.ends([(topic, 0)]).get((topic, 0), 0)
    if spec.kafka.transactions:
        return end
    checkpoint = _read_checkpoint(spec, link)
    # What is left over of an initial snapshot that broke off counts: the next one is told behind it.
    saved = checkpoint.topics.get(topic) if checkpoint.record else None
    return end if saved is None else min(end, saved.ends[0])


def settled_end(log: TopicReader, topic: str) -> int:
    """Where `topic` ends behind all that any record says is in it: transactions reach its partitions one by one."""
    return settled_ends(log.admin, [(topic, 0)]).get((topic, 0), 0)


def _read_checkpoint(spec: PipelineSpec, link: str) -> Checkpoint:
    key = (os.getpid(), state_url(spec), spec.pipeline, link)
    if key not in _checkpoints:
        _checkpoints[key] = _open_checkpoints(spec, link)
    return _checkpoints[key].read()


_checkpoints: dict[tuple[int, str, str, str], Checkpoints] = {}
"""Connections that this process has opened, by its number, too: a fork must not use those of its parent."""


def schema_changes_topic(spec: PipelineSpec) -> str:
    """Where captures announce schemas."""
    return schemas_topic(spec.pipeline)


def batch_topic(spec: PipelineSpec) -> str:
    """Where the S3 spolt announces files."""
    return batches_topic(spec.pipeline)


def failovers_topic(spec: PipelineSpec) -> str:
    """Where failovers tell of the timelines that they began."""
    return timelines_topic(spec.pipeline)


def create_ledgers(spec: PipelineSpec) -> None:
    """Create the topics that links tell each other things by, so that reading them can begin."""
    ledgers = [schema_changes_topic(spec), batch_topic(spec), failovers_topic(spec)]
    create_topics(kafka_cluster(spec), ledgers, LEDGER_SETTINGS, partitions=1)


_FETCH_WAIT_MS = "20"
"""Behind a micro-batch's last message stands a transaction's marker, which no fetch returns: the default is 500."""


def spark_kafka_options(spec: PipelineSpec) -> dict[str, str]:
    """How Spark's Kafka source reaches the brokers."""
    cluster = kafka_cluster(spec)
    return {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.fetch.max.wait.ms": _FETCH_WAIT_MS,
        **cluster.java_settings(),
    }


def open_registry(spec: PipelineSpec) -> Registry:
    """A client of the Schematizer."""
    return _open_http_registry(spec)


def open_subjects(spec: PipelineSpec) -> Subjects:
    """A client of the Schematizer, for topics that people name."""
    return _open_http_registry(spec)


def open_refreshes(spec: PipelineSpec) -> Refreshes:
    """A client of the Schematizer, for what it is told of snapshots."""
    if spec.schematizer is None:
        message = "Schematizer"
        raise _not_started(message)
    from penstock.adapters.registry.refreshes import HttpRefreshes  # noqa: PLC0415 - see the module's docstring

    return HttpRefreshes(registry_access(spec.schematizer))


def _open_http_registry(spec: PipelineSpec) -> HttpRegistry:
    if spec.schematizer is None:
        message = "Schematizer"
        raise _not_started(message)
    from penstock.adapters.registry.client import HttpRegistry  # noqa: PLC0415 - see the module's docstring

    return HttpRegistry(registry_access(spec.schematizer), cache_directory=schema_directory(spec))


def registry_access(spec: SchematizerSpec) -> RegistryAccess:
    """Where the Schematizer is, and how we sign in there."""
    from penstock.adapters.registry.access import RegistryAccess  # noqa: PLC0415 - see the module's docstring

    return RegistryAccess(spec.url, spec.user, spec.password_env, spec.token_env, spec.ca_file)


def open_pipeline_state(spec: PipelineSpec) -> SqlState:
    """The pipeline's rows of the state database."""
    from penstock.adapters.state.store import open_state  # noqa: PLC0415 - see the module's docstring

    return open_state(state_url(spec), spec.pipeline)


def open_snapshot_list(spec: PipelineSpec) -> SqlSnapshots:
    """The pipeline's snapshots, in the state database."""
    from penstock.adapters.state.snapshots import open_snapshots  # noqa: PLC0415 - see the module's docstring

    return open_snapshots(state_url(spec), spec.pipeline)


def open_table_actions(spec: PipelineSpec) -> SqlTableActions:
    """What is asked for of the pipeline's tables, in the state database."""
    from penstock.adapters.state.table_actions import open_table_actions as opened  # noqa: PLC0415 - see the module's docstring

    return opened(state_url(spec), spec.pipeline)


def open_history(spec: PipelineSpec) -> SqlHistory:
    """What is remembered of the pipeline for its page and metrics."""
    from penstock.adapters.state.history import open_history as opened  # noqa: PLC0415 - see the module's docstring

    return opened(state_url(spec), spec.pipeline)


def open_object_store(spec: PipelineSpec) -> ObjectStore:
    """Where files are kept."""
    return open_objects(_objects_place(spec))


def open_large_store(spec: PipelineSpec) -> ObjectStore:
    """The same, for messages that are larger than their topics take; these are read whatever sources now say."""
    return open_objects(replace(_objects_place(spec), timeout_seconds=_LARGE_FILE_SECONDS))


def _objects_place(spec: PipelineSpec) -> ObjectsSpec:
    return ObjectsSpec(objects_url(spec), spec.objects.endpoint or "", spec.objects.region)


def large_messages(spec: PipelineSpec, source: str) -> LargeMessages:
    """Where messages of a source are kept that are larger than their topics take."""
    return LargeMessages(spec.pipeline, source, partial(open_large_store, spec))


def open_lake_store(spec: PipelineSpec, sink: DeltaSinkSpec) -> ObjectStore:
    """Where a folder of Delta tables is."""
    return open_objects(ObjectsSpec(lake_url(spec, sink), lake_endpoint(spec, sink), lake_region(spec, sink)))


def mysql_source(source: SourceSpec) -> MysqlSourceSpec:
    """Return the spec of a source that is MySQL's or MariaDB's; UsageError for one of another kind."""
    if not isinstance(source, MysqlSourceSpec):
        message = f"{source.name} is a source of kind {source.kind}, which has no such thing"
        raise UsageError(message, "name a source of kind mysql")
    return source


def mysql_server(source: SourceSpec) -> MysqlServer:
    """The source's server and our login to it."""
    source = mysql_source(source)
    return MysqlServer(source.host, source.port, source.user, secret(source.password_env), _tls(source.tls))


def tracker_server(tracker: TrackerSpec) -> MysqlServer:
    """The tracker's server and our login to it."""
    return MysqlServer(tracker.host, tracker.port, tracker.user, secret(tracker.password_env), _tls(tracker.tls))


def _tls(spec: TlsSpec | None) -> Tls | None:
    if spec is None:
        return None
    ca, cert, key = (None if file is None else str(file) for file in (spec.ca, spec.cert, spec.key))
    return Tls(spec.verify, ca, cert, key)


def open_tracker(spec: PipelineSpec, source: SourceSpec) -> MysqlTracker:
    """The schema tracker of `source`."""
    tracker = spec.tracker_of(source)
    if tracker is None:
        if len(spec.sources) > 1:
            message = f"{source.name} could not be reached when the pipeline started, and has no schema tracker yet"
            raise UsageError(message, "when it answers, end the pipeline and start it again: penstock run FILE")
        message = "schema tracker"
        raise _not_started(message)
    with connect(mysql_server(source)) as connection:
        return MysqlTracker(tracker_server(tracker), read_source_defaults(connection), mysql_source(source).policy)


def open_lock(spec: PipelineSpec) -> Lock:
    """The leader's lock of the pipeline; nothing is connected yet."""
    if spec.lock.zookeeper is None:
        return FileLock(lock_file(spec))
    from penstock.adapters.lock.zookeeper import ZookeeperLock  # noqa: PLC0415 - see the module's docstring
    from penstock.adapters.lock.zookeeper_client import ZookeeperPlace  # noqa: PLC0415

    servers, slash, path = spec.lock.zookeeper.partition("/")
    return ZookeeperLock(ZookeeperPlace(servers, slash + path, spec.lock.session_seconds), spec.pipeline)


def _not_started(part: str) -> UsageError:
    return UsageError(f"the private {part} of this pipeline does not run", "start it with: penstock run FILE")
