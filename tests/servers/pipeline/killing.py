"""Finds and ends every process of a pipeline that `penstock run` has started."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def alive(pids: list[int]) -> list[int]:
    """Those of `pids` that run."""
    listed = subprocess.run(["/bin/ps", "-eo", "pid=,stat="], capture_output=True, text=True, check=True).stdout
    running = {int(pid) for pid, stat in (line.split() for line in listed.splitlines()) if not stat.startswith("Z")}
    return [pid for pid in pids if pid in running]


def kill_everything(running: subprocess.Popen[bytes], home: Path) -> None:
    """Kill -9 the driver and every process that works for it, embedded servers included."""
    kill_all([running.pid, *descendants(running.pid), *children_of_home(home)])
    running.wait(30)


def kill_all(pids: list[int]) -> None:
    """Kill -9 those that still run."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """All processes that a process has started, and those that they have."""
    listed = subprocess.run(["/bin/ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(child): int(parent) for child, parent in (line.split() for line in listed.splitlines())}
    found = [child for child, parent in parents.items() if parent == pid]
    return found + [deeper for child in found for deeper in descendants(child)]


def programs(pid: int, name: str) -> list[int]:
    """Of the processes that `pid` has started those whose command line names `name`, however long it is."""
    return [child for child in descendants(pid) if name in _command_line(child)]


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def children_of_home(home: Path) -> list[int]:
    """Processes whose command line names something under `home`, as that of a server on data there does."""
    listed = subprocess.run(["/bin/ps", "-eo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if f"{home}/" in line]


def wait_for(condition: Callable[[], bool], seconds: float = 240.0) -> None:
    """Wait until `condition` holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)
