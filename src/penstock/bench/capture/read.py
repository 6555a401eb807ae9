"""Figures: reading the log from the network, decoding and encoding it, with nowhere to put it.

In bulk and in transactions of one row, beside the same work done by Debezium's
embedded engine (to JSON) and by python-mysql-replication (to Python dictionaries).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from penstock.bench.capture.workload import Stretch, create_table, login, write_bulk, write_one_by_one
from penstock.bench.figure import Figure
from penstock.bench.peers.debezium import CapturedMariadb
from penstock.bench.peers.debezium_engine import DebeziumEngine
from penstock.bench.programs.measured import Work, measure_python
from penstock.core.errors import PenstockError, UsageError
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from penstock.bench.lab import Lab

_WAIT_SECONDS = 1800.0
_UNIT = "CPU seconds per million rows"
_ENGINE = "Debezium embedded engine, JSON"
_PYTHON = "python-mysql-replication"


@dataclass(frozen=True, slots=True)
class _Shape:
    """One way in which rows are committed, and the targets for it: how many times less CPU than each peer."""

    name: str
    database: str
    write: Callable[[Lab, TableId], Stretch]
    debezium_target: float
    python_target: float | None
    sample: int
    """One in how many rows python-mysql-replication is given: it needs minutes for what others need seconds for."""


_BULK = _Shape(
    name="read, decode, encode, no-op sink, bulk",
    database="bench_bulk",
    write=lambda lab, table: write_bulk(lab.source(), table, lab.settings.rows),
    debezium_target=8,
    python_target=15,
    sample=4,
)
_SINGLE = _Shape(
    name="read, decode, encode, no-op sink, one row per transaction",
    database="bench_single",
    write=lambda lab, table: write_one_by_one(lab.source(), table, max(1, lab.settings.rows // 10)),
    debezium_target=10,
    python_target=None,
    sample=2,
)


def measure_bulk(lab: Lab) -> Sequence[Figure]:
    """CPU for many rows per event."""
    return _measure(lab, _BULK)


def measure_single(lab: Lab) -> Sequence[Figure]:
    """CPU for one row per transaction."""
    return _measure(lab, _SINGLE)


def _measure(lab: Lab, shape: _Shape) -> Sequence[Figure]:
    table = TableId(shape.database, "orders")
    source = lab.source()
    create_table(source, table)
    folder = lab.folder(shape.database)
    engine = DebeziumEngine(CapturedMariadb(login(source)), shape.database, folder)
    engine_error = _try(engine.remember_the_end)
    lab.say(f"{shape.name}: writing rows")
    stretch = shape.write(lab, table)
    lab.say(f"{shape.name}: reading {stretch.rows:,} of them, ours")
    ours = measure_python("read_log", _arguments(lab, stretch), folder / "ours.log", _WAIT_SECONDS)
    lab.say(f"{shape.name}: reading them, Debezium")
    theirs = engine_error or _try(lambda: engine.measure(table, stretch.rows, _WAIT_SECONDS))
    lab.say(f"{shape.name}: reading some of them, python-mysql-replication")
    python = _try(lambda: _measure_python_mysql(lab, stretch, folder, shape.sample))
    return [
        _figure(shape.name, ours, _ENGINE, theirs, shape.debezium_target),
        _figure(shape.name, ours, _PYTHON, python, shape.python_target),
    ]


def _try(work: Callable[[], Work | None]) -> Work | PenstockError | None:
    """Do a peer's work; that it cannot be had is a finding, not our failure."""
    try:
        return work()
    except PenstockError as error:
        return error


def _figure(name: str, ours: Work, peer: str, theirs: Work | PenstockError | None, target: float | None) -> Figure:
    got = theirs if isinstance(theirs, Work) else None
    note = f"the peer could not be measured: {theirs.message}" if isinstance(theirs, PenstockError) else ""
    if got is not None:
        note = f"{ours.rows:,} rows; the peer's time runs from its first row"
    peer_value = None if got is None else got.cpu_per_million
    return Figure(name, _UNIT, "less", ours.cpu_per_million, peer, peer_value, target, note=note)


def _measure_python_mysql(lab: Lab, stretch: Stretch, folder: Path, sample: int) -> Work:
    if find_spec("pymysqlreplication") is None:
        message = "mysql-replication is not installed"
        raise UsageError(message, "type: .venv/bin/pip install mysql-replication==1.0.17")
    rows = max(1, stretch.rows // sample)
    arguments = (*_arguments(lab, stretch), rows)
    return measure_python("read_log_python", arguments, folder / "python-mysql-replication.log", _WAIT_SECONDS)


def _arguments(lab: Lab, stretch: Stretch) -> tuple[object, ...]:
    server, begin = login(lab.source()), stretch.begin
    return (server.host, server.port, server.user, server.password, stretch.table, begin.file, begin.offset)
