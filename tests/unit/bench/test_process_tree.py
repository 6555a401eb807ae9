"""What a process tree used is what its processes used, children that have ended included."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from penstock.bench.meter import Meter
from penstock.bench.process_tree import ProcessTree, tree_held
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Each works until the kernel has counted as much CPU time as it was told to use, then says so and waits.
_WORK = "import time\nwhile time.process_time() < {seconds}: pass\n"
_LIVING = _WORK.format(seconds=0.3) + "print('done', flush=True)\nimport sys; sys.stdin.read()"
_PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, "-S", "-c", {_WORK.format(seconds=0.4)!r}])
child = subprocess.Popen([sys.executable, "-S", "-c", {_LIVING!r}])
child.wait()
"""
# The child works, says so and waits for its end; then the parent says that it has ended.
_CHILD_THAT_ENDS = """
import os, signal, subprocess, sys
{first}
child = subprocess.Popen([sys.executable, "-S", "-c", {living!r}], stdin=subprocess.PIPE)
sys.stdin.readline()
child.stdin.close()
try:
    os.waitpid(child.pid, 0)
except ChildProcessError:
    pass
print("ended", flush=True)
sys.stdin.read()
"""
_NEGLIGENT = _CHILD_THAT_ENDS.format(first="signal.signal(signal.SIGCHLD, signal.SIG_IGN)", living=_LIVING)
_CAREFUL = _CHILD_THAT_ENDS.format(first="", living=_LIVING)
_LARGE = "block = b'x' * 200_000_000\nprint('done', flush=True)\nimport sys; sys.stdin.read()"


def test_a_tree_has_the_time_of_a_living_child_and_of_one_that_has_ended() -> None:
    with _running(_PARENT) as tree:
        used = ProcessTree(tree.pid).look()

    # 0.4 of the one and 0.3 of the other, and three starts of Python.
    assert 0.65 < used < 5.0


@pytest.mark.nightly
def test_a_process_beside_the_tree_is_not_in_it() -> None:
    with _running(_LIVING) as tree, _running(_WORK.format(seconds=2) + _LIVING):
        looked_at = ProcessTree(tree.pid)
        used = looked_at.look()

    assert used < 2.0
    assert [pid for pid, _ in looked_at.memory] == [tree.pid]


def test_a_dead_child_that_nobody_collected_is_counted_and_one_that_was_collected_is_counted_once() -> None:
    with _running(_NEGLIGENT) as tree:
        looked_at = ProcessTree(tree.pid)
        before = looked_at.look()
        tell(tree)
        neglected = looked_at.look() - before
    with _running(_CAREFUL) as tree:
        looked_at = ProcessTree(tree.pid)
        before = looked_at.look()
        tell(tree)
        collected = looked_at.look() - before

    assert before > 0.25  # 0.3, less what the kernel rounds down
    assert -0.001 < neglected < 0.2
    assert -0.001 < collected < 0.2


def tell(process: subprocess.Popen[str]) -> None:
    """Let the program's child end, and wait until it has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    process.stdout.readline()


def test_the_peak_of_memory_is_that_of_the_largest_moment() -> None:
    with _running(_LARGE) as tree:
        looked_at = ProcessTree(tree.pid)
        looked_at.look()
        (memory,) = looked_at.memory.values()

    assert memory.peak_bytes > 200_000_000
    assert memory.program.startswith("python")


def test_a_process_that_is_gone_has_used_nothing() -> None:
    with _running("print('done', flush=True)") as tree:
        tree.wait()

    looked_at = ProcessTree(tree.pid)

    assert (looked_at.look(), looked_at.memory) == (0, {})


def test_a_meter_knows_what_was_used_between_two_moments() -> None:
    with _running(_LIVING) as tree, Meter(tree.pid) as meter:
        idle_from = time.monotonic()
        time.sleep(0.25)
        meter.sample()
        idle_to = time.monotonic()
        peaks = meter.peaks()

    assert meter.cpu_between(idle_from, idle_to) < 0.2
    assert [peak.program for peak in peaks] == [peaks[0].program]


def test_a_meter_refuses_a_stretch_that_it_has_not_seen() -> None:
    with _running(_LIVING) as tree, Meter(tree.pid) as meter:
        now = time.monotonic()

    with pytest.raises(PenstockError, match="was not there"):
        meter.cpu_between(now - 60, now)


@contextmanager
def _running(program: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program until the end of the block; it has said that it is done with its work, or ended."""
    command = [sys.executable, "-S", "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.communicate()


def test_a_tree_holds_what_its_processes_hold() -> None:
    open_more = "import os, threading, sys\nheld = [open(os.devnull) for _ in range(25)]\n"
    wait = "threading.Thread(target=threading.Event().wait, daemon=True).start()\nprint(flush=True)\nsys.stdin.read()"
    child = [sys.executable, "-S", "-c", open_more + wait]
    parent = f"import subprocess\nsubprocess.run({child!r})"
    with subprocess.Popen(
        [sys.executable, "-S", "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        held = tree_held(process.pid)
        process.communicate()

    assert held.threads == 3
    assert 25 + 6 <= held.open_files < 25 + 25
    assert 1 << 20 < held.own_bytes < held.pss_bytes
