"""`penstock bench postgres`: its parts, and who takes part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.bench.bench import Bench
from penstock.bench.postgres import decode, kafka, latency, load
from penstock.bench.postgres.workload import version_of
from penstock.bench.versions import jar_versions, java_version, python_versions
from penstock.embedded.jars import JarSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.bench.lab import Lab

_PACKAGES: Final = ("penstock", "pyspark", "pyarrow", "numpy", "confluent-kafka", "psycopg")


def _versions(lab: Lab) -> Mapping[str, str]:
    return {
        **python_versions(_PACKAGES),
        "java": java_version(),
        "source": f"PostgreSQL {version_of(lab.postgres_source())}",
        **jar_versions(JarSet.KAFKA_BROKER, ["kafka_2.13"]),
        **jar_versions(JarSet.DEBEZIUM, ["connect-runtime", "debezium-connector-postgres"]),
    }


POSTGRES: Final = Bench(
    "postgres",
    {
        "decode": decode.measure_bulk,
        "single": decode.measure_single,
        "kafka": kafka.measure,
        "latency": latency.measure,
        "load": load.measure,
    },
    _versions,
)
