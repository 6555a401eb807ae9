"""Which Python data sources a session knows: ours, and it looks for no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.spark.queries import register_sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("name", ["penstock.mysql", "penstock.topics"])
def test_our_data_sources_are_known_once_they_are_registered(spark: SparkSession, name: str) -> None:
    register_sources(spark)

    frame = spark.readStream.format(name).option("planner", "").load()

    assert frame.columns == ["part", "sequence", "body"]


def test_spark_starts_no_python_to_look_for_data_sources_in_packages(spark: SparkSession) -> None:
    python = scala_object(spark, "org.apache.spark.api.python.PythonUtils").defaultPythonExec()

    # It looks only where this is true: DataSourceManager, shouldLoadPythonDataSources.
    assert not scala_object(spark, "org.apache.spark.util.Utils").checkCommandAvailable(python)


def scala_object(spark: SparkSession, name: str) -> Any:  # noqa: ANN401 - Py4J knows at run time what it has
    return getattr(getattr(spark.sparkContext._jvm, f"{name}$"), "MODULE$")
