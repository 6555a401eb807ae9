"""Asks the servers of a pipeline whether they can do what its config wants of them."""

from __future__ import annotations

import shutil
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from penstock.adapters.kafka.cluster import explain
from penstock.adapters.kafka.preflight import judge, read_durability
from penstock.adapters.mysql.connection import connect, server_of
from penstock.adapters.state.migrate import has_current_tables
from penstock.config.places import objects_url, state_url
from penstock.core.errors import PenstockError, ReplicaLagError, UnfitServerError, UsageError
from penstock.core.findings import Finding, examine
from penstock.links.large_messages import large_folder
from penstock.wiring.capture_kinds import capture_kind
from penstock.wiring.check_started import examine_started
from penstock.wiring.ground import writable_ground
from penstock.wiring.loose_columns import examine_columns
from penstock.wiring.objects_probe import probe_large_messages, probe_objects
from penstock.wiring.open import (
    kafka_cluster,
    open_lock,
    open_object_store,
    tracker_server,
)
from penstock.wiring.registry_probe import probe_registry
from penstock.wiring.sink_kinds.table import sink_kind
from penstock.wiring.topic_limits import own_prefixes, size_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.config.audits import AuditSpec
    from penstock.config.mysql_source import TrackerSpec
    from penstock.config.specs import PipelineSpec, SchematizerSpec

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
        findings += capture_kind(source).examine(source, spec.pipeline)
    findings += [_examine_replica(spec, audit) for audit in spec.audits if audit.replica is not None]
    findings += [examine(subject, question) for subject, question in _given_parts(spec)]
    kafka = f"kafka {spec.kafka.bootstrap_servers}"
    # A cluster that is away is waited for once.
    if any(found.subject == kafka and found.level == "ok" for found in findings):
        findings += _examine_durability(spec, kafka)
    unfit = {found.subject.partition(",")[0] for found in findings if found.level == "error"}
    findings += examine_columns(spec, {source.name for source in spec.sources if f"source {source.name}" in unfit})
    findings += [examine(f"sink {sink.name}", sink_kind(spec, sink).examine) for sink in spec.sinks]
    # What is away, or cannot be used, is told once.
    if all(found.level != "error" for found in findings if found.subject in {kafka, _STATE}):
        findings += examine_started(spec)
    return findings


def _examine_replica(spec: PipelineSpec, audit: AuditSpec) -> Finding:
    """Wait for the replica that an audit reads, as the audit does, but not for long."""
    subject = f"audit of {audit.source} in {audit.sink}, replica"
    patient = audit.model_copy(update={"wait_seconds": min(audit.wait_seconds, _TIMEOUT_SECONDS)})
    try:
        with closing(capture_kind(spec.source(audit.source)).audited(spec.source(audit.source), patient)) as opened:
            opened.renew()
    except ReplicaLagError as error:
        return Finding("warning", subject, error.message, error.hint)
    except PenstockError as error:
        return Finding("error", subject, error.message, error.hint, error.exit_code)
    return Finding("ok", subject, "has all that its source has")


def _given_parts(spec: PipelineSpec) -> Iterator[tuple[str, Callable[[], str]]]:
    if spec.kafka.bootstrap_servers is not None:
        yield f"kafka {spec.kafka.bootstrap_servers}", partial(_examine_kafka, spec)
    if spec.schematizer is not None:
        yield f"schematizer {spec.schematizer.url}", partial(_examine_registry, spec.schematizer)
    if not spec.is_embedded("state"):
        yield _STATE, partial(_examine_state, spec)
    for tracker in filter(None, map(spec.tracker_of, spec.sources)):
        yield f"tracker {tracker.host}:{tracker.port}", partial(_examine_tracker, tracker)
    if spec.objects.url is not None:
        yield f"objects {spec.objects.url}", partial(_examine_objects, spec)


def _lock_place(spec: PipelineSpec) -> str:
    return "lock" if spec.lock.zookeeper is None else f"lock in zookeeper {spec.lock.zookeeper}"


def _examine_lock(spec: PipelineSpec) -> str:
    holder = open_lock(spec).holder()
    return f"this pipeline runs: {holder}" if holder else "free: this pipeline does not run"


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
    try:
        found = read_durability(kafka_cluster(spec), own_prefixes(spec))
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
    limits, more = size_limits(found)
    for weakness in limits:
        yield Finding(weakness.level, subject, weakness.message, weakness.hint)
    if more:
        message = f"{more} more topics have a limit of their size"
        yield Finding("warning", subject, message, "lift it there too, or set log.retention.bytes=-1 on the brokers")


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
        return f"files can be made under {writable_ground(folder)}"
    objects = open_object_store(spec)
    for source in spec.sources:
        if source.large_values == "objects":
            probe_large_messages(objects, large_folder(spec.pipeline, source.name))
    return probe_objects(objects, spec.pipeline)


def _examine_home(home: Path) -> str:
    ground = writable_ground(home)
    free_bytes = shutil.disk_usage(ground).free
    if free_bytes < _FREE_BYTES_MIN:
        message = f"only {free_bytes >> 20} MiB are free under {ground}"
        raise UsageError(message, "free some space, or put home on another disk")
    return f"can be written to, {free_bytes >> 30} GiB are free"
