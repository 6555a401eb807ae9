"""Debezium in Kafka Connect: a standalone worker that writes JSON to a broker.

Settings are those of the Kafka documentation, "Kafka Connect Configs", and its
"REST API". What is not set has its default.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

import httpx

from penstock.bench.marks import tail
from penstock.bench.peers.debezium import JVM_OPTIONS, class_path
from penstock.core.errors import PenstockError, UnavailableError
from penstock.dev.java import java
from penstock.dev.ports import LOOPBACK, choose_port, is_listening
from penstock.dev.processes import Child, start_child, wait_until_ready
from penstock.dev.server import Server

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_START_SECONDS = 120.0
_STOP_SECONDS = 20.0
_REQUEST_SECONDS = 30.0
_POLL_SECONDS = 0.05
_NAME = "debezium"

_SETTINGS = """\
bootstrap.servers={bootstrap_servers}
listeners=http://{host}:{port}
key.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
offset.storage.file.filename={folder}/offsets.dat
connector.client.config.override.policy=All
plugin.discovery=service_load
"""


@dataclass(frozen=True, slots=True)
class ConnectWorker(Server):
    """A running worker, for one connector."""

    port: int
    child: Child = field(repr=False)

    @property
    def pid(self) -> int:
        """The process id of its Java."""
        return self.child.pid

    def alive(self) -> bool:
        """Whether it runs."""
        return self.child.alive()

    def stop(self) -> None:
        """Shut it down in order."""
        self.child.stop(_STOP_SECONDS)

    def kill(self) -> None:
        """End it as kill -9 would."""
        self.child.kill()

    def facts(self) -> Mapping[str, str | int]:
        """Where its REST interface is."""
        return {"url": self._url("")}

    def start_connector(self, settings: Mapping[str, str]) -> None:
        """Create the connector, and wait until its task runs; raises PenstockError when the task fails."""
        self._ask("PUT", f"/connectors/{_NAME}/config", dict(settings))
        self._await_task(running=True)

    def stop_connector(self) -> None:
        """Stop the connector: its task ends, its offsets stay."""
        self._ask("PUT", f"/connectors/{_NAME}/stop")
        self._await_task(running=False)

    def resume_connector(self) -> None:
        """Start it again where it stopped; it returns before the task runs."""
        self._ask("PUT", f"/connectors/{_NAME}/resume")

    def _await_task(self, *, running: bool) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            states = self._task_states()
            if any(state == "FAILED" for state in states):
                message = f"Debezium's task failed: {tail(self.child.log)}"
                raise PenstockError(message, f"read {self.child.log}")
            if states == ["RUNNING"] if running else not states:
                return
            if time.monotonic() > deadline:
                message = f"Debezium's task did not {'start' if running else 'stop'} within {_START_SECONDS:.0f} s"
                raise UnavailableError(message, f"read {self.child.log}")
            time.sleep(_POLL_SECONDS)

    def _task_states(self) -> list[str]:
        answer = self._send("GET", f"/connectors/{_NAME}/status", None)
        if answer.status_code == HTTPStatus.NOT_FOUND:
            return []
        return [task["state"] for task in answer.json().get("tasks", ())]

    def _ask(self, method: str, path: str, body: object = None) -> None:
        answer = self._send(method, path, body)
        if answer.is_error:
            message = f"Kafka Connect refused {method} {path}: {answer.text[:500]}"
            raise PenstockError(message, f"read {self.child.log}")

    def _send(self, method: str, path: str, body: object) -> httpx.Response:
        try:
            return httpx.request(method, self._url(path), json=body, timeout=_REQUEST_SECONDS)
        except httpx.TransportError as error:
            message = f"Kafka Connect does not answer: {error}"
            raise UnavailableError(message, f"read {self.child.log}") from error

    def _url(self, path: str) -> str:
        return f"http://{LOOPBACK}:{self.port}{path}"


def start_connect(bootstrap_servers: str, folder: Path) -> ConnectWorker:
    """Start a worker with its files in `folder`; it has no connector yet.

    Raises UsageError without Java, UnavailableError without its jars.
    """
    port = choose_port(folder / "port")
    settings = folder / "worker.properties"
    settings.write_text(_SETTINGS.format(bootstrap_servers=bootstrap_servers, host=LOOPBACK, port=port, folder=folder))
    program = "org.apache.kafka.connect.cli.ConnectStandalone"
    command = [java(), *JVM_OPTIONS, "-cp", class_path(), program, str(settings)]
    child = start_child("Kafka Connect", command, folder / "connect.log")
    worker = ConnectWorker(port, child)
    wait_until_ready(child, lambda: _answers(worker), _START_SECONDS)
    return worker


def _answers(worker: ConnectWorker) -> bool:
    if not is_listening(worker.port):
        return False
    try:
        url = str(worker.facts()["url"])
        return httpx.get(f"{url}/connectors", timeout=_REQUEST_SECONDS).status_code == HTTPStatus.OK
    except httpx.TransportError:
        return False
