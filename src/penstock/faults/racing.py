"""An instance that captures whenever it leads, without Spark: two of them race for the lock.

It asks whether it still leads between tail slices of a fraction of a second only, so
that an instance which slept publishes what it can before it knows better: what
keeps it from harm is Kafka's fencing.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import signal
import threading
import traceback
from contextlib import closing
from typing import TYPE_CHECKING, Final

from penstock.config.load import load
from penstock.core.errors import PenstockError
from penstock.links.capture.spec import CaptureSpec
from penstock.wiring.capture import open_live
from penstock.wiring.epochs import next_epoch
from penstock.wiring.open import open_lock

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess
    from pathlib import Path

    from penstock.config.specs import PipelineSpec

_TAIL_SLICE_SECONDS: Final = 0.3
_WAIT_SECONDS: Final = 5.0
_PROCESSES: Final = multiprocessing.get_context("spawn")


def start_racer(file: Path, log: Path) -> SpawnProcess:
    """Start an instance of the pipeline of `file`, which was started before; it ends by being killed.

    Into `log` go the errors after which it begins again, and upon SIGUSR1 where each of its threads is.
    """
    process = _PROCESSES.Process(target=_race, args=(file, log), daemon=True)
    process.start()
    return process


def _race(file: Path, log: Path) -> None:
    spec = load(file)
    with log.open("a") as output:
        faulthandler.register(signal.SIGUSR1, output)
        while True:
            try:
                _lead(spec)
            except PenstockError:
                traceback.print_exc(file=output)
                output.flush()


def _lead(spec: PipelineSpec) -> None:
    """Wait for the lock, and capture the one source until it is lost."""
    lock, lost = open_lock(spec), threading.Event()
    try:
        while not lock.acquire(_WAIT_SECONDS):
            pass
        lock.tell_loss(lambda _: lost.set())
        with closing(open_live(CaptureSpec(spec, spec.sources[0].name, next_epoch(spec)))) as live:
            while not lost.is_set():
                live.run(_TAIL_SLICE_SECONDS, None)
    finally:
        lock.release()
