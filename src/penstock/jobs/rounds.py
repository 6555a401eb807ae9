"""Rounds of a link in this process: planned, done and taken by the thread that calls, without Spark."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.jobs.link import PlannedWork, Task


def do_tasks(work: PlannedWork, tasks: Sequence[Task]) -> None:
    """Do what was planned as one round, and let the driver side take what came of it."""
    if work.reads == "topics" or len(tasks) == 1:
        work.take(outcome for task in tasks for outcome in task.run())
    else:
        work.take(_run_at_once(tasks))


def _run_at_once(tasks: Sequence[Task]) -> Iterable[object]:
    with ThreadPoolExecutor(len(tasks)) as threads:
        return [outcome for outcomes in threads.map(lambda task: list(task.run()), tasks) for outcome in outcomes]
