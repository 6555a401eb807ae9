"""What a session does of its own accord: where it looks for data sources, and what its queries write."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, Any

from penstock.spark.queries import QueryPlace, start_link_query

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

_BATCHES = 8
_SECONDS = 60


def test_spark_starts_no_python_to_look_for_data_sources_in_packages(spark: SparkSession) -> None:
    python = scala_object(spark, "org.apache.spark.api.python.PythonUtils").defaultPythonExec()

    # It looks only where this is true: DataSourceManager, shouldLoadPythonDataSources.
    assert not scala_object(spark, "org.apache.spark.util.Utils").checkCommandAvailable(python)


def test_a_query_that_goes_on_writes_no_book_of_its_micro_batches(spark: SparkSession, tmp_path: Path) -> None:
    batches: list[int] = []
    enough = Event()

    def finish(_frame: DataFrame, batch: int) -> None:
        batches.append(batch)
        if len(batches) == _BATCHES:
            enough.set()

    query = start_link_query(QueryPlace(spark, tmp_path, once=False), "numbers", finish)
    try:
        assert enough.wait(_SECONDS)
    finally:
        query.stop()

    assert batches[:_BATCHES] == list(range(_BATCHES))
    for table_catalog in ("offsets", "commits"):
        assert len([file for file in tmp_path.glob(f"*/{table_catalog}/*") if file.name.isdigit()]) <= 1


def test_a_query_that_runs_once_through_has_one_micro_batch(spark: SparkSession, tmp_path: Path) -> None:
    batches: list[int] = []

    query = start_link_query(QueryPlace(spark, tmp_path, once=True), "once", lambda _, batch: batches.append(batch))
    query.awaitTermination(_SECONDS)

    assert batches == [0]


def scala_object(spark: SparkSession, name: str) -> Any:  # noqa: ANN401 - Py4J knows at run time what it has
    return getattr(getattr(spark.sparkContext._jvm, f"{name}$"), "MODULE$")
