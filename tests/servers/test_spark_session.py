"""What a session does of its own accord: which data sources it looks for, and what its queries write."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from penstock.spark.queries import QueryPlace, _start, register_sources

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

_BATCHES = 8
_SECONDS = 60


@pytest.mark.parametrize("name", ["penstock.mysql", "penstock.topics"])
def test_our_data_sources_are_known_once_they_are_registered(spark: SparkSession, name: str) -> None:
    register_sources(spark)

    frame = spark.readStream.format(name).option("planner", "").load()

    assert frame.columns == ["part", "sequence", "more", "body"]


def test_spark_starts_no_python_to_look_for_data_sources_in_packages(spark: SparkSession) -> None:
    python = scala_object(spark, "org.apache.spark.api.python.PythonUtils").defaultPythonExec()

    # It looks only where this is true: DataSourceManager, shouldLoadPythonDataSources.
    assert not scala_object(spark, "org.apache.spark.util.Utils").checkCommandAvailable(python)


def test_a_query_that_goes_on_writes_no_book_of_its_micro_batches(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
    batches: list[int] = []
    enough = Event()

    def finish(_frame: DataFrame, batch: int) -> None:
        batches.append(batch)
        if len(batches) == _BATCHES:
            enough.set()

    query = _start(QueryPlace(spark, tmp_path, once=False), "numbers", frame, finish, trigger_milliseconds=0)
    try:
        assert enough.wait(_SECONDS)
    finally:
        query.stop()

    assert batches[:_BATCHES] == list(range(_BATCHES))
    for table_catalog in ("offsets", "commits"):
        assert len([file for file in tmp_path.glob(f"*/{table_catalog}/*") if file.name.isdigit()]) <= 1


def scala_object(spark: SparkSession, name: str) -> Any:  # noqa: ANN401 - Py4J knows at run time what it has
    return getattr(getattr(spark.sparkContext._jvm, f"{name}$"), "MODULE$")
