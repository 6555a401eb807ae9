"""A pipeline from PostgreSQL into a landing zone on the stand-in, and who writes and looks while it runs."""

from __future__ import annotations

import sys
import time
from bisect import bisect_left
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.adapters.snowflake.account import SnowflakeAccount
from penstock.adapters.snowflake.connection import SnowflakeDatabase
from penstock.bench.beside import Beside
from penstock.bench.warehouse.compare import connect_postgres, create_database
from penstock.core.errors import PenstockError, RefusedStatementError, UnavailableError
from penstock.core.warehouse.dialect import quote_name
from penstock.core.warehouse.dialects import SNOWFLAKE
from penstock.embedded.processes import start_child

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from penstock.bench.lab import Lab
    from penstock.embedded.processes import Child

SCHEDULE_SECONDS: Final = 10
"""The shortest that a task's schedule may be (CREATE TASK)."""
_SOURCE_PASSWORD_ENV: Final = "BENCH_PASSWORD"  # noqa: S105 - the variable's name
_SINK_PASSWORD_ENV: Final = "BENCH_SNOWFLAKE_PASSWORD"  # noqa: S105 - as above
_POLL_SECONDS: Final = 0.25
_FIRST_POLL_SECONDS: Final = 3.0
_ROWS_TOGETHER: Final = 5
_TABLES_A_VIEW: Final = 50
_FILE: Final = """\
pipeline: {name}
home: ./home
kafka: {{bootstrap_servers: "{kafka}"}}
schematizer: {{url: "{schematizer}"}}
sources:
  - {{name: src, kind: postgres, host: {source.host}, port: {source.port}, database: {name}, user: {source.user},
      password_env: {source_env}, tables: ["public.*"]}}
sinks:
  - {{name: sf, kind: snowflake, account: {sink.account}, user: {sink.user}, password_env: {sink_env},
      database: {database}, warehouse: WH, schedule: {seconds} SECONDS,
      host: {sink.host}, port: {sink.port}, protocol: http}}
links:
  - {{from: src, to: sf}}
"""


@dataclass(frozen=True, slots=True)
class BenchZone:
    """A pipeline called `name` from the tables `t0`, `t1`, ... of a database of that name."""

    lab: Lab
    name: str
    folder: Path
    tables: int

    def make(self) -> None:
        """Make the tables, with a row each, and the pipeline's file."""
        create_database(self.lab.postgres(), self.name)
        with closing(connect_postgres(self.lab.postgres(), self.name)) as connection:
            for number in range(self.tables):
                connection.execute(f"CREATE TABLE t{number} (id BIGINT PRIMARY KEY, note TEXT)".encode())
                connection.execute(f"INSERT INTO t{number} VALUES (0, 'first')".encode())  # noqa: S608 - names of ours
        text = _FILE.format(
            name=self.name,
            kafka=self.lab.kafka().bootstrap_servers,
            schematizer=self.lab.schematizer().url,
            source=self.lab.postgres(),
            sink=self.lab.snowflake(),
            database=self._database,
            source_env=_SOURCE_PASSWORD_ENV,
            sink_env=_SINK_PASSWORD_ENV,
            seconds=SCHEDULE_SECONDS,
        )
        (self.folder / "pipeline.yaml").write_text(text)

    def start(self) -> Child:
        """Run the pipeline."""
        secrets = {
            _SOURCE_PASSWORD_ENV: self.lab.postgres().password,
            _SINK_PASSWORD_ENV: self.lab.snowflake().password,
        }
        command = [sys.executable, "-m", "penstock.cli.main", "run", str(self.folder / "pipeline.yaml")]
        return start_child("penstock run", command, self.folder / "run.log", secrets)

    def open(self) -> SnowflakeDatabase:
        """Connect to the sink."""
        server = self.lab.snowflake()
        where = (server.account, server.host, server.port, "http", server.user, self._database, "WH")
        return SnowflakeDatabase(SnowflakeAccount(*where, password=server.password))

    def require_equal(self) -> None:
        """Raise PenstockError unless every public table has the rows of its source."""
        with closing(connect_postgres(self.lab.postgres(), self.name)) as source, closing(self.open()) as sink:
            for number in range(self.tables):
                query = "SELECT COUNT(*), SUM({}) FROM {}.{}"
                here = source.execute(query.format("id", "public", f"t{number}").encode()).fetchone() or ()
                there = sink.fetch(query.format('"id"', '"public"', f'"t{number}"'))[0]
                if [int(value) for value in here] != [int(value) for value in there]:
                    message = f"table t{number} has {there[0]} rows, and its source {here[0]}"
                    raise PenstockError(message, "this is a mistake in the bench or in the pipeline: report it")

    @property
    def _database(self) -> str:
        return f"DB_{self.name.upper()}"


class Writer:
    """Inserts rows at a steady rate, five tables a transaction, and notes when each row's COMMIT returned."""

    def __init__(self, zone: BenchZone, tables: Sequence[int]) -> None:
        """Write to these tables, in turns."""
        self._zone = zone
        self._tables = tables
        self._next = 1
        self.committed: dict[tuple[int, int], float] = {}

    def write(self, rows: int, rate: float) -> float:
        """Write so many rows; return the rate that was reached."""
        begin = time.monotonic()
        with closing(connect_postgres(self._zone.lab.postgres(), self._zone.name)) as connection:
            for done in range(0, rows, _ROWS_TOGETHER):
                wait = begin + done / rate - time.monotonic()
                if wait > 0:
                    time.sleep(wait)
                some = [(self._tables[(done + n) % len(self._tables)], self._next + n) for n in range(_ROWS_TOGETHER)]
                self._next += _ROWS_TOGETHER
                inserts = [f"INSERT INTO t{table} VALUES ({id_}, 'row {id_}')" for table, id_ in some]  # noqa: S608 - ours
                connection.execute("; ".join(inserts).encode())
                at = time.monotonic()
                self.committed.update(dict.fromkeys(some, at))
        return rows / (time.monotonic() - begin)


class Looks:
    """The newest id of each table at some moments, in order."""

    def __init__(self) -> None:
        """None yet."""
        self._seen: list[tuple[float, Mapping[int, int]]] = []

    @property
    def last_at(self) -> float:
        """When the newest look was."""
        return self._seen[-1][0]

    def add(self, at: float, ids: Mapping[int, int]) -> None:
        """Note what was seen."""
        self._seen.append((at, ids))

    def behind(self, newest: Mapping[int, int]) -> int:
        """How many tables have not got their id."""
        seen = self._seen[-1][1] if self._seen else {}
        return sum(seen.get(table, -1) < id_ for table, id_ in newest.items())

    def waits(self, committed: Mapping[tuple[int, int], float]) -> list[float]:
        """Seconds from COMMIT until each row was first seen, sorted."""
        return sorted(self._seen_at(table, id_) - at for (table, id_), at in committed.items())

    def _seen_at(self, table: int, id_: int) -> float:
        first = bisect_left(self._seen, id_, key=lambda look: look[1].get(table, -1))
        return self._seen[first][0]

    def over_time(
        self, committed: Mapping[tuple[int, int], float], begin: float, points: int
    ) -> tuple[tuple[float, float], ...]:
        """How long rows waited: (seconds since `begin`, the longest wait of those committed then)."""
        if not committed:
            return ()
        width = (max(committed.values()) - begin) / points or 1.0
        longest: dict[int, float] = {}
        for row, at in committed.items():
            wait = self._seen_at(*row) - at
            place = int((at - begin) / width)
            longest[place] = max(longest.get(place, 0.0), wait)
        return tuple((place * width, wait) for place, wait in sorted(longest.items()))


class Looker(Beside):
    """Asks four times a second for the newest id of each public table, while a `with` block lasts.

    It asks a view: the stand-in would take longer to read a query of fifty tables than to answer it.
    """

    def __init__(self, zone: BenchZone, tables: Sequence[int]) -> None:
        """Ask nothing yet. Ids of a table only grow, and are merged in order."""
        self._database = zone.open()
        self._tables = tables
        self._view = quote_name(SNOWFLAKE, "public", f"newest of {len(tables)}")
        self.looks = Looks()
        super().__init__("looker")

    def _end(self) -> None:
        self._database.close()

    def await_rows(self, newest: Mapping[int, int], seconds: float, alive: Callable[[], bool]) -> float:
        """Wait until each table has its id; when that was. Raises UnavailableError when time is up."""
        deadline = time.monotonic() + seconds
        while behind := self.looks.behind(newest):
            if time.monotonic() > deadline or not alive():
                message = f"{behind} of {len(newest)} tables did not get their newest row within {seconds:.0f} s"
                raise UnavailableError(message, "read the pipeline's log, or measure for fewer seconds")
            time.sleep(_POLL_SECONDS)
        return self.looks.last_at

    def _run(self) -> None:
        pause, is_made = _FIRST_POLL_SECONDS, False
        while not self._stopping.wait(pause):
            with suppress(RefusedStatementError):  # A table is not there yet, or is being made anew.
                if not is_made and not self._make_view():
                    continue
                pause, is_made = _POLL_SECONDS, True
                rows = self._database.fetch(f"SELECT n, m FROM {self._view}")  # noqa: S608 - ours
                self.looks.add(time.monotonic(), {int(n): int(m) for n, m in rows})

    def _make_view(self) -> bool:
        """Make the view, if there are enough tables for it."""
        count = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'public' AND table_name LIKE 't%'"
        ((there,),) = self._database.fetch(count)
        if int(there) < len(self._tables):
            return False
        newest = [
            f'SELECT {number} AS n, COALESCE(MAX("id"), -1) AS m FROM {quote_name(SNOWFLAKE, "public", f"t{number}")}'  # noqa: S608 - ours
            for number in self._tables
        ]
        parts = []
        for first in range(0, len(newest), _TABLES_A_VIEW):
            part = quote_name(SNOWFLAKE, "public", f"newest of {len(newest)} from {first}")
            self._define(part, newest[first : first + _TABLES_A_VIEW])
            parts.append(f"SELECT n, m FROM {part}")  # noqa: S608 - ours
        self._define(self._view, parts)
        return True

    def _define(self, view: str, queries: Sequence[str]) -> None:
        self._database.run(f"CREATE OR REPLACE VIEW {view} AS {' UNION ALL '.join(queries)}")
