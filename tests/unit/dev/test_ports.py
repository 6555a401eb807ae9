"""Ports are free when they are chosen, and the same after a restart."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import UnavailableError, UsageError
from penstock.embedded.ports import LOOPBACK, choose_port, free_port, is_free, is_listening

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ALL = range(20_000, 32_001)
_ASK = """
from penstock.embedded.ports import free_port
for _ in range(60):
    print(free_port(), flush=True)
"""


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server((LOOPBACK, free_port())) as server:
        yield server.getsockname()[1]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def note(cache: Path, ports: range, seconds_ago: int) -> None:
    """Write as if somebody had been given all of `ports`."""
    notes = cache / "penstock" / "ports"
    notes.mkdir(parents=True)
    at = int(time.time()) - seconds_ago
    (notes / "given").write_text("".join(f"{port} {at}\n" for port in ports))


def test_a_chosen_port_is_remembered(tmp_path: Path) -> None:
    first = choose_port(tmp_path / "port")

    assert choose_port(tmp_path / "port") == first


def test_a_wanted_port_takes_the_place_of_the_remembered_one(tmp_path: Path) -> None:
    choose_port(tmp_path / "port")
    wanted = free_port()

    assert choose_port(tmp_path / "port", wanted) == wanted
    assert choose_port(tmp_path / "port") == wanted


def test_whoever_reads_a_port_while_another_is_written_gets_the_one_or_the_other(tmp_path: Path) -> None:
    first = choose_port(tmp_path / "port")

    with (tmp_path / "port").open() as file:
        choose_port(tmp_path / "port", free_port())
        assert int(file.read()) == first


def test_a_port_in_use_is_named(tmp_path: Path, taken: int) -> None:
    with pytest.raises(UsageError, match=f"port {taken} on 127.0.0.1 is in use"):
        choose_port(tmp_path / "port", taken)

    assert not (tmp_path / "port").exists()


def test_in_place_of_a_remembered_port_that_somebody_took_another_one_is_chosen_and_remembered(
    tmp_path: Path, taken: int
) -> None:
    (tmp_path / "port").write_text(f"{taken}\n")

    another = choose_port(tmp_path / "port")

    assert another != taken
    assert choose_port(tmp_path / "port") == another


def test_a_port_that_a_server_must_have_again_is_not_exchanged(tmp_path: Path, taken: int) -> None:
    (tmp_path / "port").write_text(f"{taken}\n")

    with pytest.raises(UsageError, match=f"port {taken} "):
        choose_port(tmp_path / "port", taken)

    assert (tmp_path / "port").read_text() == f"{taken}\n"


def test_a_free_port_lies_below_those_of_outgoing_connections() -> None:
    assert 20_000 <= free_port() <= 32_000


def test_a_listener_is_seen(taken: int) -> None:
    assert is_listening(taken)
    assert not is_free(taken)


def test_a_port_is_given_to_one_of_several_processes_that_ask_at_the_same_time(cache: Path) -> None:
    asking = [subprocess.Popen([sys.executable, "-c", _ASK], stdout=subprocess.PIPE, text=True) for _ in range(4)]

    given = [port for process in asking for port in process.communicate(timeout=60)[0].split()]

    assert len(given) == 240
    assert len(set(given)) == 240
    assert cache.is_dir()


def test_a_port_that_was_given_lately_is_not_given_again(cache: Path) -> None:
    note(cache, _ALL[:-10], seconds_ago=60)

    assert free_port() in _ALL[-10:]


def test_a_port_that_was_given_long_ago_is_given_again(cache: Path) -> None:
    note(cache, _ALL, seconds_ago=121)

    assert free_port() in _ALL


def test_where_every_port_was_given_lately_none_is_free(cache: Path) -> None:
    note(cache, _ALL, seconds_ago=0)

    with pytest.raises(UnavailableError, match="no free port between 20000 and 32000"):
        free_port()


def test_a_damaged_note_tells_nothing(cache: Path) -> None:
    note(cache, _ALL[:-10], seconds_ago=0)
    given = cache / "penstock" / "ports" / "given"
    given.write_bytes(given.read_bytes() + b"\xff\x00 ?\n32000 12x\n31999")

    assert free_port() in _ALL[-10:]


def test_a_cache_that_cannot_be_written_keeps_nobody_from_a_port(cache: Path) -> None:
    cache.write_text("a file where a directory should be")

    assert free_port() in _ALL


def test_a_note_that_cannot_be_written_keeps_nobody_from_a_port(cache: Path) -> None:
    (cache / "penstock" / "ports" / "given").mkdir(parents=True)

    assert free_port() in _ALL
