"""Times sampled rows from their COMMIT in the source to the query that first finds them in the warehouse."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError
from penstock.demo.workload import CommittedSample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.demo.warehouse_rows import QuerySql

POLL_SECONDS: Final = 0.075
_KEYS_PER_QUERY: Final = 200
_RECENT: Final = 50


@dataclass(frozen=True, slots=True)
class Latency:
    """Commit-to-queryable times in milliseconds: of all samples, and of the last few. None before the first."""

    samples: int = 0
    pending: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None
    recent_p50_ms: float | None = None


class LatencyWatcher:
    """Asks the warehouse for the samples that have not been seen yet, in one query a poll.

    A time runs from the return of COMMIT to the return of the query, so it
    includes the wait for the next poll and never flatters. A query that fails (the
    pipeline restarts, the table is not there yet) finds nothing; the next one will.
    """

    def __init__(
        self,
        query: QuerySql,
        schema: str,
        take_samples: Callable[[], Iterable[CommittedSample]],
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        """Prepare; nothing runs before `start`."""
        self._query = query
        self._schema = schema
        self._take_samples = take_samples
        self._poll_seconds = poll_seconds
        self._pending: deque[CommittedSample] = deque()
        self._times_ms: list[float] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-latency", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self, wait_seconds: float = 10.0) -> None:
        """End after the query that is under way. Safe to call twice, and before `start`."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(wait_seconds)

    def latency(self) -> Latency:
        """Return the times so far."""
        times = self._times_ms.copy()
        if not times:
            return Latency(pending=len(self._pending))
        return Latency(
            samples=len(times),
            pending=len(self._pending),
            recent_p50_ms=percentile(times[-_RECENT:], 50),
            p50_ms=percentile(times, 50),
            p99_ms=percentile(times, 99),
        )

    def _run(self) -> None:
        while not self._stopping.wait(self._poll_seconds):
            self._pending.extend(self._take_samples())
            if self._pending:
                self._look()

    def _look(self) -> None:
        wanted = [self._pending[i] for i in range(min(len(self._pending), _KEYS_PER_QUERY))]
        try:
            found = self._query(_find_sql(self._schema, wanted))
        except PenstockError:
            return
        now = time.monotonic()
        seen = set(zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True))
        left = deque[CommittedSample]()
        for waiting in self._pending:
            if (waiting.sample.table, waiting.sample.key) in seen:
                self._times_ms.append((now - waiting.committed_at) * 1_000)
            else:
                left.append(waiting)
        self._pending = left


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile of `values`, of which there is at least one."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(len(ranked) * percent / 100) - 1)]


def _find_sql(schema: str, wanted: Sequence[CommittedSample]) -> str:
    keys: dict[str, list[str]] = {}
    for waiting in wanted:
        keys.setdefault(waiting.sample.table, []).append(str(waiting.sample.key))
    return " UNION ALL ".join(
        f"SELECT '{table}' AS source_table, id FROM {schema}.{table} WHERE id IN ({', '.join(ids)})"  # noqa: S608 - our own names and numbers
        for table, ids in sorted(keys.items())
    )
