"""What a session does of its own accord: where it looks for data sources, and what its queries write."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from penstock.spark.queries import QueryPlace, start_link_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BATCHES = 8
_BOOKS = ("offsets", "commits")
_SECONDS = 60


def test_spark_starts_no_python_to_look_for_data_sources_in_packages(spark: SparkSession) -> None:
    python = scala_object(spark, "org.apache.spark.api.python.PythonUtils").defaultPythonExec()

    # It looks only where this is true: DataSourceManager, shouldLoadPythonDataSources.
    assert not scala_object(spark, "org.apache.spark.util.Utils").checkCommandAvailable(python)


def test_a_query_that_goes_on_writes_no_book_of_its_micro_batches(spark: SparkSession) -> None:
    batches: list[int] = []
    enough = Event()

    def finish(_frame: DataFrame, batch: int) -> None:
        batches.append(batch)
        if len(batches) == _BATCHES:
            enough.set()

    query = start_link_query(QueryPlace(spark, once=False), "numbers", finish)
    try:
        assert enough.wait(_SECONDS)
        checkpoint = Path(query._jsq.streamingQuery().resolvedCheckpointRoot().removeprefix("file:"))
        books = [len([file for file in checkpoint.glob(f"{book}/*") if file.name.isdigit()]) for book in _BOOKS]
    finally:
        query.stop()

    assert batches[:_BATCHES] == list(range(_BATCHES))
    assert max(books) <= 1
    assert not checkpoint.exists()


def test_a_query_that_runs_once_through_has_one_micro_batch(spark: SparkSession) -> None:
    batches: list[int] = []

    query = start_link_query(QueryPlace(spark, once=True), "once", lambda _, batch: batches.append(batch))
    query.awaitTermination(_SECONDS)

    assert batches == [0]


def scala_object(spark: SparkSession, name: str) -> Any:  # noqa: ANN401 - Py4J knows at run time what it has
    return getattr(getattr(spark.sparkContext._jvm, f"{name}$"), "MODULE$")
