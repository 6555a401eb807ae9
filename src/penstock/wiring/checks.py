"""Asks the servers of a pipeline whether they can do what its config wants of them."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, assert_never
from urllib.parse import unquote, urlsplit

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from penstock.adapters.kafka.cluster import explain
from penstock.adapters.kafka.preflight import judge, read_durability
from penstock.adapters.mysql import preflight
from penstock.adapters.mysql.connection import connect, server_of
from penstock.adapters.mysql.heartbeat import HeartbeatWriter
from penstock.adapters.mysql.visible import unseen_patterns
from penstock.adapters.postgres.preflight import examine_database
from penstock.adapters.redshift.preflight import examine_database as examine_redshift
from penstock.adapters.state.migrate import has_current_tables
from penstock.config.places import lake_url, objects_url, state_url
from penstock.config.postgres_source import PostgresSourceSpec
from penstock.config.sinks import DeltaSinkSpec, DuckdbSinkSpec, PostgresSinkSpec, RedshiftSinkSpec
from penstock.core.errors import PenstockError, UnfitServerError, UsageError
from penstock.wiring.check_started import examine_started
from penstock.wiring.findings import Finding, examine
from penstock.wiring.objects_probe import probe_objects
from penstock.wiring.open import (
    kafka_cluster,
    mysql_server,
    open_lake_store,
    open_lock,
    open_object_store,
    tracker_server,
)
from penstock.wiring.registry_probe import probe_registry
from penstock.wiring.warehouses import postgres_server, redshift_cluster, redshift_loads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.adapters.mysql.visible import UnseenPattern
    from penstock.config.sinks import SinkSpec
    from penstock.config.specs import PipelineSpec, SchematizerSpec, SourceSpec, TrackerSpec

_TIMEOUT_SECONDS = 10.0
_FREE_BYTES_MIN = 1 << 30
_STATE = "state database"


def examine_pipeline(spec: PipelineSpec) -> Sequence[Finding]:
    """Ask every server that the config names, one after the other; embedded ones need not run.

    No server is changed, but for a small file that is written to the object store
    and deleted. Never raises for a server that is unfit or away: that is a finding.
    Takes about 10 seconds for each server that is away.
    """
    findings = [examine(f"home {spec.home}", partial(_examine_home, spec.home))]
    findings.append(examine(_lock_place(spec), partial(_examine_lock, spec)))
    for source in spec.sources:
        findings += _examine_source(source, spec.pipeline)
    findings += [examine(subject, question) for subject, question in _given_parts(spec)]
    kafka = f"kafka {spec.kafka.bootstrap_servers}"
    # A cluster that is away is waited for once.
    if any(found.subject == kafka and found.level == "ok" for found in findings):
        findings += _examine_durability(spec, kafka)
    findings += [examine(f"sink {sink.name}", partial(_examine_sink, spec, sink)) for sink in spec.sinks]
    # What is away, or cannot be used, is told once.
    if all(found.level != "error" for found in findings if found.subject in {kafka, _STATE}):
        findings += examine_started(spec)
    return findings


def _given_parts(spec: PipelineSpec) -> Iterator[tuple[str, Callable[[], str]]]:
    if spec.kafka.bootstrap_servers is not None:
        yield f"kafka {spec.kafka.bootstrap_servers}", partial(_examine_kafka, spec)
    if spec.schematizer is not None:
        yield f"schematizer {spec.schematizer.url}", partial(_examine_registry, spec.schematizer)
    if not spec.is_embedded("state"):
        yield _STATE, partial(_examine_state, spec)
    if spec.tracker is not None:
        yield f"tracker {spec.tracker.host}:{spec.tracker.port}", partial(_examine_tracker, spec.tracker)
    if spec.objects.url is not None:
        yield f"objects {spec.objects.url}", partial(_examine_objects, spec)


def _lock_place(spec: PipelineSpec) -> str:
    return "lock" if spec.lock.zookeeper is None else f"lock in zookeeper {spec.lock.zookeeper}"


def _examine_lock(spec: PipelineSpec) -> str:
    holder = open_lock(spec).holder()
    return f"this pipeline runs: {holder}" if holder else "free: this pipeline does not run"


def _examine_source(source: SourceSpec, pipeline: str) -> Iterator[Finding]:
    """Look at the server's settings, our grants on it, the tables that are wanted and that of heartbeats."""
    subject = f"source {source.name}"
    if isinstance(source, PostgresSourceSpec):
        from penstock.wiring.postgres_checks import examine_postgres  # noqa: PLC0415 - see wiring/capture_kinds.py

        yield from examine_postgres(source)
        return
    try:
        with connect(mysql_server(source)) as connection:
            yield Finding("ok", subject, f"{source.user} can log in to {source.host}:{source.port}")
            for found in preflight.examine(connection, source.patterns.matches, source.policy):
                exit_code = UnfitServerError.exit_code if found.level == "error" else 0
                yield Finding(found.level, f"{subject}, {found.subject}", found.message, found.hint, exit_code)
            for unseen in unseen_patterns(connection, source.tables):
                yield _unseen_finding(subject, unseen, source.user)
            if source.heartbeat is not None:
                writer = HeartbeatWriter(connection, source.heartbeat.table_id, pipeline, epoch=0)
                yield examine(f"{subject}, heartbeat", writer.examine)
    except PenstockError as error:
        yield Finding("error", subject, error.message, error.hint, error.exit_code)


def _unseen_finding(subject: str, unseen: UnseenPattern, user: str) -> Finding:
    """A table that is named must be there; one that a wildcard means may come later, or be there without our seeing."""
    pattern = unseen.pattern
    if unseen.grant and not unseen.is_missing:
        message = (
            f"{user} may not read all of {pattern}: a table that it has no SELECT on does not show, nor is carried"
        )
        return Finding("warning", f"{subject}, grant SELECT", message, f"{unseen.grant}; or name the tables one by one")
    if unseen.grant:
        message = f"there is no table {pattern} that {user} may see"
        hint = f"if there is one: {unseen.grant}; else create it, or correct its name in the config"
        return Finding("error", subject, message, hint, UsageError.exit_code)
    if set(pattern) & set("*?"):
        return Finding("warning", subject, f"no table matches {pattern} yet", "create one, or correct the pattern")
    hint = "correct its name in the config, or create it"
    return Finding("error", subject, f"there is no table {pattern}", hint, UsageError.exit_code)


def _examine_kafka(spec: PipelineSpec) -> str:
    cluster = kafka_cluster(spec)
    try:
        found = AdminClient(cluster.client_settings()).list_topics(timeout=_TIMEOUT_SECONDS)
    except KafkaException as error:
        raise explain(error, "listing topics") from error
    if len(found.brokers) < cluster.replication:
        message = f"there are {len(found.brokers)} brokers, fewer than kafka.replication, {cluster.replication}"
        raise UnfitServerError(message, "lower kafka.replication or start more brokers")
    return f"answers with {len(found.brokers)} broker(s) and {len(found.topics)} topics"


def _examine_durability(spec: PipelineSpec, subject: str) -> Iterator[Finding]:
    """Look at how many copies the cluster keeps of what it has acknowledged; each weakness once, by its first topic."""
    prefixes = [f"penstock.{spec.pipeline}.", *(f"{source.name}." for source in spec.sources)]
    try:
        found = read_durability(kafka_cluster(spec), prefixes)
    except PenstockError as error:
        yield Finding("warning", subject, error.message, error.hint)
        return
    told: set[tuple[int, int]] = set()
    for durability in found:
        weakness, kind = judge(durability), (durability.copies, durability.in_sync_min)
        if weakness is not None and kind not in told:
            told.add(kind)
            exit_code = UnfitServerError.exit_code if weakness.level == "error" else 0
            yield Finding(weakness.level, subject, weakness.message, weakness.hint, exit_code)


def _examine_registry(spec: SchematizerSpec) -> str:
    probe_registry(spec, _TIMEOUT_SECONDS)
    return "answers"


def _examine_state(spec: PipelineSpec) -> str:
    is_current = has_current_tables(state_url(spec))
    return "has the tables of this release" if is_current else "gets the tables of this release at the next run"


def _examine_tracker(tracker: TrackerSpec) -> str:
    with connect(tracker_server(tracker)) as connection:
        return f"lets in {server_of(connection)}"


def _examine_objects(spec: PipelineSpec) -> str:
    parts = urlsplit(objects_url(spec))
    folder = Path(unquote(parts.path))
    if parts.scheme == "file" and not folder.exists():
        # Opening the store would make the folder.
        return f"files can be made under {_writable_ground(folder)}"
    return probe_objects(open_object_store(spec), spec.pipeline)


def _examine_lake(spec: PipelineSpec, sink: DeltaSinkSpec) -> str:
    url = lake_url(spec, sink)
    parts = urlsplit(url)
    if parts.scheme == "file":
        # Opening the store would make the folder.
        return f"tables can be made under {_writable_ground(Path(unquote(parts.path)))}"
    open_lake_store(spec, sink).exists("penstock-check")
    return f"{url} can be read; Spark needs Hadoop's library for it too, see docs/operations.md"


def _examine_home(home: Path) -> str:
    ground = _writable_ground(home)
    free_bytes = shutil.disk_usage(ground).free
    if free_bytes < _FREE_BYTES_MIN:
        message = f"only {free_bytes >> 20} MiB are free under {ground}"
        raise UsageError(message, "free some space, or put home on another disk")
    return f"can be written to, {free_bytes >> 30} GiB are free"


def _examine_sink(spec: PipelineSpec, sink: SinkSpec) -> str:
    match sink:
        case DuckdbSinkSpec():
            return _examine_file(sink.path)
        case PostgresSinkSpec():
            return examine_database(postgres_server(sink))
        case RedshiftSinkSpec():
            return examine_redshift(redshift_cluster(sink), redshift_loads(spec, sink, spec.sources[0].name))
        case DeltaSinkSpec():
            return _examine_lake(spec, sink)
        case _:
            assert_never(sink)


def _examine_file(file: Path) -> str:
    if file.exists() and not (file.is_file() and os.access(file, os.R_OK | os.W_OK)):
        message = f"{file} is not a file that we may read and write"
        raise UsageError(message, "correct its rights, or give the sink another path")
    _writable_ground(file.parent)
    return f"{file} can be written to" if file.exists() else f"{file} can be made"


def _writable_ground(directory: Path) -> Path:
    """Return the nearest directory that exists, from `directory` upwards, if files can be made in it."""
    ground = next(parent for parent in (directory, *directory.parents) if parent.exists())
    if not ground.is_dir() or not os.access(ground, os.W_OK | os.X_OK):
        message = f"{ground} is not a directory that we may write to"
        raise UsageError(message, "correct its rights, or give another path in the config")
    return ground
