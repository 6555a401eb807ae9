"""A workload whose every change can be told from every other, so that one too many or too few is seen.

Table `accounts` has a key. The first change of a row gives it version 0, each
update the next number, and so does an insert of a row that was deleted; a delete
takes the row away as it last was. In Kafka the versions of a key must therefore
go 0, 1, 2, ... up to the one in the source, each once. Table `entries` has no
key, and each of its rows a number of its own. `last_versions` is the writers'
own: the last version of what was deleted.

A commit whose answer was lost has happened or has not: the writer asks the
source before it goes on.
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final, Self

import pymysql

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

    from penstock.demo.sources.database import SourceConnection

SCHEMA: Final = "bank"
CREATE_TABLES: Final = (
    "CREATE TABLE accounts (id INT PRIMARY KEY, version INT NOT NULL, note VARCHAR(100))",
    "CREATE TABLE entries (number INT NOT NULL, note VARCHAR(100))",
    "CREATE TABLE last_versions (id INT PRIMARY KEY, version INT NOT NULL)",
)

_WRITERS: Final = 3
_IDS_PER_WRITER: Final = 200
_CHANGES_MAX: Final = 4
_NOTE_BYTES_MAX: Final = 40
_RECONNECT_SECONDS: Final = 0.2
_PAUSED_POLL_SECONDS: Final = 0.01
_ENTRIES_SHARE: Final = 0.2
_DELETES_SHARE: Final = 0.2
_NEVER_THERE: Final = -1


class Workload:
    """Writers that run in threads while a `with` block lasts, some `pause_seconds` between their transactions."""

    def __init__(
        self,
        connect: Callable[[], SourceConnection],
        seed: str,
        pause_seconds: float = 0.02,
        refused: type[Exception] = pymysql.err.MySQLError,
    ) -> None:
        """Write by connections of `connect`, which have autocommit off. `seed` decides what is written.

        `refused` is what their driver raises.
        """
        self._writers = [
            _Writer(connect, (refused, OSError), random.Random(f"{seed} {n}"), n, pause_seconds)  # noqa: S311 - no secrets
            for n in range(_WRITERS)
        ]

    def __enter__(self) -> Self:
        """Begin."""
        for writer in self._writers:
            writer.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, each writer behind a whole transaction."""
        for writer in self._writers:
            writer.stopping.set()
        for writer in self._writers:
            writer.thread.join()

    @property
    def commits(self) -> int:
        """How many transactions were committed, as far as anybody was told."""
        return sum(writer.commits for writer in self._writers)

    def pause(self) -> None:
        """Return when nothing is being written. The source must answer by then."""
        for writer in self._writers:
            writer.wanted.clear()
        while any(writer.is_busy and writer.thread.is_alive() for writer in self._writers):
            time.sleep(_PAUSED_POLL_SECONDS)

    def resume(self) -> None:
        """Write again."""
        for writer in self._writers:
            writer.wanted.set()


class _Writer:
    """One connection at a time, and rows of its own."""

    def __init__(
        self,
        connect: Callable[[], SourceConnection],
        away: tuple[type[Exception], ...],
        numbers: random.Random,
        first: int,
        pause_seconds: float,
    ) -> None:
        self.commits = 0
        self.stopping = threading.Event()
        self.wanted = threading.Event()
        self.wanted.set()
        self.is_busy = True
        self.thread = threading.Thread(target=self._run, name=f"writer {first}", daemon=True)
        self._connect = connect
        self._away = away
        self._random = numbers
        self._pause_seconds = pause_seconds
        self._first = first
        self._ids = range(first, _WRITERS * _IDS_PER_WRITER, _WRITERS)
        self._entry = first
        self._versions: dict[int, int] = {}
        self._alive: set[int] = set()

    def _run(self) -> None:
        while not self.stopping.is_set():
            try:
                with closing(self._connect()) as connection:
                    self._learn(connection)
                    self._write(connection)
            except self._away:
                time.sleep(_RECONNECT_SECONDS)
        self.is_busy = False

    def _learn(self, connection: SourceConnection) -> None:
        """Ask the source what became of our rows."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT id, version FROM accounts")
            found = {id_: version for id_, version in cursor.fetchall() if id_ in self._ids}
            cursor.execute("SELECT id, version FROM last_versions")
            gone = {id_: version for id_, version in cursor.fetchall() if id_ in self._ids}
            cursor.execute(
                "SELECT COALESCE(MAX(number), 0) FROM entries WHERE number %% %s = %s", (_WRITERS, self._first)
            )
            self._entry = max(self._entry, int(cursor.fetchall()[0][0]))
        connection.commit()
        self._alive = set(found)
        self._versions = {**gone, **found}

    def _write(self, connection: SourceConnection) -> None:
        while not self.stopping.is_set():
            if not self.wanted.is_set():
                self.is_busy = False
                self.wanted.wait(_PAUSED_POLL_SECONDS)
                continue
            self.is_busy = True
            with connection.cursor() as cursor:
                for _ in range(self._random.randint(1, _CHANGES_MAX)):
                    self._change(cursor)
            connection.commit()
            self.commits += 1
            time.sleep(self._pause_seconds)

    def _change(self, cursor: Any) -> None:  # noqa: ANN401 - drivers have no common public type
        id_ = self._random.choice(self._ids)
        note = "é" * self._random.randint(0, _NOTE_BYTES_MAX)
        if self._random.random() < _ENTRIES_SHARE:
            self._entry += _WRITERS
            cursor.execute("INSERT INTO entries (number, note) VALUES (%s, %s)", (self._entry, note))
        elif id_ not in self._alive:
            version = self._versions.get(id_, _NEVER_THERE) + 1
            cursor.execute("INSERT INTO accounts (id, version, note) VALUES (%s, %s, %s)", (id_, version, note))
            self._alive.add(id_)
            self._versions[id_] = version
        elif self._random.random() < _DELETES_SHARE:
            cursor.execute("DELETE FROM last_versions WHERE id = %s", (id_,))
            cursor.execute("INSERT INTO last_versions VALUES (%s, %s)", (id_, self._versions[id_]))
            cursor.execute("DELETE FROM accounts WHERE id = %s", (id_,))
            self._alive.discard(id_)
        else:
            cursor.execute("UPDATE accounts SET version = version + 1, note = %s WHERE id = %s", (note, id_))
            self._versions[id_] += 1
