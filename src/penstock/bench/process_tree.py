"""What a process and everything it has started have used, as the kernel counts it.

Source: proc(5), /proc/PID/stat and /proc/PID/status.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# Of /proc/PID/stat, counted from behind the name, which may hold anything.
_PARENT = 1
_TIMES = slice(11, 15)
_KIBIBYTE = 1024


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """The most resident memory that a process ever had, in bytes, and the name of its program."""

    program: str
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class TreeUsage:
    """CPU seconds (user and system) of a process and its descendants, living and dead, and the living ones' memory.

    The time of a dead process is that of the parent which collected it. One that
    outlived its parent belongs to no tree any more.
    """

    cpu_seconds: float
    memory: Mapping[int, ProcessMemory]


def read_tree(root: int) -> TreeUsage:
    """Read the tree of process `root`; no time and no processes when it is gone."""
    parents, ticks = _read_processes()
    tree = set(_descendants(root, parents)) if root in parents else set()
    memory = {pid: found for pid in sorted(tree) if (found := _read_memory(pid)) is not None}
    return TreeUsage(sum(ticks[pid] for pid in tree) / _TICKS_PER_SECOND, memory)


def _read_processes() -> tuple[dict[int, int], dict[int, int]]:
    """Return each process's parent, and its clock ticks with those of the children it has collected."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        # A process may end between two looks.
        with suppress(FileNotFoundError, ProcessLookupError):
            stat = Path(entry.path, "stat").read_text(errors="replace")
            fields = stat.rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[_PARENT])
            ticks[int(entry.name)] = sum(map(int, fields[_TIMES]))
    return parents, ticks


def _descendants(root: int, parents: Mapping[int, int]) -> Iterator[int]:
    """Yield `root` and everything below it."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += children.get(pid, [])


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
