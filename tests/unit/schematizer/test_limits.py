"""How much and how fast one may ask."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.schematizer.served import served

from penstock.schematizer.http.limits import Limits
from penstock.schematizer.http.protection import Protection
from penstock.schematizer.security.rates import Rates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

LIMITS = Limits(body_bytes=1000, url_bytes=300, header_bytes=2000, body_seconds=0.5)
CONFIG = b'{"compatibility": "NONE"}'


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a registry that takes little."""
    home = tmp_path_factory.mktemp("bounded")
    with served(f"sqlite:///{home}/bounded.db", Protection(limits=LIMITS)) as client:
        yield client


def told(client: httpx.Client, *parts: bytes, pause: float = 0.0) -> bytes:
    """What is answered to bytes, sent as they are; "" for nothing."""
    with socket.create_connection((client.base_url.host, client.base_url.port or 0), timeout=10) as connection:
        for part in parts:
            connection.sendall(part)
            time.sleep(pause)
        received = b""
        while chunk := connection.recv(65_536):
            received += chunk
            if b"}" in chunk:
                break
        return received


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(bounded: httpx.Client) -> None:
    head = b"PUT /config HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"

    assert b" 413 " in told(bounded, head % 1001)
    assert b'"invalid_request"' in told(bounded, head % (1 << 70))
    assert b"body_too_large" in told(bounded, head % 10_000, b"x" * 10)
    assert b" 200 " in told(bounded, head % 1000, CONFIG.ljust(1000))


def test_so_is_one_without_a_length(bounded: httpx.Client) -> None:
    head = b"PUT /config HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Transfer-Encoding: chunked\r\n\r\n"
    chunk = b"64\r\n" + b" " * 100 + b"\r\n"

    assert b" 413 " in told(bounded, head, *([chunk] * 11))
    assert b" 200 " in told(bounded, head, *([chunk] * 9), b"%x\r\n%s\r\n0\r\n\r\n" % (len(CONFIG), CONFIG))


def test_bodies_of_many_requests_together_have_a_bound(tmp_path: Path) -> None:
    limits = Limits(body_bytes=1000, all_bodies_bytes=1500, body_seconds=5)
    head = b"PUT /config HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    with served(f"sqlite:///{tmp_path}/many.db", Protection(limits=limits)) as client:
        where = (client.base_url.host, client.base_url.port or 0)
        with socket.create_connection(where, timeout=10) as slow:
            slow.sendall(head + b" " * 900)
            time.sleep(0.2)
            refused = told(client, head, CONFIG.ljust(1000))
        time.sleep(0.2)
        taken = told(client, head, CONFIG.ljust(1000))

    assert b" 503 " in refused
    assert b'"busy"' in refused
    assert b"Retry-After" in refused or b"retry-after" in refused
    assert b" 200 " in taken


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8081", "192.168.1.7", "127.0.0.1.nip.io", "[::1"])
def test_a_registry_without_users_answers_to_no_name_of_another_machine(bounded: httpx.Client, host: str) -> None:
    assert bounded.get("/subjects", headers={"Host": host}).status_code == 403
    for ours in ("localhost", "localhost:8081", "127.0.0.1", "[::1]:8081"):
        assert bounded.get("/subjects", headers={"Host": ours}).status_code == 200


@pytest.mark.parametrize("root", ["/v1/topics/", "/subjects/"])
def test_urls_and_headers_have_bounds(bounded: httpx.Client, root: str) -> None:
    long_url = bounded.get(root + "a" * 300)
    long_headers = bounded.get(root + "a", headers={"X-A": "b" * 2000})

    assert (long_url.status_code, long_url.json()["code"]) == (414, "url_too_long")
    assert (long_headers.status_code, long_headers.json()["code"]) == (431, "headers_too_large")


def test_slow_clients_are_not_waited_for(bounded: httpx.Client) -> None:
    head = b"PUT /config HTTP/1.1\r\nHost: localhost\r\nContent-Length: 25\r\n\r\n"

    assert b" 408 " in told(bounded, head, b"{")
    assert told(bounded, b"GET /config HTT") == b""
    assert told(bounded, b"GET /config HTTP/1.1\r\n", b"A: b\r\n", b"C: d\r\n", b"E: f\r\n", pause=0.3) == b""
    assert told(bounded) == b""
    assert bounded.get("/config").status_code == 200


def test_more_requests_than_allowed_wait(tmp_path: Path) -> None:
    with served(f"sqlite:///{tmp_path}/rated.db", Protection(rates=Rates(0.01, 3))) as client:
        answers = [client.get("/config") for _ in range(4)]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[-1].json()["code"] == "too_many_requests"
    assert 1 <= int(answers[-1].headers["Retry-After"]) <= 100


@given(burst=st.integers(1, 20), names=st.lists(st.sampled_from(["a", "b", "ü"]), max_size=60))
def test_each_name_has_its_burst_and_no_more(burst: int, names: list[str]) -> None:
    rates = Rates(1e-6, burst)

    passed = [name for name in names if rates.take(name) == 0]

    assert {name: passed.count(name) for name in names} == {name: min(burst, names.count(name)) for name in names}
    assert all((rates.wait_seconds(name) > 0) is (names.count(name) >= burst) for name in set(names))


def test_a_rate_is_kept_over_time() -> None:
    rates = Rates(200, 1)
    began, passed, longest_refused = time.monotonic(), 0, 0.0
    last_passed = began

    while passed < 100:
        asked = time.monotonic()
        if rates.take("a") == 0:
            passed, last_passed = passed + 1, time.monotonic()
        else:
            longest_refused = max(longest_refused, asked - last_passed)
    seconds = time.monotonic() - began

    # However seldom this process gets to run: never earlier, and never refused when it is time.
    assert seconds > 0.49
    assert longest_refused <= 0.005


def test_processes_count_together() -> None:
    rates = Rates(1e-6, 10)
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            os._exit(sum(rates.take("a") == 0 for _ in range(2)))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2

    assert [rates.take("a") == 0 for _ in range(3)] == [True, True, False]


def test_without_a_rate_nothing_waits() -> None:
    rates = Rates(0, 1)

    assert {rates.take("a") for _ in range(1000)} == {0.0}
