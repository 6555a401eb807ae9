"""Debezium in Kafka Connect: a standalone worker that writes JSON to a broker, or reads it there.

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
from penstock.bench.peers.debezium import JVM_OPTIONS, class_path, connect_class_path
from penstock.core.errors import PenstockError, UnavailableError
from penstock.embedded.java import java
from penstock.embedded.ports import LOOPBACK, choose_port, is_listening
from penstock.embedded.processes import Child, start_child, wait_until_ready
from penstock.embedded.server import Server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
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
    """A running worker, for one connector, or for several that have names."""

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

    def start_connector(self, settings: Mapping[str, str], name: str = _NAME) -> None:
        """Create the connector, and wait until its task runs; raises PenstockError when the task fails."""
        self._ask("PUT", f"/connectors/{name}/config", dict(settings))
        self._await_task("RUNNING", name)

    def stop_connector(self) -> None:
        """Stop the connector: its task ends, its offsets stay."""
        self._ask("PUT", f"/connectors/{_NAME}/stop")
        self._await_task(None)

    def pause_connector(self) -> None:
        """Let its task rest: it keeps its connections and its partitions, and takes nothing."""
        self._ask("PUT", f"/connectors/{_NAME}/pause")
        self._await_task("PAUSED")

    def resume_connector(self) -> None:
        """Let it go on where it stopped or rests; it returns before the task runs."""
        self._ask("PUT", f"/connectors/{_NAME}/resume")

    def _await_task(self, wanted: str | None, name: str = _NAME) -> None:
        """Wait until the task is in this state, None for that there is no task."""
        deadline = time.monotonic() + _START_SECONDS
        while True:
            states = self._task_states(name)
            if any(state == "FAILED" for state in states):
                message = f"Debezium's task failed: {tail(self.child.log)}"
                raise PenstockError(message, f"read {self.child.log}")
            if states == ([] if wanted is None else [wanted]):
                return
            if time.monotonic() > deadline:
                message = f"Debezium's task is not {wanted or 'gone'} within {_START_SECONDS:.0f} s, but {states}"
                raise UnavailableError(message, f"read {self.child.log}")
            time.sleep(_POLL_SECONDS)

    def _task_states(self, name: str) -> list[str]:
        answer = self._send("GET", f"/connectors/{name}/status", None)
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


def start_connect(bootstrap_servers: str, folder: Path, plugins: Sequence[Path] = ()) -> ConnectWorker:
    """Start a worker with its files in `folder`; it has no connector yet.

    Each of `plugins` is a folder with the jars of a connector, which gets a class loader
    of its own; without any, Debezium's connectors for sources are on the class path.

    Raises UsageError without Java, UnavailableError without its jars.
    """
    port = choose_port(folder / "port")
    settings = folder / "worker.properties"
    text = _SETTINGS.format(bootstrap_servers=bootstrap_servers, host=LOOPBACK, port=port, folder=folder)
    if plugins:
        plugged = folder / "plugins"
        plugged.mkdir()
        for plugin in plugins:
            (plugged / plugin.name).symlink_to(plugin)
        text += f"plugin.path={plugged}\n"
    settings.write_text(text)
    program = "org.apache.kafka.connect.cli.ConnectStandalone"
    path = connect_class_path() if plugins else class_path()
    command = [java(), *JVM_OPTIONS, "-cp", path, program, str(settings)]
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
