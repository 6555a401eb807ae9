"""Waiting for the leader's lock, and what its loss ends."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from penstock.adapters.lock.file import FileLock
from penstock.cli.leading import Leadership, leading
from penstock.core.errors import LockLostError, PenstockError

if TYPE_CHECKING:
    from pathlib import Path

_WAITS_FOR_EVER = """
import threading
from penstock.cli.leading import Leadership
Leadership("shop").lose("the cable was cut")
threading.Event().wait()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shop.lock"


def test_the_lock_is_held_for_the_block_and_let_go_after_it(file: Path) -> None:
    said: list[str] = []

    with leading("shop", FileLock(file), said.append, None) as leadership:
        assert FileLock(file).holder()
        leadership.require()

    assert FileLock(file).holder() == ""
    assert said == []


def test_an_instance_that_does_not_stand_by_says_who_leads_and_gives_up(file: Path) -> None:
    leader, said = FileLock(file), list[str]()
    leader.acquire(0)

    with (
        pytest.raises(PenstockError, match="another instance of pipeline shop runs: pid") as raised,
        leading("shop", FileLock(file), said.append, None),
    ):
        pytest.fail("two of them lead")

    assert said == [f"another instance of pipeline shop runs ({leader.holder()}); waiting up to 5 s"]
    assert (raised.value.exit_code, "--standby" in raised.value.hint) == (1, True)
    leader.release()


def test_an_instance_that_stands_by_says_who_leads_and_takes_over(file: Path) -> None:
    leader, said = FileLock(file), list[str]()
    leader.acquire(0)
    holder = leader.holder()
    letting_go = threading.Timer(0.5, leader.release)
    letting_go.start()

    with leading("shop", FileLock(file), said.append, lambda: said.append("prepared")):
        assert not leader.acquire(0)

    letting_go.join()
    standing_by = f"standing by: another instance of pipeline shop runs ({holder}); this one takes over when it ends"
    assert said == [standing_by, "prepared", "taking over"]


def test_a_lost_lock_stops_at_once_and_is_told_to_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.leading._END_SECONDS", 3600.0)
    leadership, stopped = Leadership("shop"), list[str]()
    leadership.at_loss(lambda: stopped.append("spark"))
    leadership.require()
    assert stopped == []

    leadership.lose("the cable was cut")

    assert stopped == ["spark"]
    with pytest.raises(LockLostError, match="pipeline shop no longer leads: the cable was cut"):
        leadership.require()
    leadership.at_loss(lambda: stopped.append("what came later"))
    assert stopped == ["spark", "what came later"]


def test_a_run_that_waits_for_something_ends_all_the_same_when_its_lock_is_lost() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _WAITS_FOR_EVER], capture_output=True, text=True, check=False, timeout=60
    )

    assert ended.returncode == 1
    assert "pipeline shop no longer leads: the cable was cut\n  what to do: start it again" in ended.stderr
