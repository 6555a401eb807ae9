"""`penstock bench redshift`: its parts, and who takes part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.bench.bench import Bench
from penstock.bench.redshift import load, topics
from penstock.bench.versions import jar_versions, java_version, python_versions
from penstock.embedded.jars import JarSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.bench.lab import Lab

_PACKAGES: Final = ("penstock", "pyarrow", "numpy", "obstore", "redshift-connector", "pyspark")


def _versions(_: Lab) -> Mapping[str, str]:
    return {**python_versions(_PACKAGES), "java": java_version(), **jar_versions(JarSet.S3PROXY, ["s3proxy"])}


REDSHIFT: Final = Bench(
    "redshift", {"copy": load.measure_copy, "insert": load.measure_inserts, "topics": topics.measure_topics}, _versions
)
