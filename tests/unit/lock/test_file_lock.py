"""The leader's lock as a file."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from penstock.adapters.lock.file import FileLock
from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.ports.lock import Lock

HOLD = """
import sys, time
from pathlib import Path
from penstock.adapters.lock.file import FileLock
print(FileLock(Path(sys.argv[1])).acquire(0), flush=True)
time.sleep(60)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "home" / "shop.lock"


def hold_elsewhere(file: Path) -> subprocess.Popen[str]:
    """Start a process that holds the lock, and wait until it does."""
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(file)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    return holder


def test_a_file_lock_is_a_lock(file: Path) -> None:
    lock: Lock = FileLock(file)

    assert lock.acquire(0)
    lock.release()


def test_only_one_holds_it(file: Path) -> None:
    first, second = FileLock(file), FileLock(file)

    assert first.acquire(0)
    assert not second.acquire(0.2)
    first.release()
    assert second.acquire(0)
    second.release()


def test_whoever_holds_it_may_ask_again(file: Path) -> None:
    lock = FileLock(file)

    assert lock.acquire(0)
    assert lock.acquire(0)
    lock.release()


def test_letting_go_twice_is_safe(file: Path) -> None:
    lock = FileLock(file)
    lock.release()
    lock.acquire(0)

    lock.release()
    lock.release()

    assert lock.holder() == ""


def test_others_read_who_holds_it(file: Path) -> None:
    lock = FileLock(file)
    assert FileLock(file).holder() == ""

    lock.acquire(0)

    assert re.fullmatch(rf"pid {os.getpid()} since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d", FileLock(file).holder())
    assert lock.holder() == FileLock(file).holder()
    lock.release()
    assert FileLock(file).holder() == ""


def test_another_process_keeps_us_out_until_it_is_killed(file: Path) -> None:
    lock = FileLock(file)
    with hold_elsewhere(file) as holder:
        try:
            assert not lock.acquire(0.1)
            assert lock.holder().startswith(f"pid {holder.pid} since ")
        finally:
            holder.send_signal(signal.SIGKILL)

    assert lock.holder() == ""
    assert lock.acquire(0)
    lock.release()


def test_waiting_ends_when_the_holder_does(file: Path) -> None:
    lock = FileLock(file)
    with hold_elsewhere(file) as holder:
        subprocess.run(["/bin/sh", "-c", f"(sleep 0.3; kill -9 {holder.pid}) &"], check=True)
        began = time.monotonic()

        assert lock.acquire(20)

    assert 0.1 < time.monotonic() - began < 10
    lock.release()


def test_a_child_does_not_inherit_the_lock(file: Path) -> None:
    lock = FileLock(file)
    lock.acquire(0)
    with subprocess.Popen(["/bin/sleep", "60"], close_fds=False) as child:
        lock.release()
        # Until its exec is through, which we cannot see, the child has all that we had.
        deadline = time.monotonic() + 10
        while FileLock(file).holder() and time.monotonic() < deadline:
            time.sleep(0.01)
        try:
            assert FileLock(file).holder() == ""
        finally:
            child.kill()


def test_asking_who_holds_it_does_not_keep_anybody_out(file: Path) -> None:
    file.parent.mkdir()
    asking = f"""
from pathlib import Path
from penstock.adapters.lock.file import FileLock
print("asking", flush=True)
while True:
    FileLock(Path({str(file)!r})).holder()
"""
    with subprocess.Popen([sys.executable, "-c", asking], stdout=subprocess.PIPE, text=True) as asker:
        assert asker.stdout is not None
        asker.stdout.readline()
        try:
            for _ in range(20):
                lock = FileLock(file)
                assert lock.acquire(2)
                lock.release()
        finally:
            asker.kill()


def test_a_lock_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file where home should be")

    with pytest.raises(UsageError, match="cannot write the lock file"):
        FileLock(tmp_path / "home" / "shop.lock").acquire(0)
    assert FileLock(tmp_path / "nothing").holder() == ""
