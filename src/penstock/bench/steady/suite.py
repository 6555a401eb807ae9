"""`penstock bench steady`: its parts, and who takes part."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.bench.bench import Bench
from penstock.bench.capture.latency import Ids
from penstock.bench.figure import Figure
from penstock.bench.steady.ours import measure_ours
from penstock.bench.steady.stretches import RATES
from penstock.bench.versions import jar_versions, java_version, python_versions
from penstock.bench.warehouse.compare import connect_postgres
from penstock.embedded.jars import JarSet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.bench.lab import Lab
    from penstock.bench.steady.stretches import Steady, Stretch

_PACKAGES: Final = ("penstock", "pyspark", "pyarrow", "confluent-kafka", "duckdb", "psycopg")
_IDLE_CORES: Final = 0.03
_CORES: Final = {1: {5: 0.095, 200: 0.128}, 2: {5: 0.124, 200: 0.167}}
"""What Debezium's source and its JDBC sink in one Kafka Connect worker took, broker included; 1.3 times it with two."""
_P50_MS: Final = 250.0
_P99_MS: Final = 500.0
_MEMORY_MEBIBYTES: Final = 900.0
_FIRST_ROW_SECONDS: Final = 9.0
_SINKS: Final = {1: "PostgreSQL", 2: "PostgreSQL and DuckDB"}


def measure(lab: Lab, sinks: int) -> Sequence[Figure]:
    """All stretches with one sink, or with two."""
    return plan_figures(sinks, measure_ours(lab, Ids(), sinks))


def plan_figures(sinks: int, ours: Steady) -> Sequence[Figure]:
    """What is shown of a side."""
    into = f"into {_SINKS[sinks]}"
    memory, start = ours.memory_mebibytes, ours.first_row_seconds
    told = [_cores(f"idle, {into}", ours.stretches[0], _IDLE_CORES)]
    for rate in RATES:
        stretch, name = ours.stretches[rate], f"{rate:,} one-row transactions a second {into}"
        told += [
            _cores(name, stretch, _CORES[sinks].get(rate)),
            Figure(f"{name}: commit to visible, p50", "ms", "less", stretch.p50_ms, target=_P50_MS, target_of="value"),
            Figure(f"{name}: commit to visible, p99", "ms", "less", stretch.p99_ms, target=_P99_MS, target_of="value"),
        ]
    note = "PSS of the process tree behind the last stretch; broker, Schematizer and source beside it"
    return [
        *told,
        Figure(f"memory, {into}", "MiB", "less", memory, target=_MEMORY_MEBIBYTES, target_of="value", note=note),
        Figure(f"start to first row, {into}", "s", "less", start, target=_FIRST_ROW_SECONDS, target_of="value"),
    ]


def _cores(name: str, stretch: Stretch, target: float | None) -> Figure:
    note = f"{stretch.cores:.3f} ours, {stretch.broker_cores:.3f} the broker's"
    both = stretch.cores + stretch.broker_cores
    return Figure(
        f"{name}: CPU, the broker's too", "cores busy", "less", both, target=target, target_of="value", note=note
    )


def _versions(lab: Lab) -> Mapping[str, str]:
    with closing(connect_postgres(lab.postgres(), lab.postgres().database)) as connection:
        (server,) = connection.execute("SHOW server_version").fetchone() or ("unknown",)
    return {
        **python_versions(_PACKAGES),
        "java": java_version(),
        "postgresql server": server,
        **jar_versions(JarSet.KAFKA_BROKER, ["kafka_2.13"]),
    }


STEADY: Final = Bench(
    "steady",
    {"one": partial(measure, sinks=1), "two": partial(measure, sinks=2)},
    _versions,
)
