"""Tasks: what they are, when they run, and what became of their runs.

Source: Snowflake user guide, "Introduction to tasks" and "Create a sequence of tasks
with a task graph"; SQL reference, "CREATE TASK", "TASK_HISTORY".
"""

from __future__ import annotations

import datetime as dt
import json
import threading
from dataclasses import asdict, astuple, dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.dev.snowflake import task_graphs as graphs
from penstock.dev.snowflake.refusals import RefusedError
from penstock.dev.snowflake.statements import CreateTask
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
    after: tuple[Name, ...] = ()
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
        self._lines: dict[Name, tuple[object, str]] = {}
        self._lock = threading.RLock()
        for name, made, after, state in json.loads(file.read_text()) if file.exists() else ():
            behind = tuple(Name(*each) for each in after)
            self._tasks[Name(*name)] = Task(Name(*name), CreateTask(**made), behind, state)

    def create(self, name: Name, made: CreateTask, after: tuple[Name, ...]) -> str:
        """Make a task; return what Snowflake says then."""
        with self._lock:
            if name in self._tasks and made.if_not_exists:
                return f"{name.name} already exists, statement succeeded."
            if name in self._tasks and not made.replace:
                message = f"Object '{name.name}' already exists."
                raise RefusedError(message)
            graphs.require_predecessors(self._tasks, name, after)
            for each in after:
                graphs.require_suspended(self._tasks, each)
            if name in self._tasks and not graphs.is_alone(self._tasks, name):
                graphs.require_suspended(self._tasks, name)
            graphs.sever(self._tasks, name)
            self._tasks[name] = Task(name, made, after)
            self._keep()
            return f"Task {name.name} successfully created."

    def alter(self, name: Name, state: str, now: float) -> None:
        """Resume or suspend a task; one that is resumed is due an interval later."""
        with self._lock:
            task = self.find(name)
            if task.after:
                graphs.require_suspended(self._tasks, name)
            elif state == "started" and not (task.made.schedule or task.made.when):
                message = f"Task '{name.name}' has neither a schedule nor a predecessor."
                raise RefusedError(message)
            if state == "started" and task.state != state:
                task.due, task.failures = now + task.made.seconds, 0
            task.state = state
            self._keep()

    def enable(self, name: Name, now: float) -> None:
        """Resume a task, and all that come after it."""
        with self._lock:
            self.find(name)
            for each in (*reversed(graphs.followers(self._tasks, name)), name):
                self.alter(each, "started", now)

    def drop(self, name: Name) -> bool:
        """Drop a task; return whether there was one. Those after it come after it no more."""
        with self._lock:
            if name in self._tasks:
                if not graphs.is_alone(self._tasks, name):
                    graphs.require_suspended(self._tasks, name)
                graphs.sever(self._tasks, name)
            there = self._tasks.pop(name, None) is not None
            self._keep()
            return there

    def find_root(self, name: Name) -> Task:
        """Return a task that EXECUTE TASK takes; RefusedError for one with predecessors."""
        task = self.find(name)
        if task.after:
            message = f"Task '{name.name}' has predecessors: EXECUTE TASK runs the root of a graph."
            raise RefusedError(message)
        return task

    def has(self, name: Name) -> bool:
        """Whether there is such a task."""
        return name in self._tasks

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
            if not task.after and task.state == "started" and task.due <= now:
                task.due = now + task.made.seconds
                self.run(task, by_schedule=True)

    def run(self, task: Task, *, by_schedule: bool) -> None:
        """Run a root once, if its WHEN is true, and what comes after it.

        A task runs when all of its predecessors that are resumed have succeeded. A root
        whose graph failed too often in a row is suspended.
        """
        states = {task.name: self._run(task, by_schedule=by_schedule)}
        for name in graphs.followers(self._tasks, task.name):
            child = self._tasks[name]
            counting = [each for each in child.after if each in states or self._tasks[each].state == "started"]
            if child.state == "started" and {states.get(each, "") for each in counting} == {"SUCCEEDED"}:
                states[name] = self._run(child, by_schedule=by_schedule)
        with self._lock:
            if "FAILED" in states.values():
                task.failures += 1
            elif states[task.name] == "SUCCEEDED":
                task.failures = 0
            if task.made.failures_max and task.failures >= task.made.failures_max:
                task.state = "suspended"
                self._keep()

    def _run(self, task: Task, *, by_schedule: bool) -> str:
        """Run a task, if its WHEN is true; return how that ended."""
        began = dt.datetime.now(dt.UTC)
        state, error = "SUCCEEDED", ""
        try:
            if not self._holds(task):
                state = "SKIPPED"
            else:
                self._execute(task)
        except Exception as failure:  # noqa: BLE001 - it is told
            state, error = "FAILED", str(failure)
        if state != "SKIPPED" or task.made.schedule or task.after:
            with self._lock:
                self._runs.append(Run(task.name, state, error, began, dt.datetime.now(dt.UTC), by_schedule))
                del self._runs[:-_RUNS_KEPT]
        return state

    def _keep(self) -> None:
        """Write all of them down; what is not another one than before is not rendered again."""
        lines: dict[Name, tuple[object, str]] = {}
        for name, task in self._tasks.items():
            is_now = (task.made, task.after, task.state)
            was, line = self._lines.get(name, (None, ""))
            if was != is_now:
                line = json.dumps(
                    [astuple(name), asdict(task.made), [astuple(each) for each in task.after], task.state]
                )
            lines[name] = (is_now, line)
        self._lines = lines
        new = self._file.with_suffix(".new")
        new.write_text(f"[{','.join(line for _, line in lines.values())}]")
        new.replace(self._file)
