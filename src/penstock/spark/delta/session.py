"""What a Spark session needs so that Delta tables can be worked on in it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_EXTENSIONS = "spark.sql.extensions"
_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_LIBRARY_SETTINGS = {
    # A table's log is read with one task. The default, fifty, is for logs of millions of files.
    "spark.databricks.delta.snapshotPartitions": "1",
    # A small table's files stand in the checksum of each commit: the log need not be put together to know them.
    "spark.databricks.delta.allFilesInCrc.enabled": "true",
    # Each commit is compared with the state before it a second time otherwise.
    "spark.databricks.delta.stateReconstructionValidation.enabled": "false",
}
_OWN_SETTINGS = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # Days before 1582 are what the files say, not what an old calendar made of them.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Texts and names are what stands between the quotes, ${x} too, which Spark takes for a variable by itself.
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    # Names are matched without regard to case, and a column that is missing is a mistake.
    "spark.sql.caseSensitive": "false",
    "spark.databricks.delta.schema.autoMerge.enabled": "false",
}


def delta_settings(conf: Mapping[str, str]) -> dict[str, str]:
    """Return what a session must be started with, beside the jars; `conf` is what the user gives, and stays."""
    given = [name for name in conf.get(_EXTENSIONS, "").split(",") if name and name != _DELTA_EXTENSION]
    return {**_LIBRARY_SETTINGS, **conf, _EXTENSIONS: ",".join([_DELTA_EXTENSION, *given])}


def is_on_s3(url: str) -> bool:
    """Whether a folder is on S3."""
    return url.startswith("s3:")


def store_settings(endpoint: str, region: str) -> dict[str, str]:
    """Return how Spark reaches S3: its region, and the server where it is not Amazon's, else ""."""
    given = {"spark.hadoop.fs.s3a.endpoint.region": region}
    if endpoint:
        given |= {"spark.hadoop.fs.s3a.endpoint": endpoint, "spark.hadoop.fs.s3a.path.style.access": "true"}
    return given


def own_session(session: SparkSession) -> SparkSession:
    """Return a session with settings and temporary views of its own, on the same Spark."""
    own = session.newSession()
    for name, value in _OWN_SETTINGS.items():
        own.conf.set(name, value)
    return own


def spark_url(url: str) -> str:
    """Return the folder or bucket as Spark's file systems call it."""
    # Hadoop takes a path as it is, without percent-encoding.
    return f"s3a:{url.removeprefix('s3:')}" if is_on_s3(url) else unquote(url)
