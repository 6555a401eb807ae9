"""Asks the servers of a pipeline whether they can do what its config wants of them."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

import httpx
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from penstock.adapters.kafka.cluster import explain
from penstock.adapters.kafka.preflight import judge, read_durability
from penstock.adapters.mysql import preflight
from penstock.adapters.mysql.connection import connect, server_of
from penstock.adapters.state.migrate import examine_database
from penstock.config.places import objects_url, state_url
from penstock.core.errors import PenstockError, UnavailableError, UnfitServerError, UsageError
from penstock.wiring.open import kafka_cluster, mysql_server, open_lock, open_object_store, tracker_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.config.specs import MysqlSourceSpec, PipelineSpec, TrackerSpec

_TIMEOUT_SECONDS = 10.0
_FREE_BYTES_MIN = 1 << 30


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, and what was found.

    `hint` says what to do, "" where all is well. `exit_code` is what an error
    would have ended `penstock run` with, 0 for a warning.
    """

    level: Literal["ok", "warning", "error"]
    subject: str
    text: str
    hint: str = ""
    exit_code: int = 0


def examine_pipeline(spec: PipelineSpec) -> Sequence[Finding]:
    """Ask every server that the config names, one after the other; embedded ones need not run.

    No server is changed. Never raises for a server that is unfit or away: that
    is a finding. Takes about 10 seconds for each server that is away.
    """
    findings = [examine(f"home {spec.home}", partial(_examine_home, spec.home))]
    findings.append(examine(_lock_place(spec), partial(_examine_lock, spec)))
    for source in spec.sources:
        findings += _examine_source(source)
    findings += [examine(subject, question) for subject, question in _given_parts(spec)]
    kafka = f"kafka {spec.kafka.bootstrap_servers}"
    # A cluster that is away is waited for once.
    if any(found.subject == kafka and found.level == "ok" for found in findings):
        findings += _examine_durability(spec, kafka)
    findings += [examine(f"sink {sink.name}", partial(_examine_file, sink.path)) for sink in spec.sinks]
    return findings


def examine(subject: str, question: Callable[[], str]) -> Finding:
    """Ask one question: its answer is the text of the finding, or the error that it raises."""
    try:
        return Finding("ok", subject, question())
    except PenstockError as error:
        return Finding("error", subject, error.message, error.hint, error.exit_code)


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


def _lock_place(spec: PipelineSpec) -> str:
    return "lock" if spec.lock.zookeeper is None else f"lock in zookeeper {spec.lock.zookeeper}"


def _examine_lock(spec: PipelineSpec) -> str:
    holder = open_lock(spec).holder()
    return f"this pipeline runs: {holder}" if holder else "free: this pipeline does not run"


def _examine_source(source: MysqlSourceSpec) -> Iterator[Finding]:
    """Look at the server's settings, our grants on it and the tables that are wanted."""
    subject = f"source {source.name}"
    try:
        with connect(mysql_server(source)) as connection:
            yield Finding("ok", subject, f"{source.user} can log in to {source.host}:{source.port}")
            for found in preflight.examine(connection, source.patterns.matches, source.policy):
                exit_code = UnfitServerError.exit_code if found.level == "error" else 0
                yield Finding(found.level, f"{subject}, {found.subject}", found.message, found.hint, exit_code)
            for pattern in preflight.missing_tables(connection, source.tables):
                yield _missing_table(subject, pattern)
    except PenstockError as error:
        yield Finding("error", subject, error.message, error.hint, error.exit_code)


def _missing_table(subject: str, pattern: str) -> Finding:
    """A table that is named must be there; one that a wildcard means may come later."""
    if set(pattern) & set("*?"):
        return Finding("warning", subject, f"no table matches {pattern} yet", "create one, or correct the pattern")
    hint = "correct its name in the config, create it, or let us read it: GRANT SELECT"
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
    with connect(tracker_server(tracker)) as connection:
        return f"lets in {server_of(connection)}"


def _examine_objects(spec: PipelineSpec) -> str:
    parts = urlsplit(objects_url(spec))
    if parts.scheme == "file":
        # Opening the store would make the folder.
        return f"files can be made under {_writable_ground(Path(unquote(parts.path)))}"
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
