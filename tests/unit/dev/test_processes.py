"""Child processes start within a bound, explain themselves and leave nothing behind."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from penstock.core.errors import PenstockError, UnavailableError, UsageError
from penstock.embedded.processes import run_to_end, start_child, wait_until_ready

_SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
_DEAF = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)",
]


def test_a_child_runs_until_it_is_stopped(tmp_path: Path) -> None:
    child = start_child("sleeper", _SLEEP, tmp_path / "log")
    assert child.alive()

    child.stop()

    assert not child.alive()


def test_a_child_that_does_not_heed_a_request_to_end_is_killed(tmp_path: Path) -> None:
    child = start_child("deaf", _DEAF, tmp_path / "log")
    wait_until_ready(child, lambda: b"deaf" in (tmp_path / "log").read_bytes(), 30)

    child.stop(wait_seconds=0.1)

    assert child.popen.returncode == -9


def test_what_a_child_has_started_ends_with_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = start_child("parent", ["sh", "-c", "sleep 600 & echo $! ; wait"], log)
    wait_until_ready(child, lambda: log.read_bytes().endswith(b"\n"), 30)
    grandchild = Path("/proc") / log.read_text().strip() / "cmdline"
    # Its number is known before it has become `sleep`: until then it is a second `sh`.
    wait_until_ready(child, lambda: grandchild.read_bytes().startswith(b"sleep"), 30)

    child.stop()

    deadline = time.monotonic() + 5
    while grandchild.exists() and grandchild.read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_child_that_is_killed_while_it_starts_is_reported_as_that_and_not_by_its_healthy_log(tmp_path: Path) -> None:
    child = start_child("victim", ["sh", "-c", "echo all is well; kill -9 $$"], tmp_path / "log")

    with pytest.raises(UnavailableError, match=r"^victim was killed while it started \(SIGKILL\)\n"):
        wait_until_ready(child, lambda: False, 30)


def test_a_child_that_ends_while_it_starts_is_reported_with_its_last_words(tmp_path: Path) -> None:
    child = start_child("quitter", ["sh", "-c", "echo no room; exit 3"], tmp_path / "log")

    with pytest.raises(PenstockError, match=r"quitter ended while it started \(exit code 3\):\n    no room"):
        wait_until_ready(child, lambda: False, 30)


@pytest.mark.parametrize(
    "last_words",
    [
        "java.io.IOException: No space left on device",
        "[ERROR] InnoDB: preallocating 8388608 bytes for file ./ib_logfile101 failed with error 28",
    ],
)
def test_a_full_disk_is_said_in_words(last_words: str, tmp_path: Path) -> None:
    said = f"echo '{last_words}'; yes 'at some.java.Method' | head -n 200; exit 1"

    with pytest.raises(UnavailableError, match=f"exit code 1: the disk that holds {tmp_path} is full") as raised:
        run_to_end("writer", ["sh", "-c", said], tmp_path / "log", 30)

    assert "nothing is lost" in raised.value.hint


def test_a_child_that_is_never_ready_is_stopped(tmp_path: Path) -> None:
    child = start_child("sleeper", _SLEEP, tmp_path / "log")

    with pytest.raises(UnavailableError, match="sleeper was not ready after 0 s, its log is empty"):
        wait_until_ready(child, lambda: False, 0.2)

    assert not child.alive()


def test_a_probe_that_is_interrupted_leaves_no_child_behind(tmp_path: Path) -> None:
    def interrupt() -> bool:
        raise KeyboardInterrupt

    child = start_child("sleeper", _SLEEP, tmp_path / "log")

    with pytest.raises(KeyboardInterrupt):
        wait_until_ready(child, interrupt, 30)

    assert not child.alive()


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(UsageError, match="sleeper cannot write its log"):
        start_child("sleeper", _SLEEP, tmp_path / "file" / "log")


def test_a_command_that_fails_is_reported_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match=r"step failed with exit code 4:\n    disk full"):
        run_to_end("step", ["sh", "-c", "echo disk full; exit 4"], tmp_path / "log", 30)


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="step did not end within 0 s"):
        run_to_end("step", _SLEEP, tmp_path / "log", 0.2)
