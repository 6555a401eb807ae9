"""What a process and everything it has started have used, as the kernel counts it.

Source: proc(5), /proc/PID/stat and /proc/PID/status.
"""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# Of /proc/PID/stat, counted from behind the name, which may hold anything.
_PARENT, _STARTED = 1, 19
_OWN, _COLLECTED = slice(11, 13), slice(13, 15)
_KIBIBYTE = 1024

ProcessKey: TypeAlias = tuple[int, int]
"""A process id and when the process started: ids are used again."""


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """The most resident memory that a process ever had, in bytes, and the name of its program."""

    program: str
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Held:
    """What a process tree holds at a moment: memory (PSS: a shared page counts once, among its sharers), and more.

    `own_bytes` is that part of the memory which belongs to no file, so that it does not
    change with who else has the same files mapped.
    """

    pss_bytes: int
    own_bytes: int
    threads: int
    open_files: int


@dataclass(frozen=True, slots=True)
class _Times:
    """Clock ticks of a process: its own, and those of dead children that it has collected."""

    own: int
    collected: int
    parent: ProcessKey


class ProcessTree:
    """Adds up what a process and its descendants use, from look to look.

    The time of a dead child is counted from the last look at it and from what its
    parent has collected, whichever is more: a parent that ignores its children's
    end (SIGCHLD), as PySpark's daemon does, collects nothing. What starts and ends
    between two looks under such a parent is missed, and so is what a process
    starts after it has lost its parent.
    """

    def __init__(self, root: int) -> None:
        """Follow process `root`, from now on."""
        self._root = root
        self._seen: dict[ProcessKey, _Times] = {}
        self.memory: dict[ProcessKey, ProcessMemory] = {}

    def look(self) -> float:
        """Look at the tree; the CPU seconds (user and system) of all that was ever seen in it."""
        living = _read_tree(self._root)
        self._seen |= living
        for key in living:
            memory = _read_memory(key[0])
            if memory is not None:
                self.memory[key] = memory
        return self._ticks(living) / _TICKS_PER_SECOND

    def _ticks(self, living: Mapping[ProcessKey, _Times]) -> int:
        dead_children: dict[ProcessKey, int] = defaultdict(int)
        for key, times in self._seen.items():
            if key not in living:
                dead_children[times.parent] += times.own + times.collected
        own = sum(times.own for times in self._seen.values())
        return own + sum(max(0, times.collected - dead_children[key]) for key, times in self._seen.items())


def tree_held(root: int) -> Held:
    """What a process and its descendants hold; a process that ends meanwhile counts in part."""
    pids = [pid for pid, _ in _read_tree(root)]
    memory = [_read_rollup(pid) for pid in pids]
    return Held(
        sum(each.get("Pss", 0) for each in memory),
        sum(each.get("Pss_Anon", 0) for each in memory),
        sum(_count(pid, "task") for pid in pids),
        sum(_count(pid, "fd") for pid in pids),
    )


def _count(pid: int, folder: str) -> int:
    """Count what is in a folder of /proc/PID; 0 for a process that has ended."""
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/{folder}").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _read_rollup(pid: int) -> dict[str, int]:
    """Read /proc/PID/smaps_rollup, in bytes; nothing for a process that has ended."""
    try:
        _, *lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {name: int(value.split()[0]) * _KIBIBYTE for name, _, value in (line.partition(":") for line in lines)}


def _read_tree(root: int) -> dict[ProcessKey, _Times]:
    """Read the living part of the tree; nothing when the root is gone."""
    stats = dict(_read_stats())
    children: dict[int, list[int]] = defaultdict(list)
    for pid, fields in stats.items():
        children[int(fields[_PARENT])].append(pid)
    found: dict[ProcessKey, _Times] = {}
    waiting = [root] if root in stats else []
    while waiting:
        pid = waiting.pop()
        waiting += children[pid]
        fields = stats[pid]
        own, collected = sum(map(int, fields[_OWN])), sum(map(int, fields[_COLLECTED]))
        parent = int(fields[_PARENT])
        parent_key = (parent, int(stats[parent][_STARTED])) if parent in stats else (parent, 0)
        found[pid, int(fields[_STARTED])] = _Times(own, collected, parent_key)
    return found


def _read_stats() -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of /proc/PID/stat, from behind the name, of every process there is."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            # A process may end between two looks.
            with suppress(FileNotFoundError, ProcessLookupError):
                stat = Path(entry.path, "stat").read_text(errors="replace")
                yield int(entry.name), stat.rpartition(")")[2].split()


def _read_memory(pid: int) -> ProcessMemory | None:
    """Read VmHWM; None for a process that has ended and waits to be collected."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    if "VmHWM" not in fields:
        return None
    return ProcessMemory(fields["Name"].strip(), int(fields["VmHWM"].split()[0]) * _KIBIBYTE)
