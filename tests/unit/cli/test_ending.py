"""A run that is asked to end does so, whatever it waits for."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

_WAITING = """
import signal, sys, time
from concurrent.futures import ThreadPoolExecutor
from penstock.cli.ending import ending_in_time

signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
with ending_in_time(0.2), ThreadPoolExecutor() as threads:
    threads.submit(time.sleep, {sleeps})
    print("waits", flush=True)
    time.sleep({sleeps})
"""


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_whoever_waits_for_an_answer_that_does_not_come_is_ended(asked: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", _WAITING.format(sleeps=600)], stdout=-1, stderr=-1) as process:
        assert process.stdout is not None
        process.stdout.readline()

        process.send_signal(asked)
        _, said = process.communicate(timeout=60)

    assert process.returncode == 128 + asked
    assert b"nothing is lost, run again" in said


def test_an_orderly_end_is_not_cut_short() -> None:
    script = _WAITING.replace("time.sleep({sleeps})\n", "sys.exit(7)\n").replace("0.2", "30").format(sleeps=0.1)

    ended = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, timeout=60)

    assert (ended.returncode, ended.stderr) == (7, b"")
