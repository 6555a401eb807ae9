"""`penstock bench capture`: its parts, and who takes part."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from penstock.adapters.mysql.catalog import read_greeting
from penstock.adapters.mysql.connection import connect
from penstock.bench.bench import Bench
from penstock.bench.capture import catchup, decode, following, kafka, latency, memory, read, slots
from penstock.bench.capture.workload import login
from penstock.bench.versions import jar_versions, java_version, python_versions
from penstock.embedded.jars import JarSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.bench.lab import Lab

_PACKAGES: Final = ("penstock", "pyspark", "pyarrow", "numpy", "confluent-kafka", "pymysql", "mysql-replication")


def _versions(lab: Lab) -> Mapping[str, str]:
    with closing(connect(login(lab.source()))) as connection:
        source = read_greeting(connection)
    return {
        **python_versions(_PACKAGES),
        "java": java_version(),
        "source": source,
        **jar_versions(JarSet.KAFKA_BROKER, ["kafka_2.13"]),
        **jar_versions(JarSet.DEBEZIUM, ["connect-runtime", "debezium-connector-mariadb"]),
    }


CAPTURE: Final = Bench(
    "capture",
    {
        "decode": decode.measure,
        "read": read.measure_bulk,
        "single": read.measure_single,
        "kafka": kafka.measure,
        "follow": following.measure,
        "latency": latency.measure,
        "memory": memory.measure,
        "slots": slots.measure,
        "catchup": catchup.measure,
    },
    _versions,
)
