"""A connection to ZooKeeper: what the lock asks of it, each with a bound, and what its errors mean.

A session lives in the servers and outlasts single connections, which kazoo
renews by itself. It ends when the servers have heard nothing for its time, and
with it go the ephemeral nodes that it made.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionLoss, KazooException, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from penstock.core.errors import PenstockError, UnavailableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_CONNECT_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 10.0
_RECONNECT: Final = {"max_tries": -1, "delay": 0.1, "max_delay": 1.0}

# Connections that come and go are told to the operator by the lock, in its own words.
_log = logging.getLogger("penstock.zookeeper")
_log.setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True)
class ZookeeperPlace:
    """Servers ("host:port,host:port"), the path under which our nodes are ("" or "/some/path"), a session's time.

    Servers hold sessions to their own limits, by default 4 to 40 seconds.
    """

    servers: str
    root: str
    session_seconds: float


class ZookeeperClient:
    """One session. Every question raises UnavailableError if it is not answered in time."""

    def __init__(self, place: ZookeeperPlace) -> None:
        """Connect. Raises UnavailableError if no server answers within 10 seconds."""
        self._place = place
        self._kazoo = KazooClient(
            place.servers, timeout=place.session_seconds, connection_retry=_RECONNECT, logger=_log
        )
        try:
            self._kazoo.start(_CONNECT_SECONDS)
        except (KazooException, KazooTimeoutError) as error:
            raise explain(error, place) from error

    @property
    def is_connected(self) -> bool:
        """Whether a server has our session now, as far as we know."""
        return bool(self._kazoo.connected)

    def listen(self, listener: Callable[[str], object]) -> None:
        """Call `listener` with kazoo's name of the state (KazooState) whenever it changes, from another thread."""
        self._kazoo.add_listener(listener)

    def children(self, path: str) -> Sequence[str]:
        """The names of the nodes under `path`; none if there is no such path."""
        try:
            found: Sequence[str] = self._ask(self._kazoo.get_children_async, path)
        except NoNodeError:
            return ()
        return found

    def read(self, path: str) -> bytes | None:
        """What a node holds; None if there is no such node."""
        try:
            data, _ = self._ask(self._kazoo.get_async, path)
        except NoNodeError:
            return None
        return bytes(data)

    def write(self, path: str, data: bytes) -> bool:
        """Replace what a node holds; False if there is no such node."""
        try:
            self._ask(self._kazoo.set_async, path, data)
        except NoNodeError:
            return False
        return True

    def watch(self, path: str, watcher: Callable[[object], None]) -> bool:
        """Whether there is such a node. If so, call `watcher` with the next event of it, from another thread."""
        return self._ask(self._kazoo.exists_async, path, watcher) is not None

    def create_in_line(self, path: str, data: bytes) -> None:
        """Create a node of this session alone, called `path` and a number; folders above it are made too."""
        self._ask(self._kazoo.create_async, path, data, ephemeral=True, sequence=True, makepath=True)

    def close(self) -> None:
        """End the session, and with it the nodes that it made."""
        with suppress(KazooException, OSError):
            self._kazoo.stop()
            self._kazoo.close()

    def _ask(self, question: Callable[..., Any], *arguments: object, **options: object) -> Any:  # noqa: ANN401 - kazoo has no types
        if not self.is_connected:
            # Kazoo would keep the question until there is a connection again.
            raise explain(ConnectionLoss(), self._place)
        try:
            return question(*arguments, **options).get(timeout=_ANSWER_SECONDS)
        except NoNodeError:
            raise
        except (KazooException, KazooTimeoutError) as error:
            raise explain(error, self._place) from error


def explain(error: Exception, place: ZookeeperPlace) -> PenstockError:
    """Turn an error of kazoo's into ours: refused, or worth another try."""
    if isinstance(error, NoAuthError | AuthFailedError):
        message = f"ZooKeeper at {place.servers} refused access to {place.root or '/'}"
        return UsageError(message, "let everybody create nodes there (setAcl), or give lock.zookeeper another path")
    message = f"ZooKeeper at {place.servers} does not answer"
    if not isinstance(error, KazooTimeoutError):
        message += f" ({type(error).__name__})"
    return UnavailableError(message, "start it, or correct lock.zookeeper")
