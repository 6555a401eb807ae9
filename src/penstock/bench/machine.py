"""The machine that a bench runs on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

_GIBIBYTE = 1 << 30


def describe_machine() -> dict[str, str | float]:
    """Processor, cores, memory, system, and how busy the machine was with other work just before."""
    return {
        "processor": _field(Path("/proc/cpuinfo"), "model name") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / _GIBIBYTE, 1),
        "system": f"{platform.system()} {platform.release()}",
        "load_before": round(os.getloadavg()[0], 2),
    }


def _field(file: Path, name: str) -> str:
    """The first value called `name` in one of the kernel's `name : value` files, "" if it has none."""
    for line in file.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""
