"""The leader's lock in ZooKeeper, for pipelines whose instances run on several machines.

As in the ZooKeeper documentation, "Recipes and Solutions", Locks: every instance
has an ephemeral sequential node, the lowest one leads, and each of the others
watches the one just below its own. The server removes the node of an instance
that it has not heard of for the time of a session.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
import uuid
from contextlib import closing
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from kazoo.protocol.states import KazooState

from penstock.adapters.lock.zookeeper_client import ZookeeperClient, ZookeeperPlace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_NUMBERED: Final = re.compile(r"-instance-(\d{10})$")
_TICKS_SECONDS: Final = 4.0
_TIME: Final = "%Y-%m-%d %H:%M:%S UTC"


class ZookeeperLock:
    """One node in the line of a pipeline's instances (ports/lock.Lock).

    The lock counts as lost as soon as the connection breaks: whether the session
    outlived that would only be known after another connection, and meanwhile
    another instance may lead.
    """

    def __init__(self, place: ZookeeperPlace, pipeline: str) -> None:
        """Name the place; nothing is connected yet."""
        self._place = place
        self._path = line_path(place.root, pipeline)
        # A server may create our node and fail before it answers: the node is found again by this name.
        self._name = uuid.uuid4().hex
        self._client: ZookeeperClient | None = None
        self._changed = threading.Event()
        self._state = threading.Lock()
        self._is_first = False
        self._held = False
        self._loss = ""
        self._listener: Callable[[str], None] | None = None

    @property
    def patience_seconds(self) -> float:
        """A session, and what servers take to notice its end: they count in ticks, by default of 2 seconds."""
        return self._place.session_seconds + _TICKS_SECONDS

    def acquire(self, wait_seconds: float) -> bool:
        """Try for up to `wait_seconds`; see ports/lock.Lock. Our place in the line is kept after False.

        Raises UsageError if ZooKeeper refuses access.
        """
        if self._held and not self._loss:
            return True
        deadline = time.monotonic() + wait_seconds
        client = self._connected()
        while True:
            self._changed.clear()
            own, ahead = self._place_in_line(client)
            if ahead is None:
                if self._lead(client, own):
                    return True
            elif client.watch(f"{self._path}/{ahead}", self._wake):
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return False

    def holder(self) -> str:
        """Who leads, in words, from the node that is first in line; "" if nobody is."""
        if self._client is not None:
            return self._first_in_line(self._client)
        with closing(ZookeeperClient(self._place)) as client:
            return self._first_in_line(client)

    def tell_loss(self, listener: Callable[[str], None]) -> None:
        """See ports/lock.Lock. The reason is a broken connection, or that somebody deleted our node."""
        with self._state:
            self._listener = listener
            loss = self._loss
        if loss:
            listener(loss)

    def release(self) -> None:
        """End our session, which removes our node if it is still there and nothing else. Safe to call twice."""
        with self._state:
            self._is_first = self._held = False
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> ZookeeperClient:
        if self._client is None:
            self._client = ZookeeperClient(self._place)
            self._client.listen(self._take_state)
        return self._client

    def _place_in_line(self, client: ZookeeperClient) -> tuple[str, str | None]:
        """Our node, made if it is not there, and the one just ahead of it, None if we are the first."""
        while True:
            line = in_order(client.children(self._path))
            for number, name in enumerate(line):
                if name.startswith(self._name):
                    return name, line[number - 1] if number else None
            client.create_in_line(f"{self._path}/{self._name}-instance-", _describe_self())

    def _lead(self, client: ZookeeperClient, own: str) -> bool:
        """Become the leader; False if that was over before it began."""
        node = f"{self._path}/{own}"
        with self._state:
            # From here on every change counts as a loss, so none is missed between the questions below.
            self._is_first, self._held, self._loss = True, False, ""
        leads = client.write(node, _describe_self()) and client.watch(node, self._take_event)
        with self._state:
            self._held = self._is_first = leads and client.is_connected and not self._loss
            return self._held

    def _take_state(self, state: str) -> None:
        """Kazoo's connection changed its state."""
        self._changed.set()
        if state != KazooState.CONNECTED:
            self._lose(f"the connection to ZooKeeper at {self._place.servers} was lost")

    def _take_event(self, _event: object) -> None:
        """Our own node changed: the session behind it is over, or an operator or another program touched it."""
        self._changed.set()
        self._lose(f"this instance's node under {self._path} in ZooKeeper was deleted or changed")

    def _wake(self, _event: object) -> None:
        self._changed.set()

    def _lose(self, reason: str) -> None:
        with self._state:
            if not self._is_first or self._loss:
                return
            self._loss = reason
            listener = self._listener if self._held else None
        if listener is not None:
            listener(reason)

    def _first_in_line(self, client: ZookeeperClient) -> str:
        for name in in_order(client.children(self._path)):
            data = client.read(f"{self._path}/{name}")
            if data is not None:
                return describe_holder(data)
        return ""


def line_path(root: str, pipeline: str) -> str:
    """The path under which the instances of `pipeline` stand in line.

    ZooKeeper's names allow neither / nor control characters, nor . and .. alone
    ("ZooKeeper Data Model"), so everything but letters, digits, _ and - is
    written as % and its UTF-8 bytes in hex.
    """
    return f"{root}/penstock/{quote(pipeline, safe='').replace('.', '%2E').replace('~', '%7E')}/leader"


def in_order(names: Iterable[str]) -> Sequence[str]:
    """The nodes of instances, the first in line first; what others may have put there is left out."""
    numbered = [(int(found[1]), name) for name in names if (found := _NUMBERED.search(name))]
    return [name for _, name in sorted(numbered)]


def describe_holder(data: bytes) -> str:
    """Put what a node holds into words."""
    try:
        told = json.loads(data)
        return f"pid {told['pid']} on {told['host']} since {told['since']}"
    except (ValueError, KeyError, TypeError):
        return "an instance that does not say who it is"


def _describe_self() -> bytes:
    who = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime(_TIME, time.gmtime())}
    return json.dumps(who).encode()
