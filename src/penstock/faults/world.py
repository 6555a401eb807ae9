"""Everything that a pipeline works with, each part on loopback, with a proxy of ours in front of it."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Final, Self

import pymysql
import yaml

from penstock.adapters.duckdb.query import query
from penstock.adapters.duckdb.query_wire import run_file
from penstock.adapters.mysql.connection import MysqlServer
from penstock.core.errors import PenstockError
from penstock.demo.compare import compare_all
from penstock.dev.kafka import start_kafka
from penstock.dev.mariadb import PASSWORD, USER, Flavour, start_mariadb
from penstock.dev.ports import LOOPBACK, choose_port
from penstock.dev.schematizer import start_schematizer
from penstock.dev.zookeeper import start_zookeeper
from penstock.faults.instances import Instances
from penstock.faults.proxy import Proxy
from penstock.faults.workload import CREATE_TABLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from penstock.dev.server import Server

PARTS: Final = ("source", "tracker", "kafka", "schematizer", "zookeeper")
SCHEMA: Final = "bank"
PIPELINE: Final = "faults"
SESSION_SECONDS: Final = 3.0
_PASSWORD_ENV: Final = "FAULTS_PASSWORD"  # noqa: S105 - the variable's name
_TRACKER_PASSWORD_ENV: Final = "FAULTS_TRACKER_PASSWORD"  # noqa: S105 - the variable's name
_CONNECT_SECONDS: Final = 5
_READ_SECONDS: Final = 30
_SMALL_DISK: Final = "32m"


class World:
    """The servers, their proxies and the pipeline's instances, inside a `with` block."""

    def __init__(self, home: Path) -> None:
        """Keep everything below `home`, which must be empty."""
        self.home = home
        self.has_small_disk = False
        self.state_directory = home / "state"
        self.proxies: dict[str, Proxy] = {}
        self._servers: dict[str, Server] = {}
        self._stack = ExitStack()
        self.instances: Instances

    def __enter__(self) -> Self:
        """Start all of it. Raises what the servers' starts raise."""
        try:
            self._start_all()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all of it."""
        self._stack.close()

    @property
    def bootstrap_servers(self) -> str:
        """Kafka, behind its proxy: brokers send clients there whatever they asked."""
        return f"{LOOPBACK}:{self.proxies['kafka'].port}"

    @property
    def schematizer(self) -> str:
        """The Schematizer's URL, not behind its proxy."""
        return f"http://{LOOPBACK}:{self._port('schematizer')}"

    def kill(self, part: str) -> None:
        """End a server as kill -9 would."""
        self._servers[part].kill()

    def restart(self, part: str) -> None:
        """Start a server again, with its data and its port."""
        self._servers[part] = self._start(part)

    def connect(self) -> pymysql.Connection:
        """A connection to the source past its proxy, without autocommit."""
        return pymysql.connect(
            host=LOOPBACK,
            port=self._port("source"),
            user=USER,
            password=PASSWORD,
            database=SCHEMA,
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
        )

    def execute(self, statement: str) -> None:
        """Run a statement on the source."""
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(statement)

    def differences(self) -> int | None:
        """Rows that differ between source and warehouse; None while one of them does not answer."""
        warehouse, asked = self.home / "warehouse.duckdb", self.instances.leader().file.with_suffix("")
        where = run_file(asked, "warehouse")
        source = MysqlServer(LOOPBACK, self._port("source"), USER, PASSWORD)
        try:
            compared = compare_all(source, lambda sql: query(warehouse, where, sql).rows, SCHEMA)
        except PenstockError:
            return None
        return sum(table.differences for table in compared)

    def _start_all(self) -> None:
        for part in PARTS:
            folder = self.home / part
            folder.mkdir(parents=True)
            port = choose_port(folder / "port")
            self.proxies[part] = self._stack.enter_context(Proxy(part, port))
        self._stack.callback(self._stop_servers)
        for part in PARTS:
            self.restart(part)
        with closing(
            pymysql.connect(host=LOOPBACK, port=self._port("source"), user=USER, password=PASSWORD)
        ) as connection:
            for statement in (f"CREATE DATABASE {SCHEMA}", f"USE {SCHEMA}", *CREATE_TABLES):
                connection.cursor().execute(statement)
        os.environ[_PASSWORD_ENV] = PASSWORD
        os.environ[_TRACKER_PASSWORD_ENV] = str(self._servers["tracker"].facts()["password"])
        self.state_directory.mkdir()
        self.has_small_disk = self._mount_small_disk()
        self.instances = Instances((self._write_file("first"), self._write_file("second")))
        self._stack.callback(self.instances.stop)

    def _mount_small_disk(self) -> bool:
        """Give the state database a small disk of its own, where we may mount one."""
        command = ["mount", "-t", "tmpfs", "-o", f"size={_SMALL_DISK}", "penstock-faults", str(self.state_directory)]
        if subprocess.run(command, capture_output=True, check=False).returncode:  # noqa: S603 - the words are ours
            return False
        self._stack.callback(subprocess.run, ["umount", "--lazy", str(self.state_directory)], check=False)
        return True

    def _stop_servers(self) -> None:
        for server in self._servers.values():
            server.kill()

    def _port(self, part: str) -> int:
        return int((self.home / part / "port").read_text())

    def _start(self, part: str) -> Server:
        folder = self.home / part
        starters: dict[str, Callable[[], Server]] = {
            "source": lambda: start_mariadb(folder),
            "tracker": lambda: start_mariadb(folder, Flavour.TRACKER),
            "kafka": lambda: start_kafka(folder, advertised_port=self.proxies["kafka"].port),
            "schematizer": lambda: start_schematizer(folder),
            "zookeeper": lambda: start_zookeeper(folder),
        }
        return starters[part]()

    def _write_file(self, name: str) -> Path:
        """An instance's file: all parts by the proxies' ports, a home of its own, everything else shared."""
        ports = {part: proxy.port for part, proxy in self.proxies.items()}
        login = {"host": LOOPBACK, "user": USER, "password_env": _PASSWORD_ENV}
        config = {
            "pipeline": PIPELINE,
            "home": str(self.home / name),
            "lock": {"zookeeper": f"{LOOPBACK}:{ports['zookeeper']}", "session_seconds": SESSION_SECONDS},
            "kafka": {"bootstrap_servers": self.bootstrap_servers, "partitions": 2},
            "schematizer": {"url": f"http://{LOOPBACK}:{ports['schematizer']}"},
            "state": {"url": f"sqlite:///{self.state_directory / 'state.db'}"},
            "tracker": {**login, "port": ports["tracker"], "password_env": _TRACKER_PASSWORD_ENV},
            "objects": {"url": (self.home / "objects").as_uri()},
            "sources": [{"name": "db", "kind": "mysql", **login, "port": ports["source"], "tables": [f"{SCHEMA}.*"]}],
            "sinks": [{"name": "warehouse", "kind": "duckdb", "path": str(self.home / "warehouse.duckdb")}],
            "links": [{"from": "db", "to": "warehouse"}],
        }
        file = self.home / f"{name}.yaml"
        file.write_text(yaml.safe_dump(config))
        return file
