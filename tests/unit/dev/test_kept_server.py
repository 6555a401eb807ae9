"""A server that dies, and dies again while it is started again, comes back, and holds nobody up meanwhile."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import UnavailableError
from penstock.embedded import kept_server
from penstock.embedded.kept_server import KeptServer
from penstock.embedded.processes import start_child, wait_until_ready
from penstock.embedded.schematizer import start_schematizer
from penstock.embedded.server import OneProcessServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def _wait_for(kept: KeptServer, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        asked_at = time.monotonic()
        kept.ensure()
        assert time.monotonic() - asked_at < 5, "it waited for a start"
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _sleeper(home: Path) -> OneProcessServer:
    return OneProcessServer(0, home, start_child("sleeper", _SLEEP, home / "log"))


@pytest.mark.nightly
def test_a_schematizer_that_is_killed_again_while_it_starts_comes_back_on_its_port(tmp_path: Path) -> None:
    killed = threading.Event()

    def start() -> OneProcessServer:
        if not killed.is_set():
            killed.set()
            child = start_child("Schematizer", _SLEEP, tmp_path / "second.log")
            os.kill(child.pid, signal.SIGKILL)
            wait_until_ready(child, lambda: False, 30)
        return start_schematizer(tmp_path)

    first = start_schematizer(tmp_path)
    downs: list[bool] = []
    kept = KeptServer("Schematizer", first, start, lambda: downs.append(True))
    try:
        os.kill(first.pid, signal.SIGKILL)
        first.child.popen.wait()

        _wait_for(kept, lambda: kept.server.pid != first.pid)

        assert killed.is_set()
        assert len(downs) == 2
        assert kept.server.alive()
        assert kept.server.facts()["port"] == first.port
    finally:
        kept.stop()


def test_nobody_waits_for_a_start(tmp_path: Path) -> None:
    may_go_on = threading.Event()
    first = _sleeper(tmp_path)

    def start() -> OneProcessServer:
        assert may_go_on.wait(60)
        return _sleeper(tmp_path)

    kept = KeptServer("sleeper", first, start, lambda: None)
    first.kill()

    kept.ensure()
    kept.ensure()

    assert kept.server is first
    may_go_on.set()
    _wait_for(kept, lambda: kept.server is not first)
    kept.stop()
    assert not kept.server.alive()


def test_a_server_that_does_not_stay_is_given_up_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_server, "_PAUSES_SECONDS", (0.0, 0.0))
    first = _sleeper(tmp_path)

    def start() -> OneProcessServer:
        message = "the disk is full"
        raise UnavailableError(message, "free space")

    kept = KeptServer("sleeper", first, start, lambda: None)
    first.kill()

    with pytest.raises(UnavailableError, match="started again 2 times in a row and does not stay: the disk is full"):
        _wait_for(kept, lambda: False)


def test_a_server_that_is_started_when_all_ends_does_not_stay_behind(tmp_path: Path) -> None:
    may_go_on, started = threading.Event(), []
    first = _sleeper(tmp_path)

    def start() -> OneProcessServer:
        assert may_go_on.wait(60)
        started.append(_sleeper(tmp_path))
        return started[0]

    kept = KeptServer("sleeper", first, start, lambda: None)
    first.kill()
    kept.ensure()

    kept.stop()
    may_go_on.set()

    deadline = time.monotonic() + 30
    while not (started and not started[0].alive()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
