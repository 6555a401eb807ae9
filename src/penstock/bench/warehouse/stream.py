"""A steady stream of changes into one table, and how far a target is behind it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.adapters.mysql.connection import ask, connect
from penstock.bench.beside import Beside
from penstock.bench.capture.workload import login
from penstock.ports.queries import ReadLimits
from penstock.wiring.sink_kinds.table import sql_kind

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec
    from penstock.embedded.mariadb import MariadbServer

SCHEMA: Final = "bench_soak"
TABLE: Final = f"{SCHEMA}.events"
CREATE: Final = f"CREATE TABLE {TABLE} (id INT PRIMARY KEY, written_us BIGINT NOT NULL, note VARCHAR(40), score INT)"
PER_SECOND: Final = 100
_UPDATE_OF: Final = 3
_DELETE_OF: Final = 10
_MILLION: Final = 1_000_000
_BYTES_MAX: Final = 1 << 30


class Writer(Beside):
    """Commits a row a hundred times a second while a `with` block lasts, and updates and deletes older ones.

    Whoever holds `guard` keeps it from writing.
    """

    def __init__(self, server: MariadbServer) -> None:
        """Write nothing yet."""
        self.rows = 0
        self.guard = threading.Lock()
        self._connection = connect(login(server))
        super().__init__("writer")

    def _end(self) -> None:
        self._connection.close()

    def _run(self) -> None:
        begin = time.monotonic()
        while not self._stopping.is_set():
            wait = begin + self.rows / PER_SECOND - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            with self.guard:
                self._write(self.rows + 1)
            self.rows += 1

    def _write(self, id_: int) -> None:
        now = time.time_ns() // 1_000
        ask(self._connection, f"INSERT INTO {TABLE} (id, written_us, score) VALUES ({id_}, {now}, {id_ % 97})")  # noqa: S608 - names and numbers of ours
        if id_ % _UPDATE_OF == 0:
            ask(self._connection, f"UPDATE {TABLE} SET score = score + 1 WHERE id = {id_ // 2}")  # noqa: S608 - as above
        if id_ % _DELETE_OF == 0:
            ask(self._connection, f"DELETE FROM {TABLE} WHERE id = {id_ // 2 + 1}")  # noqa: S608 - as above


@dataclass(frozen=True, slots=True)
class Watch:
    """Asks one target of a pipeline."""

    spec: PipelineSpec
    sink: str

    def lag_seconds(self) -> float:
        """Seconds since the newest row that it shows was written; UnavailableError while it cannot be asked."""
        ((newest,),) = self.ask(f"SELECT MAX(written_us) AS newest FROM {TABLE}")  # noqa: S608 - our own name
        return time.time() - (newest if isinstance(newest, int) else 0) / _MILLION

    def ask(self, query: str) -> list[tuple[object, ...]]:
        """Run a query there."""
        limits = ReadLimits(rows_max=10 * _MILLION, bytes_max=_BYTES_MAX)
        found = sql_kind(self.spec, self.spec.sink(self.sink)).query(query, limits)
        return [tuple(row.values()) for row in found.rows.to_pylist()]
