"""Ports are free when they are chosen, and the same after a restart."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import UsageError
from penstock.dev.ports import LOOPBACK, choose_port, free_port, is_free, is_listening

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server((LOOPBACK, free_port())) as server:
        yield server.getsockname()[1]


def test_a_chosen_port_is_remembered(tmp_path: Path) -> None:
    first = choose_port(tmp_path / "port")

    assert choose_port(tmp_path / "port") == first


def test_a_wanted_port_takes_the_place_of_the_remembered_one(tmp_path: Path) -> None:
    choose_port(tmp_path / "port")
    wanted = free_port()

    assert choose_port(tmp_path / "port", wanted) == wanted
    assert choose_port(tmp_path / "port") == wanted


def test_a_port_in_use_is_named(tmp_path: Path, taken: int) -> None:
    with pytest.raises(UsageError, match=f"port {taken} on 127.0.0.1 is in use"):
        choose_port(tmp_path / "port", taken)

    assert not (tmp_path / "port").exists()


def test_a_remembered_port_in_use_is_named_too(tmp_path: Path, taken: int) -> None:
    (tmp_path / "port").write_text(f"{taken}\n")

    with pytest.raises(UsageError, match=f"port {taken} "):
        choose_port(tmp_path / "port")


def test_a_free_port_lies_below_those_of_outgoing_connections() -> None:
    assert 20_000 <= free_port() <= 32_000


def test_a_listener_is_seen(taken: int) -> None:
    assert is_listening(taken)
    assert not is_free(taken)
