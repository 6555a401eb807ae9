"""Python processes that Spark starts import PySpark as it was compiled when it was installed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.embedded.unpacked_spark import unpacked_spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_task_imports_pyspark_from_the_home_with_what_was_compiled(spark: SparkSession) -> None:
    def imported(_: int) -> tuple[str, str | None]:
        import pyspark.worker  # noqa: PLC0415 - as a task has it

        return pyspark.__file__, pyspark.__spec__.cached

    ((file, compiled),) = spark.sparkContext.parallelize([0], 1).map(imported).collect()

    assert os.environ["SPARK_HOME"] == str(unpacked_spark_home())
    assert file == str(unpacked_spark_home() / "python" / "lib" / "pyspark.zip" / "pyspark" / "__init__.py")
    assert compiled is not None
    assert Path(compiled).exists()
