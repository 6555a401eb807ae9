"""Work in a process of its own that may be killed in it, forked from one that has everything imported."""

from __future__ import annotations

import multiprocessing
import os
from typing import TYPE_CHECKING

import penstock.faults.round  # noqa: F401 - it names what it works with: before us
from penstock.config.crash_points import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.process import BaseProcess

FORKS = multiprocessing.get_context("forkserver")
# One process forks for all that ask, and the last list counts: whoever has one names what any of them works with.
FORKS.set_forkserver_preload(
    [
        "pandas",
        "penstock.adapters.duckdb.warehouse",
        "penstock.adapters.registry.client",
        "penstock.adapters.state.store",
        "penstock.cli.schematizer_serve",
        "penstock.faults.round",
        "penstock.links.warehouse.sink",
        "penstock.wiring.backlog",
        "penstock.wiring.mysql_capture",
        "tests.servers.capture_case",
        "tests.servers.chain",
        "tests.servers.commands",
        "tests.servers.publishing_program",
        "tests.servers.slice_tasks",
    ]
)
_END_SECONDS = 120.0


def start_forked(work: Callable[..., object], *arguments: object, crash_at: str = "") -> BaseProcess:
    """Begin `work`, a function of a module; it ends as kill -9 would have it end at `crash_at`, if it comes by."""
    process = FORKS.Process(target=_run, args=(work, arguments, crash_at))
    process.start()
    return process


def run_forked(work: Callable[..., object], *arguments: object, crash_at: str = "") -> int:
    """Do it, and return the exit code, as Popen has it: -9 of who was killed."""
    return ended(start_forked(work, *arguments, crash_at=crash_at))


def ended(process: BaseProcess, seconds: float = _END_SECONDS) -> int:
    """Wait for the end of a process; its exit code."""
    process.join(seconds)
    assert process.exitcode is not None, "it did not end"
    return process.exitcode


def _run(work: Callable[..., object], arguments: tuple[object, ...], crash_at: str) -> None:
    os.environ[VARIABLE] = crash_at
    work(*arguments)
