"""Asks the servers of a pipeline whether they can do what its config wants of them."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import httpx
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from penstock.adapters.kafka.cluster import explain
from penstock.adapters.mysql.connection import MysqlServer, connect
from penstock.adapters.state.migrate import examine_database
from penstock.config.places import state_url
from penstock.config.secrets import secret
from penstock.core.errors import PenstockError, UnavailableError, UnfitServerError, UsageError
from penstock.wiring.open import kafka_cluster, mysql_server, open_object_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from penstock.config.specs import MysqlSourceSpec, PipelineSpec, TrackerSpec

_TIMEOUT_SECONDS = 10.0
_FREE_BYTES_MIN = 1 << 30


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, and what was found. `problem` is None where all is well."""

    subject: str
    text: str
    problem: PenstockError | None = None


def examine_pipeline(spec: PipelineSpec) -> Sequence[Finding]:
    """Ask every server that the config names, one after the other; embedded ones need not run.

    No server is changed. Never raises for a server that is unfit or away: that
    is a finding. Takes about 10 seconds for each server that is away.
    """
    findings = [examine(f"home {spec.home}", partial(_examine_home, spec.home))]
    for source in spec.sources:
        findings += _examine_source(source)
    findings += [examine(subject, question) for subject, question in _given_parts(spec)]
    findings += [examine(f"sink {sink.name}", partial(_examine_file, sink.path)) for sink in spec.sinks]
    return findings


def examine(subject: str, question: Callable[[], str]) -> Finding:
    """Ask one question: its answer is the text of the finding, the error it raises its problem."""
    try:
        return Finding(subject, question())
    except PenstockError as error:
        return Finding(subject, error.message, error)


def _given_parts(spec: PipelineSpec) -> Iterator[tuple[str, Callable[[], str]]]:
    if spec.kafka.bootstrap_servers is not None:
        yield f"kafka {spec.kafka.bootstrap_servers}", partial(_examine_kafka, spec)
    if spec.schematizer is not None:
        yield f"schematizer {spec.schematizer.url}", partial(_examine_web, spec.schematizer.url)
    if not spec.is_embedded("state"):
        yield "state database", lambda: examine_database(state_url(spec))
    if spec.tracker is not None:
        yield f"tracker {spec.tracker.host}:{spec.tracker.port}", partial(_examine_tracker, spec.tracker)
    if spec.objects is not None:
        yield f"objects {spec.objects.url}", partial(_examine_objects, spec)


def _examine_source(source: MysqlSourceSpec) -> list[Finding]:
    """Look at the server's settings, our grants on it and the tables that are wanted."""
    return [examine(f"source {source.name}", partial(_log_in, source))]


def _log_in(source: MysqlSourceSpec) -> str:
    with connect(mysql_server(source)) as connection:
        return f"answers, version {connection.server_version}"


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


def _examine_web(url: str) -> str:
    try:
        answer = httpx.get(f"{url}/subjects", timeout=_TIMEOUT_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        message = f"{url} does not answer: {error}"
        raise UnavailableError(message, "check that the Schematizer runs there: penstock schematizer serve") from error
    if not answer.is_success:
        message = f"{url}/subjects answers with status {answer.status_code}; a Schematizer would list its subjects"
        raise UnfitServerError(message, "check schematizer.url")
    return "answers"


def _examine_tracker(tracker: TrackerSpec) -> str:
    with connect(MysqlServer(tracker.host, tracker.port, tracker.user, secret(tracker.password_env))) as connection:
        return f"answers, version {connection.server_version}"


def _examine_objects(spec: PipelineSpec) -> str:
    open_object_store(spec).exists("penstock-check")
    return "can be read"


def _examine_home(home: Path) -> str:
    ground = _writable_ground(home)
    free_bytes = shutil.disk_usage(ground).free
    if free_bytes < _FREE_BYTES_MIN:
        message = f"only {free_bytes >> 20} MiB are free under {ground}"
        raise UsageError(message, "free some space, or put home on another disk")
    return f"can be written to, {free_bytes >> 30} GiB are free"


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
