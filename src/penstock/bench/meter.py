"""Follows a process tree while it works, so that any stretch of its life can be asked for afterwards."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from typing import TYPE_CHECKING

from penstock.bench.beside import Beside
from penstock.bench.process_tree import ProcessTree
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from penstock.bench.process_tree import ProcessMemory

_SAMPLE_SECONDS = 0.1


class Meter(Beside):
    """Samples the CPU time and the memory of the tree of one process, ten times a second, inside a `with` block."""

    def __init__(self, root: int) -> None:
        """Follow process `root` and what it starts."""
        self._tree = ProcessTree(root)
        self._times: list[float] = []
        self._cpu: list[float] = []
        self._looking = threading.Lock()
        super().__init__("meter")

    def _begin(self) -> None:
        self.sample()

    def _end(self) -> None:
        self.sample()

    def sample(self) -> None:
        """Look at the tree now."""
        with self._looking:
            self._cpu.append(self._tree.look())
            self._times.append(time.monotonic())

    def cpu_between(self, begin: float, end: float) -> float:
        """CPU seconds from one moment of the monotonic clock to another, straight lines between samples.

        Raises PenstockError for a stretch that was not sampled.
        """
        if not self._times or begin < self._times[0] or begin > end:
            message = f"the meter was not there from {begin:.3f} to {end:.3f}"
            raise PenstockError(message, "this is a mistake in the bench: report it")
        return self._at(end) - self._at(begin)

    def peaks(self) -> list[ProcessMemory]:
        """The most memory that each process of the tree ever had, largest first."""
        return sorted(self._tree.memory.values(), key=lambda memory: -memory.peak_bytes)

    def _run(self) -> None:
        while not self._stopping.wait(_SAMPLE_SECONDS):
            self.sample()

    def _at(self, moment: float) -> float:
        index = bisect_left(self._times, moment)
        if index == 0:
            return self._cpu[0]
        if index == len(self._times):
            return self._cpu[-1]
        before, after = self._times[index - 1], self._times[index]
        share = (moment - before) / (after - before)
        return self._cpu[index - 1] + share * (self._cpu[index] - self._cpu[index - 1])
