"""The stand-in's process: fakesnow's server, whose cursors do streams and tasks too.

It runs in fakesnow's own environment: `python -m penstock.dev.snowflake.server HOME PORT`.
"""

from __future__ import annotations

import re
import sys
import threading
import time
import traceback
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import fakesnow.server
import uvicorn
from fakesnow.cursor import FakeSnowflakeCursor
from fakesnow.dialect import parse_one
from fakesnow.instance import FakeSnow
from sqlglot import exp

from penstock.dev.snowflake.grants import Grants
from penstock.dev.snowflake.session import Session
from penstock.dev.snowflake.statements import only_stream, replace_has_data
from penstock.dev.snowflake.streams import parse_name
from penstock.dev.snowflake.task_bodies import parse_body
from penstock.dev.snowflake.tasks import Tasks
from penstock.dev.snowflake.translations import copy_no_trees, describe_by_results
from penstock.embedded.ports import LOOPBACK

if TYPE_CHECKING:
    from penstock.dev.snowflake.tasks import Task

_TICK_SECONDS = 0.2
_RESULTS_KEPT = 200
_CREATE_TASK = re.compile(r"\s*CREATE\s+(OR\s+REPLACE\s+)?TASK\b", re.IGNORECASE)


class _Recent(dict[str, tuple[Any, ...]]):
    """The newest results, which a client may ask for again."""

    def __setitem__(self, key: str, value: tuple[Any, ...]) -> None:
        if len(self) >= _RESULTS_KEPT:
            self.clear()
        super().__setitem__(key, value)


class _Connections(threading.local):
    """A thread's sessions, by database and schema."""

    def __init__(self) -> None:
        self.of: dict[tuple[str, str], Any] = {}


class StandIn:
    """fakesnow, on files under a home, with tasks that run."""

    def __init__(self, home: Path) -> None:
        """Begin with what an earlier start left."""
        self._snow = FakeSnow(db_path=home)
        self._snow.results_cache = _Recent()
        self._grants = Grants()
        self.tasks = Tasks(home / "tasks.json", self._holds, self._run)
        self._sessions: WeakKeyDictionary[Any, Session] = WeakKeyDictionary()
        self._connections = _Connections()
        self._execute = FakeSnowflakeCursor.execute

    def install(self) -> None:
        """Take the place of fakesnow's own cursors and databases."""
        fakesnow.server.shared_fs = self._snow
        fakesnow.server.parse_one = _parse_one
        copy_no_trees()
        describe_by_results()

        def execute(cursor: Any, command: str, *rest: Any, **more: Any) -> Any:  # noqa: ANN401 - as fakesnow has it
            return self._session(cursor._conn).execute(cursor, command, *rest, **more)  # noqa: SLF001

        FakeSnowflakeCursor.execute = execute
        threading.Thread(target=self._tick, name="tasks", daemon=True).start()

    def _session(self, connection: Any) -> Session:  # noqa: ANN401
        session = self._sessions.get(connection)
        if session is None:
            session = self._sessions[connection] = Session(
                connection, self.tasks, self._grants, self._execute, lambda: list(self._sessions.values())
            )
        return session

    def _tick(self) -> None:
        while True:
            time.sleep(_TICK_SECONDS)
            try:
                self.tasks.run_due(time.monotonic())
            except Exception:  # noqa: BLE001 - the next tick may do better
                traceback.print_exc()

    def _holds(self, task: Task) -> bool:
        if not task.made.when:
            return True
        if stream := only_stream(task.made.when):
            # The usual one, and one that Snowflake takes nearly nothing for: without fakesnow's translation.
            duck = self._connect(task)._duck_conn  # noqa: SLF001 - fakesnow has no other way
            name = parse_name(stream, task.name.database, task.name.schema)
            return bool(duck.execute(f"SELECT EXISTS (FROM {name})").fetchone()[0])
        cursor = self._connect(task).cursor()
        cursor.execute(f"SELECT {replace_has_data(task.made.when)}")
        return bool(cursor.fetchone()[0])

    def _run(self, task: Task) -> None:
        # What a task does to its session ends with its run.
        cursor = self._snow.connect(task.name.database, task.name.schema).cursor()
        try:
            for statement in parse_body(task.made.definition):
                cursor.execute(statement)
        except Exception:
            # What a block began ends with it, whether or not it has a handler that says so.
            cursor.execute("ROLLBACK")
            raise

    def _connect(self, task: Task) -> Any:  # noqa: ANN401
        """Return this thread's session that asks what the tasks of a schema wait for."""
        place = (task.name.database, task.name.schema)
        if place not in self._connections.of:
            self._connections.of[place] = self._snow.connect(*place)
        return self._connections.of[place]


@lru_cache(maxsize=4_000)
def _parse_one(command: str) -> Any:  # noqa: ANN401 - an expression of sqlglot's
    """Read a statement that a client sends, to answer as its kind is answered. A task's block is read by us alone."""
    if _CREATE_TASK.match(command):
        return exp.Command(this="CREATE", expression=exp.Literal.string("TASK"))
    return parse_one(command)


def main(home: Path, port: int) -> None:
    """Serve until the process is ended."""
    StandIn(home).install()
    uvicorn.run(fakesnow.server.app, host=LOOPBACK, port=port, log_level="warning")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
