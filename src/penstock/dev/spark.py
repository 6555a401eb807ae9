"""A standalone Spark cluster on loopback: a master and two workers from PySpark's own jars.

Settings are those of the Spark documentation, "Spark Standalone Mode".
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx

from penstock.embedded.java import java
from penstock.embedded.ports import LOOPBACK, choose_port, is_listening
from penstock.embedded.processes import Child, start_child, wait_until_ready
from penstock.embedded.server import Server
from penstock.embedded.unpacked_spark import unpacked_spark_home

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_START_SECONDS = 120.0
_STOP_SECONDS = 10.0
_PROBE_SECONDS = 5.0
_WORKERS = 2
_SCALA_VERSION = "2.13"

_JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-Dspark.master.rest.enabled=false")

# What the daemons themselves need of the options that Spark gives to its JVMs on
# Java 17 (org.apache.spark.launcher.JavaModuleOptions).
_OPENED = ("java.lang", "java.lang.invoke", "java.io", "java.net", "java.nio", "java.util", "sun.nio.ch")


@dataclass(frozen=True, slots=True)
class SparkCluster(Server):
    """A running master and its workers. `port` is the master's."""

    port: int
    home: Path
    master: Child = field(repr=False)
    workers: tuple[Child, ...] = field(repr=False)
    host: str = LOOPBACK

    @property
    def url(self) -> str:
        """The master's URL, as a session takes it."""
        return f"spark://{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the master."""
        return self.master.pid

    def alive(self) -> bool:
        """Whether the master and all workers run."""
        return all(child.alive() for child in (self.master, *self.workers))

    def stop(self) -> None:
        """Shut the workers down, with their executors, then the master."""
        for child in (*self.workers, self.master):
            child.stop(_STOP_SECONDS)

    def kill(self) -> None:
        """End all of them as kill -9 would."""
        for child in (*self.workers, self.master):
            child.kill()

    def facts(self) -> Mapping[str, str | int]:
        """The master's address and URL."""
        return {"host": self.host, "port": self.port, "url": self.url, "workers": len(self.workers)}


def start_spark(
    home: Path, *, port: int | None = None, worker_cores: int = 4, worker_memory_megabytes: int = 2048
) -> SparkCluster:
    """Start a master and two workers with `worker_cores` task slots each; their files go under `home`.

    Slots may outnumber the machine's cores: a tail slice of the live tail keeps one busy while it mostly waits.
    Raises UsageError without Java or when the port is in use.
    """
    home = home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    chosen = choose_port(home / "port", port)
    page = choose_port(home / "page-port")
    at = ("--host", LOOPBACK, "--port")
    master = _start_daemon("master.Master", "Spark master", home, (*at, f"{chosen}", "--webui-port", f"{page}"))
    wait_until_ready(master, lambda: is_listening(chosen), _START_SECONDS)
    options = (*at, "0", "--webui-port", "0", "--cores", f"{worker_cores}", "--memory", f"{worker_memory_megabytes}M")
    workers = tuple(
        _start_daemon(
            "worker.Worker",
            f"Spark worker {number}",
            home,
            (*options, "--work-dir", f"{home}/work-{number}", f"spark://{LOOPBACK}:{chosen}"),
        )
        for number in range(1, _WORKERS + 1)
    )
    cluster = SparkCluster(chosen, home, master, workers)
    _wait_for_workers(cluster, page)
    return cluster


def _start_daemon(class_name: str, name: str, home: Path, arguments: tuple[str, ...]) -> Child:
    """Start one of Spark's daemons by its class."""
    opened = [option for package in _OPENED for option in ("--add-opens", f"java.base/{package}=ALL-UNNAMED")]
    spark_home = unpacked_spark_home()
    command = [java(), *_JVM_OPTIONS, *opened, "-cp", f"{spark_home}/jars/*"]
    environment = {
        "SPARK_HOME": str(spark_home),
        # Executors' class paths are built by the launcher, which looks for a source tree unless told.
        "SPARK_SCALA_VERSION": _SCALA_VERSION,
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(home / "local"),
        "PYSPARK_PYTHON": sys.executable,
    }
    log = home / f"{name.lower().replace(' ', '-')}.log"
    return start_child(name, [*command, f"org.apache.spark.deploy.{class_name}", *arguments], log, environment)


def _wait_for_workers(cluster: SparkCluster, page: int) -> None:
    """Wait until the master counts all workers; kill the cluster if it does not come to that."""
    try:
        for worker in cluster.workers:
            wait_until_ready(worker, lambda: _alive_workers(page) == _WORKERS, _START_SECONDS)
    except BaseException:
        # Also on Ctrl-C: daemons that nobody holds must not stay behind.
        cluster.kill()
        raise


def _alive_workers(page: int) -> int:
    """How many workers the master's page counts."""
    try:
        return int(
            httpx.get(f"http://{LOOPBACK}:{page}/json/", timeout=_PROBE_SECONDS, trust_env=False).json()["aliveworkers"]
        )
    except (httpx.TransportError, ValueError):
        # While it starts, the page refuses connections or answers with something else.
        return 0
