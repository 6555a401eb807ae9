"""What a process tree used is what its processes used, children that have ended included."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from penstock.bench.meter import Meter
from penstock.bench.process_tree import read_tree
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
_LARGE = "block = b'x' * 200_000_000\nprint('done', flush=True)\nimport sys; sys.stdin.read()"


def test_a_tree_has_the_time_of_a_living_child_and_of_one_that_has_ended() -> None:
    with _running(_PARENT) as tree:
        used = read_tree(tree.pid).cpu_seconds

    # 0.4 of the one and 0.3 of the other, and three starts of Python.
    assert 0.65 < used < 5.0


def test_a_process_beside_the_tree_is_not_in_it() -> None:
    with _running(_LIVING) as tree, _running(_WORK.format(seconds=2) + _LIVING):
        used = read_tree(tree.pid)

    assert used.cpu_seconds < 2.0
    assert list(used.memory) == [tree.pid]


def test_the_peak_of_memory_is_that_of_the_largest_moment() -> None:
    with _running(_LARGE) as tree:
        memory = read_tree(tree.pid).memory[tree.pid]

    assert memory.peak_bytes > 200_000_000
    assert memory.program.startswith("python")


def test_a_process_that_is_gone_has_used_nothing() -> None:
    with _running("print('done', flush=True)") as tree:
        tree.wait()

    gone = read_tree(tree.pid)

    assert (gone.cpu_seconds, dict(gone.memory)) == (0, {})


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
