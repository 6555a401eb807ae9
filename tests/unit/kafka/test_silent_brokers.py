"""Brokers that take a connection and never answer: each question ends with an error that says so."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from penstock.adapters.kafka.cluster import KafkaCluster, create_topics
from penstock.adapters.kafka.described import describe_topics
from penstock.adapters.kafka.ends import written_ends
from penstock.core.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def describe(cluster: KafkaCluster) -> None:
    describe_topics(AdminClient(cluster.client_settings()), ["t"])


def ask_ends(cluster: KafkaCluster) -> None:
    written_ends(AdminClient(cluster.client_settings()), [("t", 0)])


def create(cluster: KafkaCluster) -> None:
    create_topics(cluster, ["t"], {}, partitions=1)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaCluster]:
    for module in ("cluster", "described", "reader"):
        monkeypatch.setattr(f"penstock.adapters.kafka.{module}.REQUEST_TIMEOUT_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield KafkaCluster(f"127.0.0.1:{listening.getsockname()[1]}")


@pytest.mark.parametrize("ask", [describe, ask_ends, create])
def test_a_broker_that_never_answers_is_unavailable(silent: KafkaCluster, ask: Callable[[KafkaCluster], None]) -> None:
    with pytest.raises(UnavailableError, match="Kafka failed"):
        ask(silent)
