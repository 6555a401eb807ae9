"""The brokers of a cluster as a producer needs them: who leads which partition, and who keeps its transactions."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException

from penstock.adapters.kafka.wire import Wire, read_brokers
from penstock.core.kafka import requests

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock.adapters.kafka.cluster import KafkaCluster
    from penstock.core.kafka.requests import Broker, Leaders, Place


class Brokers:
    """Keeps a connection to each broker that is asked something, and what was learned of who does what.

    Raises OSError where a broker cannot be reached, and KafkaException for what it refuses.
    """

    def __init__(self, cluster: KafkaCluster, timeout_seconds: float) -> None:
        """Connect to nobody yet; no answer may take longer than `timeout_seconds`."""
        self._bootstrap = deque(read_brokers(cluster.bootstrap_servers))
        # Not always the first: it may be the one that accepts connections and never answers.
        self._bootstrap.rotate(time.monotonic_ns() % len(self._bootstrap))
        self._login = dict(cluster.login)
        self._timeout_seconds = timeout_seconds
        self._wires: dict[Broker, Wire] = {}
        self._brokers: Mapping[int, Broker] = {}
        self._leaders: dict[Place, int] = {}
        self._coordinator: Broker | None = None

    def coordinator(self, transactional_id: str) -> Wire:
        """A connection to the broker that keeps the book of a transactional id."""
        if self._coordinator is None:
            answer = self._any().ask_quickly(requests.FIND_COORDINATOR, requests.ask_coordinator(transactional_id))
            code, broker = requests.read_coordinator(answer)
            if code:
                raise KafkaException(KafkaError(code))
            self._coordinator = broker
        return self._wire(self._coordinator)

    def know(self, places: Collection[Place]) -> bool:
        """Whether `leaders` has nobody to ask for those of `places`."""
        return all(place in self._leaders for place in places)

    def leaders(self, places: Collection[Place]) -> Mapping[Place, Wire]:
        """A connection to the broker that leads each of some partitions."""
        if not self.know(places):
            self._learn({topic for topic, _ in places})
        if not self.know(places):
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        return {place: self._wire(self._brokers[self._leaders[place]]) for place in places}

    def forget(self) -> None:
        """Drop every connection, and what was learned: something there is not as it was."""
        for wire in self._wires.values():
            wire.close()
        self._bootstrap.rotate(-1)
        self._wires.clear()
        self._leaders.clear()
        self._coordinator = None

    def _learn(self, topics: Collection[str]) -> None:
        answer = self._any().ask_quickly(requests.METADATA, requests.ask_leaders(sorted(topics)))
        found: Leaders = requests.read_leaders(answer)
        self._brokers = {**self._brokers, **found.brokers}
        self._leaders |= found.leaders
        for topic in sorted(topics):
            code = found.failures.get(topic, 0)
            if code:
                raise KafkaException(KafkaError(code, f"{topic}: {KafkaError(code).str()}"))

    def _any(self) -> Wire:
        """A connection to whichever broker answers."""
        for wire in self._wires.values():
            return wire
        failure: OSError | None = None
        for broker in [*self._bootstrap, *self._brokers.values()]:
            try:
                return self._wire(broker)
            except OSError as error:
                failure = error
        raise failure or ConnectionError

    def _wire(self, broker: Broker) -> Wire:
        wire = self._wires.get(broker)
        if wire is None:
            wire = self._wires[broker] = Wire(broker, self._login, self._timeout_seconds)
        return wire
