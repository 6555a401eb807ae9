"""`penstock bench steady`: its parts, and who takes part."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.bench.bench import Bench
from penstock.bench.capture.latency import Ids
from penstock.bench.figure import Figure
from penstock.bench.steady.long import measure_long
from penstock.bench.steady.ours import measure_ours
from penstock.bench.steady.stretches import RATES
from penstock.bench.steady.theirs import NAME, NAME_LOW, measure_theirs
from penstock.bench.versions import jar_versions, java_version, python_versions
from penstock.bench.warehouse.compare import connect_postgres
from penstock.core.errors import PenstockError
from penstock.embedded.jars import JarSet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.bench.lab import Lab
    from penstock.bench.steady.stretches import Steady

_PACKAGES: Final = ("penstock", "pyspark", "pyarrow", "confluent-kafka", "duckdb", "psycopg")
_IDLE_CORES: Final = 0.03
_CORES: Final = {1: {5: 0.095, 200: 0.128, 1_000: 0.256}, 2: {5: 0.124, 200: 0.167, 1_000: 0.333}}
"""What the peer and its broker took when the goals were set; with two sinks 1.3 times it, at 1,000 a second twice."""
_P50_MS: Final = 250.0
_P99_MS: Final = 500.0
_MEMORY_MEBIBYTES: Final = 900.0
_FIRST_ROW_SECONDS: Final = 9.0
_SOON_RATE: Final = 200
_SOON_P50_MS: Final = 30.0
_SINKS: Final = {1: "PostgreSQL", 2: "PostgreSQL and DuckDB"}


def measure(lab: Lab, sinks: int) -> Sequence[Figure]:
    """All stretches with one sink, or with two; the peer, which has one, behind them: the broker is warm by then."""
    ours = measure_ours(lab, Ids(), sinks)
    return plan_figures(sinks, ours, measure_theirs(lab))


def measure_soon(lab: Lab) -> Sequence[Figure]:
    """One stretch, both sides set up for low latency, which PostgreSQL pays for as well."""
    ours = measure_ours(lab, Ids(), 1, is_low_latency=True, rates=[_SOON_RATE])
    return plan_soon_figures(ours, measure_theirs(lab, is_low_latency=True, rates=(_SOON_RATE,)))


def plan_soon_figures(ours: Steady, theirs: Steady | PenstockError) -> Sequence[Figure]:
    """What is shown of both sides where latency counts: ours should come sooner, and for less CPU."""
    peer, why = (None, theirs) if isinstance(theirs, PenstockError) else (theirs, None)
    stretches = [side.stretches[_SOON_RATE] for side in (ours, peer) if side is not None]
    cores = [stretch.cores + stretch.broker_cores + stretch.target_cores for stretch in stretches]
    note = "; ".join(
        f"{stretch.cores:.3f} {whose}, {stretch.broker_cores:.3f} the broker's, {stretch.target_cores:.3f} PostgreSQL's"
        for stretch, whose in zip(stretches, ("ours", "the peer's"), strict=False)
    )
    name = f"{_SOON_RATE:,} one-row transactions a second into PostgreSQL, freshness_ms: 0"
    visible = f"{name}: commit to visible"
    told = [
        _less(f"{name}: CPU, the broker's and PostgreSQL's too", "cores busy", cores, None, note),
        _less(f"{visible}, p50", "ms", [stretch.p50_ms for stretch in stretches], _SOON_P50_MS),
        _less(f"{visible}, p99", "ms", [stretch.p99_ms for stretch in stretches], None),
    ]
    beside = [replace(figure, peer=NAME_LOW) for figure in told]
    told = [figure if figure.target else replace(figure, target=1.0, target_of="ratio") for figure in beside]
    return told if why is None else [_without_peer(figure, why) for figure in told]


def plan_figures(sinks: int, ours: Steady, theirs: Steady | PenstockError) -> Sequence[Figure]:
    """What is shown of our side beside the peer's, which always has PostgreSQL alone."""
    into = f"into {_SINKS[sinks]}"
    peer, why = (None, theirs) if isinstance(theirs, PenstockError) else (theirs, None)
    sides = [side for side in (ours, peer) if side is not None]
    told = [_cores(f"idle, {into}", 0, sides, _IDLE_CORES)]
    for rate in RATES:
        name = f"{rate:,} one-row transactions a second {into}"
        told.append(_cores(name, rate, sides, _CORES[sinks][rate]))
        for what, target in (("p50", _P50_MS), ("p99", _P99_MS)):
            took = [getattr(side.stretches[rate], f"{what}_ms") for side in sides]
            told.append(_less(f"{name}: commit to visible, {what}", "ms", took, target))
    memory, start = [side.memory_mebibytes for side in sides], [side.first_row_seconds for side in sides]
    note = "PSS of the process tree behind the last stretch; broker, Schematizer and source beside it"
    told += [
        _less(f"memory, {into}", "MiB", memory, _MEMORY_MEBIBYTES, note),
        _less(f"start to first row, {into}", "s", start, _FIRST_ROW_SECONDS),
    ]
    return told if why is None else [_without_peer(figure, why) for figure in told]


def _cores(name: str, rate: int, sides: Sequence[Steady], target: float | None) -> Figure:
    """The cores of a stretch; each side's own and the broker's are told apart in the note."""
    stretches = [side.stretches[rate] for side in sides]
    both = [stretch.cores + stretch.broker_cores for stretch in stretches]
    note = "; ".join(
        f"{stretch.cores:.3f} {whose}, {stretch.broker_cores:.3f} the broker's"
        for stretch, whose in zip(stretches, ("ours", "the peer's"), strict=False)
    )
    return _less(f"{name}: CPU, the broker's too", "cores busy", both, target, note)


def _less(name: str, unit: str, values: Sequence[float | None], target: float | None, note: str = "") -> Figure:
    """A figure of which less is good: ours, and the peer's if there is one."""
    ours, *theirs = values
    return Figure(name, unit, "less", ours, NAME, theirs[0] if theirs else None, target, "value", note)


def _without_peer(figure: Figure, why: PenstockError) -> Figure:
    note = f"the peer could not be measured: {why.message}"
    return replace(figure, note=f"{figure.note}; {note}" if figure.note else note)


def _versions(lab: Lab) -> Mapping[str, str]:
    with closing(connect_postgres(lab.postgres(), lab.postgres().database)) as connection:
        (server,) = connection.execute("SHOW server_version").fetchone() or ("unknown",)
    return {
        **python_versions(_PACKAGES),
        "java": java_version(),
        "postgresql server": server,
        **jar_versions(JarSet.KAFKA_BROKER, ["kafka_2.13"]),
        **jar_versions(JarSet.DEBEZIUM, ["debezium-connector-mariadb", "connect-runtime"]),
        **jar_versions(JarSet.DEBEZIUM_JDBC, ["debezium-connector-jdbc"]),
    }


STEADY: Final = Bench(
    "steady",
    {"one": partial(measure, sinks=1), "two": partial(measure, sinks=2), "soon": measure_soon, "long": measure_long},
    _versions,
)
