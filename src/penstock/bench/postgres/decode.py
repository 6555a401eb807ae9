"""Figures: reading the log from the network, with nowhere to put it: bare, decoded to Arrow, encoded as Avro."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.bench.figure import Figure
from penstock.bench.peers.debezium import CapturedPostgres
from penstock.bench.peers.debezium_engine import DebeziumEngine
from penstock.bench.postgres.workload import (
    PUBLICATION,
    create_table,
    drop_slots,
    make_slot,
    write_bulk,
    write_one_by_one,
)
from penstock.bench.programs.measured import Work, measure_python
from penstock.core.errors import PenstockError
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from penstock.bench.lab import Lab
    from penstock.dev.postgres import PostgresServer

_WAIT_SECONDS: Final = 1800.0
_UNIT: Final = "CPU seconds per million rows"
_ENGINE: Final = "Debezium embedded engine, JSON, thrown away"
_TARGET: Final = 6.0
_KINDS: Final = {"receive": "bare", "decode": "decoded to Arrow", "encode": "decoded and encoded as Avro"}


@dataclass(frozen=True, slots=True)
class _Shape:
    """One way in which rows are committed; every `share`-th of `--rows` is measured."""

    name: str
    schema: str
    write: Callable[[PostgresServer, TableId, int], None]
    share: int


_BULK: Final = _Shape("bulk", "bench_bulk", write_bulk, 1)
_SINGLE: Final = _Shape("one row per transaction", "bench_single", write_one_by_one, 10)


def measure_bulk(lab: Lab) -> Sequence[Figure]:
    """CPU for many rows per transaction."""
    return _measure(lab, _BULK)


def measure_single(lab: Lab) -> Sequence[Figure]:
    """CPU for one row per transaction."""
    return _measure(lab, _SINGLE)


def read_slot_log(lab: Lab, table: TableId, slot: tuple[str, object], rows: int, what: str, folder: Path) -> Work:
    """Read `rows` of a table from the log of a slot (its name and where it begins), and throw them away."""
    server = lab.postgres_source()
    name, begin = slot
    arguments = (what, server.host, server.port, server.user, server.password, table, name, PUBLICATION, begin, rows)
    lab.say(f"postgres: reading {rows:,} rows, {_KINDS[what]}")
    return measure_python("read_wal", arguments, folder / f"{what}.log", _WAIT_SECONDS)


def _measure(lab: Lab, shape: _Shape) -> Sequence[Figure]:
    server, table, folder = lab.postgres_source(), TableId(shape.schema, "orders"), lab.folder(shape.schema)
    rows = max(1, lab.settings.rows // shape.share)
    create_table(server, table)
    slot = shape.schema, make_slot(server, shape.schema)
    engine = DebeziumEngine(CapturedPostgres(server, f"{shape.schema}_debezium"), shape.schema, folder)
    lab.say("postgres: starting Debezium")
    error = _try(engine.remember_the_end)
    lab.say(f"postgres: writing {rows:,} rows, {shape.name}")
    shape.write(server, table, rows)
    ours = {what: read_slot_log(lab, table, slot, rows, what, folder) for what in _KINDS}
    lab.say(f"postgres: reading {rows:,} rows, Debezium")
    theirs = error or _try(lambda: engine.measure(table, rows, _WAIT_SECONDS))
    drop_slots(server)
    return plan_figures(shape.name, ours, theirs)


def plan_figures(name: str, ours: Mapping[str, Work], theirs: Work | PenstockError | None) -> Sequence[Figure]:
    """What each way of reading costs; what makes Arrow columns or messages of rows stands beside the engine."""
    return [
        _figure(f"log read, {kind}, {name}", ours[what], theirs, has_peer=what != "receive")
        for what, kind in _KINDS.items()
    ]


def _figure(name: str, ours: Work, theirs: Work | PenstockError | None, *, has_peer: bool) -> Figure:
    note = f"{ours.rows:,} rows, {ours.rows / ours.seconds:,.0f} a second"
    if not has_peer:
        return Figure(name, _UNIT, "less", ours.cpu_per_million, note=note)
    if isinstance(theirs, PenstockError):
        note = f"the peer could not be measured: {theirs.message}"
    got = theirs.cpu_per_million if isinstance(theirs, Work) else None
    return Figure(name, _UNIT, "less", ours.cpu_per_million, _ENGINE, got, _TARGET, note=note)


def _try(work: Callable[[], Work | None]) -> Work | PenstockError | None:
    """Do a peer's work; that it cannot be had is a finding, not our failure."""
    try:
        return work()
    except PenstockError as error:
        return error
