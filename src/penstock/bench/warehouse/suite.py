"""`penstock bench warehouse`: its parts, and who takes part."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from penstock.bench.bench import Bench
from penstock.bench.peers.dlt_duckdb import VERSION as DLT_VERSION
from penstock.bench.versions import jar_versions, java_version, python_versions
from penstock.bench.warehouse import load, manifest, soak, tables
from penstock.bench.warehouse.compare import connect_postgres
from penstock.embedded.jars import JarSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.bench.lab import Lab

_PACKAGES: Final = ("penstock", "pyspark", "pyarrow", "numpy", "confluent-kafka", "duckdb", "psycopg")


def _versions(lab: Lab) -> Mapping[str, str]:
    with closing(connect_postgres(lab.postgres(), lab.postgres().database)) as connection:
        (server,) = connection.execute("SHOW server_version").fetchone() or ("unknown",)
    return {
        **python_versions(_PACKAGES),
        "java": java_version(),
        "postgresql server": server,
        "dlt": DLT_VERSION,
        **jar_versions(JarSet.KAFKA_BROKER, ["kafka_2.13"]),
        **jar_versions(JarSet.DEBEZIUM, ["connect-runtime"]),
        **jar_versions(JarSet.DEBEZIUM_JDBC, ["debezium-connector-jdbc", "postgresql"]),
    }


WAREHOUSE: Final = Bench(
    "warehouse",
    {
        "files": load.measure_files,
        "duckdb": load.measure_duckdb,
        "postgres": load.measure_postgres,
        "manifest": manifest.measure,
        "tables": tables.measure,
        "soak": soak.measure,
    },
    _versions,
)
