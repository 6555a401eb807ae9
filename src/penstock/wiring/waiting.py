"""Waits, for a while, until the servers of a pipeline can be reached and are fit for the work."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from penstock.adapters.kafka.cluster import explain as explain_kafka
from penstock.adapters.mysql.catalog import read_flavour
from penstock.adapters.mysql.connection import connect
from penstock.core.errors import UnavailableError
from penstock.wiring.capture_kinds import capture_kind
from penstock.wiring.open import kafka_cluster, mysql_server
from penstock.wiring.registry_probe import probe_registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.config.mysql_source import MysqlSourceSpec
    from penstock.config.specs import PipelineSpec
    from penstock.core.mysql.statements.describe import Flavour

_Answer = TypeVar("_Answer")
_WAIT_SECONDS = 60.0
_PAUSE_SECONDS = 2.0
_ASK_SECONDS = 5.0


def wait_for_servers(spec: PipelineSpec, say: Callable[[str], None], wait_seconds: float = _WAIT_SECONDS) -> None:
    """Return when Kafka and the Schematizer answer.

    Says through `say` what it waits for. Raises UnavailableError when one does not
    answer within `wait_seconds` and UsageError when one is not fit.
    """
    wait_for_answer(partial(_ask_kafka, spec), say, wait_seconds)
    wait_for_answer(partial(_ask_schematizer, spec), say, wait_seconds)


def wait_for_sources(spec: PipelineSpec, say: Callable[[str], None], wait_seconds: float = _WAIT_SECONDS) -> None:
    """Return when every source answers and is fit; of several, when one does: the others' links wait for them.

    Raises as `wait_for_servers` does.
    """
    deadline, away = time.monotonic() + wait_seconds, list(spec.sources)
    while True:
        errors = {}
        for source in away:
            try:
                capture_kind(source).require_fit(source)
            except UnavailableError as error:
                errors[source.name] = error
        is_first_look = len(away) == len(spec.sources)
        away = [source for source in away if source.name in errors]
        if not away:
            return
        first = errors[away[0].name]
        if len(away) < len(spec.sources):
            for name, why in errors.items():
                say(f"{why.message}; {name} is tried again and again, and the other sources go ahead")
            return
        if time.monotonic() >= deadline:
            raise first
        if is_first_look:
            say(f"{first.message}; waiting up to {wait_seconds:.0f} s")
        time.sleep(_PAUSE_SECONDS)


def wait_for_flavour(
    source: MysqlSourceSpec, say: Callable[[str], None], wait_seconds: float = _WAIT_SECONDS
) -> Flavour:
    """Return whether a source is MySQL or MariaDB. Waits and raises as `wait_for_servers` does."""
    return wait_for_answer(partial(_ask_flavour, source), say, wait_seconds)


def wait_for_answer(
    ask: Callable[[], _Answer], say: Callable[[str], None], wait_seconds: float = _WAIT_SECONDS
) -> _Answer:
    """Ask a server until it answers. Waits and raises as `wait_for_servers` does."""
    deadline = time.monotonic() + wait_seconds
    said = wait_seconds == 0
    while True:
        try:
            return ask()
        except UnavailableError as error:
            if not said:
                say(f"{error.message}; waiting up to {wait_seconds:.0f} s")
                said = True
            if time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE_SECONDS)


def _ask_kafka(spec: PipelineSpec) -> None:
    cluster = kafka_cluster(spec)
    try:
        # A client that nobody holds is closed before its answer is there.
        admin = AdminClient(cluster.client_settings())
        admin.describe_cluster(request_timeout=_ASK_SECONDS).result()
    except KafkaException as error:
        raise explain_kafka(error, f"being asked for its brokers at {cluster.bootstrap_servers}") from error


def _ask_schematizer(spec: PipelineSpec) -> None:
    if spec.schematizer is not None:
        probe_registry(spec.schematizer, _ASK_SECONDS)


def _ask_flavour(source: MysqlSourceSpec) -> Flavour:
    with connect(mysql_server(source)) as connection:
        return read_flavour(connection)
