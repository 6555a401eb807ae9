"""One set of servers for a whole run, whichever worker of pytest asks for them.

The process that started the workers keeps the servers: it starts each when the
first worker asks for it, over a socket below the run's own directory, and stops
all when the run is over. Without workers the one process of pytest does it for
itself. What tests make in a shared server has fresh names; a server whose
settings or whose log tests change is not shared.
"""

from __future__ import annotations

import copyreg
import io
import os
import pickle
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Client, Listener
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final

from penstock.dev.postgres import start_postgres
from penstock.dev.s3 import start_s3
from penstock.dev.zookeeper import start_zookeeper
from penstock.embedded.kafka import start_kafka
from penstock.embedded.processes import Child
from penstock.embedded.schematizer import start_schematizer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from multiprocessing.connection import Connection
    from pathlib import Path

    from penstock.embedded.server import Server

DOOR: Final = "penstock_servers"
"""What workers are told the address by."""
_SOCKET: Final = "door"
_START_SECONDS: Final = 240.0
_END: Final = ""
"""Asked for instead of a server's name: that nobody is to be listened to any more."""


class RunServers:
    """The servers of a run, in the process that keeps them."""

    def __init__(self, home: Path) -> None:
        """Keep their data below `home`; none is started yet."""
        self._home = home
        self._running: dict[str, Server] = {}
        self._locks: defaultdict[str, Lock] = defaultdict(Lock)
        self._stack = ExitStack()

    def get(self, name: str) -> Server:
        """Return the server called so, which is started unless it runs. Raises what starting it raises."""
        with self._locks[name]:
            if name not in self._running:
                self._running[name] = self._stack.enter_context(_STARTS[name](self._home / name))
            return self._running[name]

    def close(self) -> None:
        """Stop all."""
        self._stack.close()


_STARTS: Final[Mapping[str, Callable[[Path], Server]]] = {
    "kafka": start_kafka,
    # What a killed process wrote stays without it; only a machine that ends abruptly would lose it.
    "postgres": partial(start_postgres, settings={"fsync": "off"}),
    "s3": start_s3,
    "schematizer": start_schematizer,
    "zookeeper": start_zookeeper,
}


class ServerDoor:
    """Lets workers ask the process that keeps the servers."""

    def __init__(self, servers: RunServers, home: Path) -> None:
        """Listen below `home`, which only this user may enter."""
        self._servers = servers
        self.address = str(home / _SOCKET)
        self._listener = Listener(self.address, "AF_UNIX")
        self._thread = Thread(target=self._listen, name="server-door")
        self._thread.start()

    def close(self) -> None:
        """Listen to nobody any more; the workers have ended."""
        with Client(self.address, "AF_UNIX") as connection:
            connection.send_bytes(_END.encode())
        self._thread.join()
        self._listener.close()

    def _listen(self) -> None:
        answering: list[Thread] = []
        while True:
            connection = self._listener.accept()
            name = connection.recv_bytes().decode()
            if name == _END:
                connection.close()
                break
            answering.append(Thread(target=self._answer, args=(connection, name), name=f"server-door-{name}"))
            answering[-1].start()
        for thread in answering:
            thread.join()

    def _answer(self, connection: Connection[Any, Any], name: str) -> None:
        with connection:
            try:
                answer: object = self._servers.get(name)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised where the server was asked for
                answer = error
            connection.send_bytes(_pickled(answer))


@dataclass(frozen=True, slots=True)
class ServersElsewhere:
    """The servers of a run, seen from a worker."""

    address: str

    def get(self, name: str) -> Server:
        """Return the server called so. Raises what starting it raised."""
        with Client(self.address, "AF_UNIX") as connection:
            connection.send_bytes(name.encode())
            assert connection.poll(_START_SECONDS), f"{name} was not started within {_START_SECONDS:.0f} s"
            answer = pickle.loads(connection.recv_bytes())  # noqa: S301 - the run's own socket
        if isinstance(answer, BaseException):
            raise answer
        server: Server = answer
        return server


@dataclass(frozen=True, slots=True)
class ChildElsewhere:
    """A server's process that another process started and ends."""

    name: str
    log: Path
    pid: int

    def alive(self) -> bool:
        """Whether it runs."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True


def _pickled(answer: object) -> bytes:
    """Whatever has a process of its own names it; only whoever started a process can end it."""
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer)
    pickler.dispatch_table = copyreg.dispatch_table.copy()
    pickler.dispatch_table[Child] = lambda child: (ChildElsewhere, (child.name, child.log, child.pid))
    pickler.dump(answer)
    return buffer.getvalue()
