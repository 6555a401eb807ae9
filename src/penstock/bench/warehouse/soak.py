"""Figures: two targets under a steady stream with statements in between, one of them down for minutes."""

from __future__ import annotations

import os
import statistics
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from penstock.adapters.mysql.connection import ask, connect
from penstock.bench.capture.workload import login
from penstock.bench.figure import Figure
from penstock.bench.marks import tail
from penstock.bench.meter import Meter
from penstock.bench.warehouse.compare import create_database
from penstock.bench.warehouse.pipeline import TargetPipeline, duckdb_sink, postgres_sink
from penstock.bench.warehouse.stream import CREATE, PER_SECOND, SCHEMA, TABLE, Watch, Writer
from penstock.config.load import load
from penstock.core.errors import PenstockError, UnavailableError
from penstock.dev.postgres import start_postgres

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.bench.lab import Lab
    from penstock.dev.postgres import PostgresServer
    from penstock.embedded.processes import Child

_STATEMENTS: Final = (
    f"ALTER TABLE {TABLE} ADD COLUMN karma BIGINT NOT NULL DEFAULT 7",
    f"ALTER TABLE {TABLE} MODIFY score BIGINT",
    f"ALTER TABLE {TABLE} ADD COLUMN place VARCHAR(20) NULL",
    f"ALTER TABLE {TABLE} RENAME COLUMN note TO remark",
)
"""What changes the table while one target is down."""
_NEAR_SECONDS: Final = 10.0
"""Who is less than this behind has caught up."""
_BEFORE_SECONDS_MAX: Final = 60
_SAMPLE_SECONDS: Final = 0.5
_START_SECONDS: Final = 900.0
_CATCH_UP_SECONDS: Final = 1800.0
_GIBIBYTE: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class _Soaked:
    """Lags of the target that stayed, in seconds; the largest Python process at three moments, in GiB."""

    before: Sequence[float]
    meanwhile: Sequence[float]
    caught_up_seconds: float
    peaks: tuple[float, float, float]
    transactions: int


def measure(lab: Lab) -> Sequence[Figure]:
    """PostgreSQL is killed, comes back after the setting `seconds`, and catches up; DuckDB goes on all the while."""
    home = lab.folder(SCHEMA)
    server = start_postgres(home / "down")
    create_database(server, SCHEMA)
    sinks = {"duckdb": duckdb_sink(home / "target.duckdb"), "postgres": postgres_sink(server, SCHEMA)}
    pipeline = TargetPipeline(lab, SCHEMA, TABLE, home, sinks)
    pipeline.write_file()
    os.environ.update(pipeline.environment)
    spec = load(pipeline.file)
    with closing(connect(login(lab.source()))) as source:
        ask(source, f"CREATE DATABASE {SCHEMA}")
        ask(source, CREATE)
    up, down = Watch(spec, "duckdb"), Watch(spec, "postgres")
    child = pipeline.start("run", str(pipeline.file), log="run.log")
    with _Down(server, home / "down") as target:
        try:
            soaked = _soak(lab, child, target, up, down)
            lab.say("soak: comparing both targets with the source")
            rows = _await_equal(lab, child, [up, down])
        finally:
            child.stop()
    return _figures(lab.settings.seconds, soaked, rows)


class _Down:
    """A server that is killed and started again, and ends with the `with` block."""

    def __init__(self, server: PostgresServer, home: Path) -> None:
        self._server = server
        self._home = home

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    def kill(self) -> None:
        """End it as kill -9 would."""
        self._server.kill()

    def start(self) -> None:
        """Start it again with its data and its port."""
        self._server = start_postgres(self._home)


def _soak(lab: Lab, child: Child, target: _Down, up: Watch, down: Watch) -> _Soaked:
    """Write all the while; watch one target while the other is away, and then that one."""
    seconds = lab.settings.seconds
    with Writer(lab.source()) as writer, Meter(child.pid) as meter:
        lab.say("soak: waiting for both targets")
        _await_near(child, up, _START_SECONDS)
        _await_near(child, down, _START_SECONDS)
        before = _sample(child, up, min(seconds / 4, _BEFORE_SECONDS_MAX))
        peaks = [_python_peak(meter)]
        lab.say(f"soak: one target is down for {seconds} s")
        target.kill()
        each = seconds / (len(_STATEMENTS) + 1)
        meanwhile = _sample(child, up, each)
        for statement in _STATEMENTS:
            with writer.guard, closing(connect(login(lab.source()))) as connection:
                ask(connection, statement)
            meanwhile += _sample(child, up, each)
        peaks.append(_python_peak(meter))
        transactions = writer.rows
        lab.say("soak: it is back")
        target.start()
        back = time.monotonic()
        _await_near(child, down, _CATCH_UP_SECONDS)
        caught_up = time.monotonic() - back
        peaks.append(_python_peak(meter))
    return _Soaked(before, meanwhile, caught_up, (peaks[0], peaks[1], peaks[2]), transactions)


def _figures(seconds: int, soaked: _Soaked, rows: int) -> list[Figure]:
    stream = f"{PER_SECOND} transactions a second, {soaked.transactions:,} until it was back"
    note = f"{stream}, and {len(_STATEMENTS)} ALTERs; both targets equal the source at the end ({rows:,} rows)"
    name = f"two targets, one down for {seconds} s"
    peak_before, peak_meanwhile, peak_after = soaked.peaks
    lags = [
        Figure(
            f"{name}: lag of the other, {what}",
            "seconds",
            "less",
            pick(soaked.meanwhile),
            "before that",
            pick(soaked.before),
            note=note,
        )
        for what, pick in (("median", statistics.median), ("most", max))
    ]
    until = f"{name}: until it was less than {_NEAR_SECONDS:.0f} s behind"
    return [
        *lags,
        Figure(until, "seconds", "less", soaked.caught_up_seconds, note=f"since it was back; {note}"),
        Figure(
            f"{name}: largest Python process meanwhile",
            "GiB",
            "less",
            peak_meanwhile,
            "before that",
            peak_before,
            note=f"peak resident size; {peak_after:.3f} when it had caught up",
        ),
    ]


def _sample(child: Child, watch: Watch, seconds: float) -> list[float]:
    lags, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        lags.append(watch.lag_seconds())
        _require_alive(child)
        time.sleep(_SAMPLE_SECONDS)
    return lags


def _await_near(child: Child, watch: Watch, wait_seconds: float) -> None:
    deadline = time.monotonic() + wait_seconds
    while True:
        _require_alive(child)
        try:
            lag = watch.lag_seconds()
        except PenstockError as error:
            # It is not there yet, or its table is not.
            reason = error.message
        else:
            if lag < _NEAR_SECONDS:
                return
            reason = f"it is {lag:.1f} s behind"
        if time.monotonic() > deadline:
            message = f"{watch.sink} did not come near its source within {wait_seconds:.0f} s: {reason}"
            raise UnavailableError(message, f"read {child.log}")
        time.sleep(_SAMPLE_SECONDS)


def _await_equal(lab: Lab, child: Child, watches: Sequence[Watch]) -> int:
    """Wait until every target has the source's rows, which nobody changes any more; how many there are."""
    with closing(connect(login(lab.source()))) as connection:
        columns = [str(row[0]) for row in ask(connection, f"SHOW COLUMNS FROM {TABLE}")]
        query = f"SELECT {', '.join(columns)} FROM {TABLE} ORDER BY id"  # noqa: S608 - our own names
        wanted = [tuple(row) for row in ask(connection, query)]
    deadline = time.monotonic() + _START_SECONDS
    for watch in watches:
        while watch.ask(query) != wanted:
            _require_alive(child)
            if time.monotonic() > deadline:
                message = f"{watch.sink} does not have the {len(wanted):,} rows of the source"
                raise PenstockError(message, "this is a mistake in Penstock: report it")
            time.sleep(_SAMPLE_SECONDS)
    return len(wanted)


def _require_alive(child: Child) -> None:
    if not child.alive():
        message = f"penstock run ended: {tail(child.log)}"
        raise PenstockError(message, f"read {child.log}")


def _python_peak(meter: Meter) -> float:
    meter.sample()
    return max(peak.peak_bytes for peak in meter.peaks() if peak.program.startswith("python")) / _GIBIBYTE
