"""Runs the live workload against the source, at a steady rate, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError, UnavailableError
from penstock.demo.actions import Sample, Transaction
from penstock.demo.sources.pick import database_of
from penstock.demo.steps import SchemaChange, Step, plan_steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.demo.marketplace import Sizes
    from penstock.demo.sources.database import SourceConnection, SourceServer

RATE: Final = 1_200
_CATCH_UP_SECONDS: Final = 2.0
_AWAY_SECONDS_MAX: Final = 120.0
_RETRY_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class CommittedSample:
    """A sampled row and when its COMMIT returned, on the `time.monotonic` clock in seconds."""

    sample: Sample
    committed_at: float


@dataclass(frozen=True, slots=True)
class WorkloadProgress:
    """What the workload has done so far.

    `changes` are the rows that the source says it changed, by table; `newest` is
    when each table's last change was committed, in Unix seconds.
    `schema_changes` are the titles of those that are through.
    """

    doing: str = "nothing yet"
    schema_changes: tuple[str, ...] = ()
    changes: Mapping[str, int] = field(default_factory=dict)
    newest: Mapping[str, float] = field(default_factory=dict)
    transactions: int = 0
    unknown_transactions: int = 0
    seconds: float = 0.0
    share_done: float = 0.0
    ended: bool = False
    error: str = ""

    @property
    def changes_total(self) -> int:
        """Row changes of all tables."""
        return sum(self.changes.values())

    @property
    def rate(self) -> float:
        """Row changes per second since the start, pauses included."""
        return self.changes_total / self.seconds if self.seconds else 0.0


class Workload:
    """Row changes at about `rate` a second until `seconds * rate` of them are done.

    A lost connection is opened again, for up to two minutes. A transaction that
    was lost before its COMMIT was sent is run again; one whose COMMIT got no
    answer may be in or not, and is left at that: the comparison asks the source.
    """

    def __init__(self, server: SourceServer, sizes: Sizes, seconds: float, seed: int, rate: int = RATE) -> None:
        """Prepare; nothing runs before `start`."""
        self._database = database_of(server)
        self._changes_planned = max(1, round(seconds * rate))
        self._rate = rate
        self._steps = plan_steps(sizes, self._changes_planned, seed, self._database.words)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-workload", daemon=True)
        self._away: tuple[type[Exception], ...] = (UnavailableError, *self._database.lost)
        self._connection: SourceConnection | None = None
        self._progress = WorkloadProgress()
        self._samples: deque[CommittedSample] = deque()

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self, wait_seconds: float = 10.0) -> None:
        """End after the transaction that is under way. Safe to call twice, and before `start`."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(wait_seconds)

    def progress(self) -> WorkloadProgress:
        """Return what is done so far; never waits."""
        return self._progress

    def take_samples(self) -> Iterator[CommittedSample]:
        """Yield the samples committed since the last call."""
        while self._samples:
            yield self._samples.popleft()

    def _run(self) -> None:
        try:
            self._run_steps()
        except PenstockError as error:
            self._progress = replace(self._progress, error=str(error))
        except self._database.refused as error:
            self._progress = replace(self._progress, error=f"the workload's own statement failed: {error}")
        finally:
            self._progress = replace(self._progress, doing="done", ended=True)
            self._disconnect()

    def _run_steps(self) -> None:
        started = time.monotonic()
        pace = _Pace(self._rate)
        changes: Counter[str] = Counter()
        newest: dict[str, float] = {}
        planned = 0
        for step in self._steps:
            pace.wait(planned, self._stopping)
            if self._stopping.is_set():
                return
            done = self._run_until_it_is_in(step)
            changes.update(done)
            newest |= dict.fromkeys((table for table, count in done.items() if count), time.time())
            planned += step.changes if isinstance(step, Transaction) else 0
            self._progress = replace(
                self._progress,
                changes=dict(changes),
                newest=newest.copy(),
                seconds=time.monotonic() - started,
                share_done=min(1.0, planned / self._changes_planned),
            )

    def _run_until_it_is_in(self, step: Step) -> Mapping[str, int]:
        give_up_at = time.monotonic() + _AWAY_SECONDS_MAX
        while not self._stopping.is_set():
            try:
                match step:
                    case SchemaChange():
                        return self._change_schema(step)
                    case Transaction():
                        return self._commit(step)
            except self._away:
                self._disconnect()
                if time.monotonic() > give_up_at:
                    raise
                self._progress = replace(self._progress, doing="the source does not answer, waiting")
                self._stopping.wait(_RETRY_SECONDS)
        return {}

    def _change_schema(self, change: SchemaChange) -> Mapping[str, int]:
        self._progress = replace(self._progress, doing=change.title)
        connection = self._connected()
        try:
            with connection.cursor() as cursor:
                cursor.execute(change.sql)
            connection.commit()
        except self._database.refused as error:
            # The statement had gone through when the connection was lost, and this is the second try.
            if not self._database.is_done_already(error):
                raise
            self._disconnect()
        self._progress = replace(self._progress, schema_changes=(*self._progress.schema_changes, change.title))
        return {}

    def _commit(self, transaction: Transaction) -> Mapping[str, int]:
        connection = self._connected()
        changes: Counter[str] = Counter()
        with connection.cursor() as cursor:
            for statement in transaction.statements:
                cursor.executemany(statement.sql, statement.parameters)
                changes[statement.table] += max(0, cursor.rowcount)
        try:
            connection.commit()
        except self._database.lost:
            self._disconnect()
            self._progress = replace(self._progress, unknown_transactions=self._progress.unknown_transactions + 1)
            return {}
        if transaction.sample is not None:
            self._samples.append(CommittedSample(transaction.sample, time.monotonic()))
        self._progress = replace(self._progress, transactions=self._progress.transactions + 1, doing="writing")
        return changes

    def _connected(self) -> SourceConnection:
        if self._connection is None:
            self._connection = self._database.connect()
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(self._database.refused):
                connection.close()


class _Pace:
    """Spreads changes over time. After a pause it catches up with at most two seconds' worth."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._started = time.monotonic()

    def wait(self, done: int, stopping: threading.Event) -> None:
        """Wait until change number `done` is due."""
        due = self._started + done / self._rate
        now = time.monotonic()
        if now - due > _CATCH_UP_SECONDS:
            self._started += now - due - _CATCH_UP_SECONDS
        elif due > now:
            stopping.wait(due - now)
