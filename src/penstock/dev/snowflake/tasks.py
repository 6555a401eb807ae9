"""Tasks: what they are, when they run, and what became of their runs.

Source: Snowflake user guide, "Introduction to tasks", and SQL reference, "TASK_HISTORY".
"""

from __future__ import annotations

import datetime as dt
import json
import threading
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.dev.snowflake.statements import CreateTask, RefusedError
from penstock.dev.snowflake.streams import Name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_RUNS_KEPT: Final = 10_000


@dataclass(slots=True)
class Task:
    """A task; a new one is suspended."""

    name: Name
    made: CreateTask
    state: str = "suspended"
    created_on: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))
    due: float = 0.0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a task: SUCCEEDED, FAILED, or SKIPPED because its WHEN was false."""

    name: Name
    state: str
    error: str
    began: dt.datetime
    ended: dt.datetime
    by_schedule: bool


class Tasks:
    """All tasks of the server; the next start finds them, but not their runs."""

    def __init__(self, file: Path, holds: Callable[[Task], bool], execute: Callable[[Task], None]) -> None:
        """Keep them in `file`.

        `holds` says whether a task's WHEN is true; `execute` does what the task is to do, in its own transaction.
        """
        self._file = file
        self._holds = holds
        self._execute = execute
        self._tasks: dict[Name, Task] = {}
        self._runs: list[Run] = []
        self._lock = threading.RLock()
        for name, made, state in json.loads(file.read_text()) if file.exists() else ():
            self._tasks[Name(*name)] = Task(Name(*name), CreateTask(**made), state)

    def create(self, name: Name, made: CreateTask) -> str:
        """Make a task; return what Snowflake says then."""
        with self._lock:
            if name in self._tasks and made.if_not_exists:
                return f"{name.name} already exists, statement succeeded."
            if name in self._tasks and not made.replace:
                message = f"Object '{name.name}' already exists."
                raise RefusedError(message)
            self._tasks[name] = Task(name, made)
            self._keep()
            return f"Task {name.name} successfully created."

    def alter(self, name: Name, state: str, now: float) -> None:
        """Resume or suspend a task; one that is resumed is due an interval later."""
        with self._lock:
            task = self.find(name)
            if state == "started" and task.state != state:
                task.due, task.failures = now + task.made.seconds, 0
            task.state = state
            self._keep()

    def drop(self, name: Name) -> bool:
        """Drop a task; return whether there was one."""
        with self._lock:
            there = self._tasks.pop(name, None) is not None
            self._keep()
            return there

    def find(self, name: Name) -> Task:
        """Return a task; RefusedError where there is none."""
        if name not in self._tasks:
            message = f"Task '{name.name}' does not exist or not authorized."
            raise RefusedError(message)
        return self._tasks[name]

    def all(self) -> list[Task]:
        """Every task."""
        with self._lock:
            return list(self._tasks.values())

    def runs(self) -> list[Run]:
        """The runs, newest first."""
        with self._lock:
            return self._runs[::-1]

    def run_due(self, now: float) -> None:
        """Run what is due, one after the other; no run of a task begins before its last one has ended."""
        for task in self.all():
            if task.state == "started" and task.due <= now:
                task.due = now + task.made.seconds
                self.run(task, by_schedule=True)

    def run(self, task: Task, *, by_schedule: bool) -> None:
        """Run a task once, if its WHEN is true. One that failed too often in a row is suspended."""
        began = dt.datetime.now(dt.UTC)
        state, error = "SUCCEEDED", ""
        try:
            if not self._holds(task):
                state = "SKIPPED"
            else:
                self._execute(task)
        except Exception as failure:  # noqa: BLE001 - it is told
            state, error = "FAILED", str(failure)
        with self._lock:
            task.failures = task.failures + 1 if state == "FAILED" else 0 if state == "SUCCEEDED" else task.failures
            if task.made.failures_max and task.failures >= task.made.failures_max:
                task.state = "suspended"
                self._keep()
            if state == "SKIPPED" and not task.made.schedule:
                return
            self._runs.append(Run(task.name, state, error, began, dt.datetime.now(dt.UTC), by_schedule))
            del self._runs[:-_RUNS_KEPT]

    def _keep(self) -> None:
        kept = [[(t.name.database, t.name.schema, t.name.name), asdict(t.made), t.state] for t in self._tasks.values()]
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(kept))
        new.replace(self._file)
