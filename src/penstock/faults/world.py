"""Everything that a pipeline works with, each part on loopback, with a proxy of ours in front of it."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Final, Self

import yaml

from penstock.adapters.duckdb.query import query
from penstock.adapters.duckdb.query_wire import run_file
from penstock.core.errors import PenstockError
from penstock.demo.compare import compare_all
from penstock.dev.zookeeper import start_zookeeper
from penstock.embedded.kafka import start_kafka
from penstock.embedded.mariadb import USER, Flavour, start_mariadb
from penstock.embedded.ports import LOOPBACK, choose_port
from penstock.embedded.schematizer import start_schematizer
from penstock.faults.broken import SECOND_TARGET, SOURCE_NAMES
from penstock.faults.instances import Instances
from penstock.faults.joined import NAME, PIPELINE, JoinedOutput, write_join
from penstock.faults.pick import second_target
from penstock.faults.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Any

    from penstock.demo.sources.database import SourceConnection
    from penstock.embedded.server import Server
    from penstock.faults.broken import BrokenPipeline

SESSION_SECONDS: Final = 3.0
_SMALL_DISK: Final = "32m"


class World:
    """The servers, their proxies and the pipeline's instances, inside a `with` block."""

    def __init__(self, home: Path, broken: BrokenPipeline) -> None:
        """Keep everything below `home`, which must be empty."""
        self.home = home
        self.broken = broken
        self.sources = broken.sources
        self.second_target = second_target() if broken.is_double else None
        self.has_small_disk = False
        self.joined = JoinedOutput() if broken.has_join else None
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
        return f"http://{LOOPBACK}:{self.port('schematizer')}"

    def port(self, part: str) -> int:
        """Where a server listens, past its proxy."""
        return int((self.home / part / "port").read_text())

    def kill(self, part: str) -> None:
        """End a server as kill -9 would."""
        self._servers[part].kill()

    def restart(self, part: str) -> None:
        """Start a server again, with its data and its port."""
        self._servers[part] = self._start(part)

    def connect(self, part: str = "source") -> SourceConnection:
        """A connection to a source past its proxy, without autocommit."""
        return self.sources[part].connect(self.port(part))

    def execute(self, statement: str) -> None:
        """Run a statement on the first source."""
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            connection.commit()

    def differences(self) -> int | None:
        """Rows that differ between sources and targets; None while one of them does not answer."""
        warehouse = self.home / "warehouse.duckdb"
        where = run_file(self.instances.leader().home, "warehouse")
        try:
            differing = self.joined.count_differing(self.connect(), warehouse, where) if self.joined else 0
            for part, source in self.sources.items():
                server = source.server(self.port(part))
                compared = compare_all(server, lambda sql: query(warehouse, where, sql).rows, source.schema)
                differing += sum(table.differences for table in compared)
                if self.second_target:
                    port = self.port(SECOND_TARGET)
                    differing += self.second_target.count_differing(self.connect(part), port, source.schema)
        except PenstockError:
            return None
        return differing

    def _start_all(self) -> None:
        for part in self.broken.parts:
            folder = self.home / part
            folder.mkdir(parents=True)
            port = choose_port(folder / "port")
            self.proxies[part] = self._stack.enter_context(Proxy(part, port))
        self._stack.callback(self._stop_servers)
        for part in self.broken.parts:
            self.restart(part)
        for part, source in self.sources.items():
            source.create(self.port(part))
            os.environ[source.password_env] = source.password
        if self.second_target:
            os.environ[self.second_target.password_env] = self.second_target.password
        for tracker in self.broken.trackers.values():
            os.environ[_password_variable(tracker)] = str(self._servers[tracker].facts()["password"])
        self.state_directory.mkdir()
        self.has_small_disk = self._mount_small_disk()
        names = ("first",) if self.joined else ("first", "second")
        self.instances = Instances(tuple(map(self._write_file, names)))
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

    def _start(self, part: str) -> Server:
        folder = self.home / part
        starters: dict[str, Callable[[], Server]] = {
            **{name: partial(source.start, folder) for name, source in self.sources.items()},
            **({SECOND_TARGET: partial(self.second_target.start, folder)} if self.second_target else {}),
            **dict.fromkeys(self.broken.trackers.values(), lambda: start_mariadb(folder, Flavour.TRACKER)),
            "kafka": lambda: start_kafka(folder, advertised_port=self.proxies["kafka"].port),
            "schematizer": lambda: start_schematizer(folder),
            "zookeeper": lambda: start_zookeeper(folder),
        }
        return starters[part]()

    def _write_file(self, name: str) -> Path:
        """An instance's file: all parts by the proxies' ports, a home of its own, everything else shared."""
        ports = {part: proxy.port for part, proxy in self.proxies.items()}
        sinks: list[Mapping[str, Any]] = [
            {"name": "warehouse", "kind": "duckdb", "path": str(self.home / "warehouse.duckdb")}
        ]
        if self.second_target:
            sinks.append(self.second_target.spec(ports[SECOND_TARGET]))
        sources = [
            {"name": SOURCE_NAMES[part], **source.spec(ports[part]), **self._tracker(part)}
            for part, source in self.sources.items()
        ]
        links = [{"from": source["name"], "to": sink["name"]} for source in sources for sink in sinks]
        config: dict[str, object] = {
            "pipeline": PIPELINE,
            "home": str(self.home / name),
            "lock": {"zookeeper": f"{LOOPBACK}:{ports['zookeeper']}", "session_seconds": SESSION_SECONDS},
            "kafka": {"bootstrap_servers": self.bootstrap_servers, "partitions": 2},
            "schematizer": {"url": f"http://{LOOPBACK}:{ports['schematizer']}"},
            "state": {"url": f"sqlite:///{self.state_directory / 'state.db'}"},
            "objects": {"url": (self.home / "objects").as_uri()},
            "sources": sources,
            "sinks": sinks,
            "links": links,
        }
        if self.joined:
            config["joins"] = [write_join(self.home)]
            links.append({"from": NAME, "to": "warehouse"})
        file = self.home / f"{name}.yaml"
        file.write_text(yaml.safe_dump(config))
        return file

    def _tracker(self, source: str) -> Mapping[str, Any]:
        """What a source's part of the file says of its tracker."""
        tracker = self.broken.trackers.get(source)
        if tracker is None:
            return {}
        login = {"host": LOOPBACK, "port": self.proxies[tracker].port, "user": USER}
        return {"tracker": {**login, "password_env": _password_variable(tracker)}}


def _password_variable(tracker: str) -> str:
    return f"FAULTS_{tracker.replace(' ', '_').upper()}_PASSWORD"
