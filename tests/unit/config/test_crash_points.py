"""Places at which a process can be told to end."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.config.crash_points import VARIABLE, CrashPoint
from penstock.core.errors import UsageError
from penstock.wiring.crash_points import crash_points, require_known_point

_PROGRAM = """
from penstock.config.crash_points import CrashPoint
here, there = CrashPoint("test.here", "a test"), CrashPoint("test.there", "a test")
for number in range(1, 4):
    there.maybe_crash()
    here.maybe_crash()
    print(number, flush=True)
"""


@pytest.mark.parametrize(
    ("wanted", "seen", "code"),
    [
        ("", ["1", "2", "3"], 0),
        ("test.here", [], -signal.SIGKILL),
        ("test.here:1", [], -signal.SIGKILL),
        ("test.here:3", ["1", "2"], -signal.SIGKILL),
        ("test.here:4", ["1", "2", "3"], 0),
    ],
)
def test_a_process_ends_where_and_when_it_is_told_to(wanted: str, seen: list[str], code: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env={VARIABLE: wanted}, capture_output=True, text=True, check=False
    )
    assert (ended.stdout.split(), ended.returncode) == (seen, code)


def test_a_place_in_a_file_ends_one_process_once(tmp_path: Path) -> None:
    file = tmp_path / "crash_at"

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", _PROGRAM], env={VARIABLE: str(file)}, capture_output=True, text=True, check=False
        )

    before = run()
    file.write_text("test.here:2")
    first, second = run(), run()

    assert (before.stdout.split(), before.returncode) == (["1", "2", "3"], 0)
    assert (first.stdout.split(), first.returncode) == (["1"], -signal.SIGKILL)
    assert (second.stdout.split(), second.returncode) == (["1", "2", "3"], 0)


def test_every_module_that_declares_a_point_is_listed() -> None:
    root = Path(penstock.__file__).parent
    declared = {
        name for file in root.rglob("*.py") for name in re.findall(r'\bCrashPoint\(\s*"([\w.]+)"', file.read_text())
    }
    assert declared
    assert declared == set(crash_points())


def test_a_name_is_declared_once() -> None:
    crash_points()
    with pytest.raises(ValueError, match=r"publish\.sent"):
        CrashPoint("publish.sent", "again")


@pytest.mark.parametrize("wanted", ["nowhere", "publish.sent:", "publish.sent:0", "publish.sent:x", "?"])
def test_an_unknown_place_is_answered_with_all_there_are(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, wanted)
    with pytest.raises(UsageError) as caught:
        require_known_point()
    assert repr(wanted) in caught.value.message
    assert all(name in caught.value.hint for name in crash_points())


@pytest.mark.parametrize("wanted", ["publish.sent", "publish.sent:7"])
def test_a_known_place_is_told(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, wanted)
    assert require_known_point() == "publish.sent"


def test_a_file_may_name_its_place_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "crash_at"))
    assert require_known_point() == f"the place in {tmp_path / 'crash_at'}"
