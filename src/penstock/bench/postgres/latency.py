"""Figures: from COMMIT in PostgreSQL to a reader of Kafka, beside Debezium in Kafka Connect as it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.bench.capture.debezium import NO_EXTRAS
from penstock.bench.capture.latency import (
    DEFAULTS,
    TABLE,
    Ids,
    Targets,
    measure_debezium,
    measure_ours,
    plan_beside,
)
from penstock.bench.peers.debezium import CapturedPostgres
from penstock.bench.postgres.workload import create_table, drop_slots, origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.bench.figure import Figure
    from penstock.bench.lab import Lab

_TARGETS: Final = Targets(p50=30.0, p99=100.0, cpu=1.0)


def measure(lab: Lab) -> Sequence[Figure]:
    """p50, p99 and busy cores at each rate."""
    server = lab.postgres_source()
    create_table(server, TABLE)
    ids, from_here = Ids(), origin(lab)
    ours = measure_ours(lab, ids, is_low_latency=False, origin=from_here)
    captured = from_here, CapturedPostgres(server, "bench_latency_debezium")
    theirs = measure_debezium(lab, ids, "latency-debezium", NO_EXTRAS, captured)
    drop_slots(server)
    return plan_beside(ours, DEFAULTS, theirs, _TARGETS)
