"""`penstock dev` keeps servers running after it has returned, until it is told to stop them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.servers.kinds import first

from penstock.core.errors import UnavailableError
from penstock.embedded.jars import JarSet, ensure_jars
from penstock.embedded.ports import LOOPBACK, free_port, is_listening

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SERVICE = "mariadb"


@pytest.fixture(params=first(1, _SERVICE, "postgres"))
def service(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Where servers are kept; shell scripts that start some of them split a path at a blank."""
    yield tmp_path / "of developers"
    _dev("down", "--home", str(tmp_path / "of developers"))


def test_a_server_runs_from_up_to_down_and_comes_back_on_its_port(home: Path, service: str) -> None:
    first = _facts("up", home, service)
    assert is_listening(first["port"])
    assert _facts("status", home, service) == first
    assert _facts("up", home, service) == first

    down = _dev("down", service, "--home", str(home))

    assert down.stdout == f"{service}: stopped\n"
    assert not is_listening(first["port"])
    assert _facts("status", home, service) is None
    assert _facts("up", home, service)["port"] == first["port"]


def test_a_port_in_use_ends_up_with_exit_code_2_and_the_port(home: Path) -> None:
    with socket.create_server((LOOPBACK, free_port())) as server:
        port = server.getsockname()[1]
        up = _dev("up", _SERVICE, "--home", str(home), "--port", f"{_SERVICE}={port}")

    assert up.returncode == 2
    assert f"port {port} on 127.0.0.1 is in use" in up.stderr


def test_a_service_that_nobody_knows_ends_up_with_exit_code_2_and_those_that_there_are(home: Path) -> None:
    up = _dev("up", "oracle", "--home", str(home))

    assert up.returncode == 2
    assert "oracle is no known service" in up.stderr
    assert "snowflake" in up.stderr


@pytest.mark.nightly
def test_a_killed_supervisor_takes_its_server_along_and_up_starts_it_again(home: Path, service: str) -> None:
    facts = _facts("up", home, service)

    os.kill(facts["supervisor"], signal.SIGKILL)

    deadline = time.monotonic() + 10
    while is_listening(facts["port"]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert _facts("status", home, service) is None
    assert _facts("up", home, service)["port"] == facts["port"]


@pytest.mark.nightly
def test_a_server_that_ends_by_itself_is_no_longer_listed(home: Path) -> None:
    facts = _facts("up", home)

    os.kill(facts["pid"], signal.SIGKILL)

    deadline = time.monotonic() + 10
    while _facts("status", home) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.nightly
def test_jars_that_cannot_be_fetched_are_worth_another_try(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Port 1 on loopback: a proxy that refuses every connection.
    nowhere = "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=1 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", nowhere)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    with pytest.raises(UnavailableError, match="jars of spark-kafka"):
        ensure_jars(JarSet.SPARK_KAFKA)

    assert not [path for path in (tmp_path / "penstock" / "jars").iterdir() if path.is_dir()]


def _facts(command: str, home: Path, service: str = _SERVICE) -> Any:  # noqa: ANN401 - the service's part of JSON output
    answer = _dev(command, service, "--home", str(home), "--json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)[service]


def _dev(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock.cli.main", "dev", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
