"""The proxy breaks connections in the ways that it names, and in no other."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from penstock.embedded.ports import free_port
from penstock.faults.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator


class Echo:
    """Answers each line with itself; remembers what it was told."""

    def __init__(self) -> None:
        self.heard = b""
        self.ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                while said := connection.recv(1024):
                    self.heard += said
                    connection.sendall(said)
            except OSError:
                return
            finally:
                self.ended.set()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy("echo", echo.port) as proxy:
        yield proxy


def _connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=5)


def _ask(connection: socket.socket, line: bytes) -> bytes:
    connection.sendall(line)
    return connection.recv(1024)


def _talk(proxy: Proxy) -> None:
    """Connect and talk, until it is noticed that nobody listens."""
    with _connect(proxy) as connection:
        while _ask(connection, b"hello"):
            time.sleep(0.01)
        raise ConnectionError


def test_the_server_hears_of_a_client_that_was_killed_with_something_unread(echo: Echo, proxy: Proxy) -> None:
    connection = _connect(proxy)
    connection.sendall(b"hello")
    while echo.heard != b"hello":
        time.sleep(0.01)
    time.sleep(0.1)

    # What was not read makes the kernel say a reset, and no end.
    connection.close()

    assert echo.ended.wait(5)


def test_a_whole_proxy_passes_everything_on(proxy: Proxy) -> None:
    with _connect(proxy) as first, _connect(proxy) as second:
        assert (_ask(first, b"one"), _ask(second, b"two"), _ask(first, b"three")) == (b"one", b"two", b"three")


def test_a_cut_resets_what_is_there_and_welcomes_what_comes(proxy: Proxy) -> None:
    with _connect(proxy) as before:
        assert _ask(before, b"one") == b"one"
        proxy.cut()
        with pytest.raises(ConnectionError):
            _ask(before, b"two")
    with _connect(proxy) as after:
        assert _ask(after, b"three") == b"three"


def test_answers_are_cut_off_after_the_server_has_heard_the_question(proxy: Proxy, echo: Echo) -> None:
    proxy.cut_answers(2)
    for _ in range(2):
        with _connect(proxy) as cut, pytest.raises(ConnectionError):
            _ask(cut, b"one")
    with _connect(proxy) as whole:
        assert _ask(whole, b"two") == b"two"
    assert echo.heard == b"oneonetwo"


def test_who_is_refused_is_welcome_once_it_is_healed(proxy: Proxy, echo: Echo) -> None:
    proxy.refuse()
    with pytest.raises(ConnectionError):
        _talk(proxy)
    proxy.heal()
    with _connect(proxy) as welcome:
        assert _ask(welcome, b"three") == b"three"
    assert echo.heard == b"three"


def test_a_half_closed_connection_still_carries_what_clients_say(proxy: Proxy, echo: Echo) -> None:
    with _connect(proxy) as connection:
        assert _ask(connection, b"one") == b"one"
        proxy.half_close()
        assert connection.recv(1024) == b""
        connection.sendall(b"two")
        _wait_until_heard(echo, b"onetwo")


def test_a_stall_holds_everything_back_and_loses_nothing(proxy: Proxy, echo: Echo) -> None:
    with _connect(proxy) as connection:
        assert _ask(connection, b"one") == b"one"
        proxy.stall()
        connection.sendall(b"two")
        time.sleep(0.1)
        assert echo.heard == b"one"
        proxy.heal()
        assert connection.recv(1024) == b"two"


def test_a_delay_is_added_in_both_directions(proxy: Proxy) -> None:
    with _connect(proxy) as connection:
        assert _ask(connection, b"one") == b"one"
        proxy.delay(0.1)
        begun = time.monotonic()
        assert _ask(connection, b"two") == b"two"
        assert time.monotonic() - begun >= 0.2


def test_nobody_behind_the_proxy_is_a_reset() -> None:
    with Proxy("nobody", free_port()) as proxy, pytest.raises(ConnectionError):
        _talk(proxy)


def _wait_until_heard(echo: Echo, said: bytes) -> None:
    deadline = time.monotonic() + 5
    while echo.heard != said:
        assert time.monotonic() < deadline
        time.sleep(0.01)
