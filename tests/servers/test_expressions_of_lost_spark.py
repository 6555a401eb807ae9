"""Spark that is stopped while it evaluates expressions: no message is to blame, and none is put aside."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from penstock.core.arrow_types import arrow_schema
from penstock.core.errors import PenstockError, TableStoppedError, UnavailableError
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.core.transforms.expressions import ExpressionColumn
from penstock.core.transforms.type_names import parse_type
from penstock.embedded.unpacked_spark import unpacked_spark_home
from penstock.links.spolts.load import load_code
from penstock.links.spolts.run import SpoltRunner
from penstock.links.spolts.transform_code import Transforms
from penstock.spark.expressions import SparkExpressions
from penstock.spark.session import SessionSpec, kill_session, open_session
from penstock.spolts.testing import Harness, create

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = TableSchema(
    TableId("shop", "orders"), (Column("id", IntegerType(32, unsigned=False), nullable=False),), ("id",)
)
LONG = "aggregate(sequence(0L, 1000000L), CAST(id AS BIGINT), (sum, n) -> sum + n % 7)"
"""About two seconds for each row."""
PIPELINE = f"""\
pipeline: shop
sources:
  - {{name: shopdb, kind: mysql, host: h, user: cdc, password_env: P, tables: [shop.*]}}
spolts:
  - name: sums
    from: shopdb.shop.orders
    to: sums
    on_error: dead_letter
    transforms:
      - expression: {{name: x, sql: "{LONG}", type: bigint}}
"""
_SECONDS = 120


def expressions(spark: SparkSession) -> SparkExpressions:
    """Such as run jobs for few rows too, which Spark otherwise evaluates while it plans, where nothing is cancelled."""
    found = SparkExpressions(spark)
    found._session.conf.set("spark.sql.execution.arrow.localRelationThreshold", "0")
    return found


def evaluate(found: SparkExpressions, sql: str, count: int = 1_000) -> list[object]:
    rows = pa.table({"id": pa.array(range(count), pa.int32())}, schema=arrow_schema(SCHEMA))
    return found(ExpressionColumn("x", sql, parse_type("bigint")), SCHEMA, rows)[1].column("x").to_pylist()


@contextmanager
def cancelling(spark: SparkSession) -> Iterator[None]:
    """Cancel what Spark works on, again and again."""
    over = threading.Event()
    canceller = threading.Thread(target=cancel_jobs, args=(spark, over))
    canceller.start()
    try:
        yield
    finally:
        over.set()
        canceller.join(_SECONDS)


def cancel_jobs(spark: SparkSession, over: threading.Event) -> None:
    while not over.wait(0.05):
        if spark.sparkContext.statusTracker().getActiveJobsIds():
            spark.sparkContext.cancelAllJobs()


def once_at_work(spark: SparkSession, act: Callable[[], object], wait_seconds: float) -> None:
    await_job(spark)
    time.sleep(wait_seconds)
    act()


def await_job(spark: SparkSession) -> None:
    deadline = time.monotonic() + _SECONDS
    while not spark.sparkContext.statusTracker().getActiveJobsIds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_cancelled_evaluation_is_worth_another_try(spark: SparkSession) -> None:
    found = expressions(spark)

    with cancelling(spark), pytest.raises(UnavailableError, match=r"shop\.orders\.x.*SPARK_JOB_CANCELLED"):
        evaluate(found, LONG)

    assert evaluate(found, "id + 1", 3) == [1, 2, 3]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("1 / (id - 1)", "DIVIDE_BY_ZERO"),
        ("CAST('a' AS INT)", "CAST_INVALID_INPUT"),
        ("id * 9223372036854775807L", "ARITHMETIC_OVERFLOW"),
        ("array(1)[id]", "INVALID_ARRAY_INDEX"),
        ("raise_error('no' || id)", "USER_RAISED_EXCEPTION"),
        ("hour(CAST('noon' AS TIMESTAMP))", "CAST_INVALID_INPUT"),
        ("length(regexp_replace('a', 'a', '$' || id))", "INVALID_REGEXP_REPLACE"),
        ("from_json('{', 'a INT', map('mode', 'FAILFAST')).a + id", "MALFORMED_RECORD_IN_PARSING"),
    ],
)
def test_a_job_that_fails_on_a_value_is_that_value_s_fault(spark: SparkSession, sql: str, said: str) -> None:
    with pytest.raises(TableStoppedError) as caught:
        evaluate(expressions(spark), sql, 3)

    assert said in caught.value.reason


def test_messages_whose_evaluation_was_cancelled_are_no_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    harness = Harness.of_file(tmp_path / "p.yaml", "sums", ["CREATE TABLE shop.orders (id INT PRIMARY KEY)"])
    function = load_code(harness.job.spolt).function
    assert isinstance(function, Transforms)
    code = replace(load_code(harness.job.spolt), function=replace(function, evaluate=expressions(spark)))
    given = [next(harness._raws(create("shop.orders", {"id": number}), number)) for number in range(4)]
    runner = SpoltRunner(harness.job, code, given[0][1], harness.schemas)

    with cancelling(spark), pytest.raises(UnavailableError, match="SPARK_JOB_CANCELLED"):
        list(runner.run([raw for raw, _ in given]))


@pytest.mark.nightly
@pytest.mark.parametrize(
    "when",
    [
        # A JVM that was killed is the last of its process.
        "stopped before, stopped at work, killed at work",
        "killed before",
        "stopped at work at many moments",
    ],
)
def test_an_evaluation_whose_spark_is_gone_is_worth_another_try(when: str) -> None:
    command = [sys.executable, "-m", __name__, when]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)

    assert ended.stdout == "UnavailableError True\n", ended.stderr[-2_000:]


def lose_spark(whens: str) -> None:
    """Evaluate in sessions that are killed or stopped meanwhile, one after the other, and print what is raised."""
    found: set[str] = set()
    for when in whens.split(", "):
        how, _, moment = when.partition(" ")
        # What Spark says of a stop, if only that something is null, depends on the moment.
        waits = {"at work": [0.02, 0.1], "at work at many moments": [*[0.02] * 20, 0.1, 0.5]}.get(moment, [0.0])
        found |= {lost(how, moment, wait) for wait in (waits if how == "stopped" else [0.0])}
    print(*found, sep=", ")  # noqa: T201 - read by the test


def lost(how: str, moment: str, wait_seconds: float) -> str:
    spark = open_session(SessionSpec("penstock-lost", home=unpacked_spark_home()))
    found = expressions(spark)
    end = {"killed": lambda: kill_session(spark), "stopped": spark.stop}[how]
    ender = threading.Thread(target=once_at_work, args=(spark, end, wait_seconds))
    if moment == "before":
        end()
    else:
        ender.start()
    try:
        evaluate(found, LONG, 20)
    except PenstockError as error:
        return f"{type(error).__name__} {error.retryable}"
    finally:
        if ender.is_alive():
            ender.join(_SECONDS)
    return "nothing raised"


if __name__ == "__main__":
    lose_spark(sys.argv[1])
