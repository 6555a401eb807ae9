"""A private ZooKeeper: one standalone server from the jars that PySpark brings along, on loopback.

Settings are those of the "ZooKeeper Administrator's Guide".
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.errors import UsageError
from penstock.embedded.jars import spark_home
from penstock.embedded.java import java
from penstock.embedded.ports import LOOPBACK, choose_port
from penstock.embedded.processes import start_child, wait_until_ready
from penstock.embedded.server import OneProcessServer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_START_SECONDS = 60.0
_PROBE_SECONDS = 2.0

_JVM_OPTIONS = (
    *("-Xms32m", "-Xmx128m", "-XX:+UseSerialGC", "-Djava.awt.headless=true", "-Dlog4j2.level=WARN"),
    # In KiB; the log of changes would else begin with 64 MiB.
    "-Dzookeeper.preAllocSize=256",
)

# What a standalone server loads; versions are PySpark's.
_JARS = (
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "log4j-slf4j2-impl",
    "log4j-api",
    "log4j-core",
    "metrics-core",
    "snappy-java",
)

_SETTINGS = """\
clientPortAddress={host}
clientPort={port}
dataDir={data}
# Sessions are held to 2 to 20 ticks unless told.
tickTime=500
maxSessionTimeout=60000
maxClientCnxns=0
maxCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr
"""


@dataclass(frozen=True, slots=True)
class ZookeeperServer(OneProcessServer):
    """A running server."""

    @property
    def address(self) -> str:
        """Its address, as a config's lock.zookeeper takes it."""
        return f"{self.host}:{self.port}"

    def facts(self) -> Mapping[str, str | int]:
        """Address, and the same as a config takes it."""
        return {**OneProcessServer.facts(self), "zookeeper": self.address}


def start_zookeeper(home: Path, *, port: int | None = None) -> ZookeeperServer:
    """Start a server with its data under `home`; later starts find the data and port of the first.

    Raises UsageError without Java or when the port is in use.
    """
    home = home.resolve()
    command = [java(), *_JVM_OPTIONS, "-cp", os.pathsep.join(str(_jar(name)) for name in _JARS)]
    home.mkdir(parents=True, exist_ok=True)
    chosen = choose_port(home / "port", port)
    settings = home / "zoo.cfg"
    settings.write_text(_SETTINGS.format(host=LOOPBACK, port=chosen, data=home / "data"))
    main = "org.apache.zookeeper.server.ZooKeeperServerMain"
    child = start_child("ZooKeeper", [*command, main, str(settings)], home / "zookeeper.log")
    wait_until_ready(child, lambda: _answers(chosen), _START_SECONDS)
    return ZookeeperServer(chosen, home, child)


def _jar(name: str) -> Path:
    """The one among PySpark's jars that is called `name` and a version."""
    found = sorted(spark_home().glob(f"jars/{name}-[0-9]*.jar"))
    if not found:
        message = f"PySpark under {spark_home()} brings no {name}, which ZooKeeper needs"
        raise UsageError(message, "install the packages of the lock file again: make setup")
    return found[0]


def _answers(port: int) -> bool:
    """Whether the server says that it serves, in answer to the four-letter word srvr."""
    try:
        with socket.create_connection((LOOPBACK, port), _PROBE_SECONDS) as connection:
            connection.sendall(b"srvr")
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
    except OSError:
        return False
    return b"Mode: standalone" in answer
