"""User code that ends its worker, or takes and makes too much, between real topics and on Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.servers.spolt_case import SpoltCase, make_case

from penstock.jobs.pipeline import run_pipeline
from penstock.jobs.runner import PipelineRun
from penstock.spark.runner import SparkRunner
from penstock.spark.supervisor import NoServices
from penstock.wiring.dead_letters import find_letters
from penstock.wiring.open import create_ledgers

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from penstock.embedded.kafka import KafkaBroker

ENDS = """\
import os
import pyarrow as pa
from penstock.spolts import Output, spolt

@spolt(output=pa.schema([pa.field("number", pa.int64())]))
def double(message):
    if message.value["number"] == 13:
        os._exit(3)
    return Output(message.value)
"""
# A lock that its owner takes again: the call keeps Python's own lock, and no signal ends it.
HANGS = """\
import ctypes
import pyarrow as pa
from penstock.spolts import Output, spolt

@spolt(output=pa.schema([pa.field("number", pa.int64())]))
def double(message):
    if message.value["number"] == 13:
        lock = ctypes.create_string_buffer(64)
        for _ in range(2):
            ctypes.PyDLL(None).pthread_mutex_lock(lock)
    return Output(message.value)
"""
ENDS_BATCHES = """\
import os
from penstock.spolts import spolt

@spolt(batches=True)
def double(batch):
    if 13 in batch["number"].to_pylist():
        os._exit(3)
    return batch
"""
HEAVY = """\
import os, sys, time
import pyarrow as pa
from penstock.spolts import Output, spolt

@spolt(output=pa.schema([pa.field("number", pa.int64()), pa.field("text", pa.string())]))
def double(message):
    number = message.value["number"]
    if number == 13:
        os._exit(3)
    if number == 14:
        return [Output({"number": number, "text": ""})] * 300_000
    if number == 15:
        time.sleep(60)
    # Of each partition four messages make 30 MiB.
    size = 80 << 20 if number == 17 else 30 << 20 if number >= 48 else 1
    return Output({"number": number, "text": "x" * size})
"""
DOUBLE = """\
  - name: double
    function: code_{p}:double
    from: {topic: {p}.in, format: json}
    on_error: dead_letter
    timeout_seconds: 5
    to: {p}.out
"""
os.environ["NOBODY"] = ""


@pytest.fixture
def case_of(tmp_path: Path, fresh_name: str, kafka: KafkaBroker, schematizer: str) -> Callable[[str, str], SpoltCase]:
    """Make a case of spolts in YAML and of user code."""

    def make(spolts: str, code: str) -> SpoltCase:
        case = make_case(tmp_path, f"{fresh_name}_{os.getpid()}", (kafka.bootstrap_servers, schematizer), spolts, code)
        create_ledgers(case.spec)
        return case

    return make


@pytest.mark.nightly
@pytest.mark.parametrize("batches", [False, True])
def test_a_message_that_ends_its_worker_is_put_aside_when_it_has_ended_three(
    case_of: Callable[[str, str], SpoltCase],
    batches: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    case = case_of(DOUBLE, ENDS_BATCHES if batches else ENDS)
    case.make_topic(f"{case.name}.in")
    case.send(f"{case.name}.in", [("k", {"number": number}, 0) for number in range(20)])

    ended: list[int] = []
    while 0 not in ended and len(ended) < 10:
        ended.append(_carry_apart(case, len(ended) + 1))

    # Of a batch it has to be found first which of its messages it was.
    assert ended == [3] * (4 if batches else 3) + [0]
    assert [value["number"] for value in case.values(f"{case.name}.out")] == [n for n in range(20) if n != 13]
    (letter,) = find_letters(case.spec, "double", 10)
    assert (letter.letter.message.offset, "3 workers ended" in letter.letter.error) == (13, True)


@pytest.mark.nightly
def test_a_message_on_which_native_code_hangs_ends_its_worker_and_is_put_aside_at_the_third(
    case_of: Callable[[str, str], SpoltCase],
) -> None:
    case = case_of(DOUBLE.replace("timeout_seconds: 5", "timeout_seconds: 1"), HANGS)
    case.make_topic(f"{case.name}.in")
    case.send(f"{case.name}.in", [("k", {"number": number}, 0) for number in range(20)])

    ended: list[int] = []
    while 0 not in ended and len(ended) < 10:
        ended.append(_carry_apart(case, len(ended) + 1))

    assert ended == [1, 1, 1, 0]
    assert [value["number"] for value in case.values(f"{case.name}.out")] == [n for n in range(20) if n != 13]
    (letter,) = find_letters(case.spec, "double", 10)
    assert (letter.letter.message.offset, "ignored timeout_seconds" in letter.letter.error) == (13, True)


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_messages_that_make_or_take_too_much_leave_spark_and_the_others_going(
    case_of: Callable[[str, str], SpoltCase], spark: SparkSession
) -> None:
    case = case_of(DOUBLE, HEAVY)
    case.make_topic(f"{case.name}.in")
    numbers = range(60)
    case.send(f"{case.name}.in", [("k", {"number": number}, number % 3) for number in numbers])

    run_pipeline(PipelineRun(case.spec, once=True, only="double"), SparkRunner(spark, NoServices()))

    assert {letter.letter.message.value for letter in find_letters(case.spec, "double", 10)} == {
        json.dumps({"number": number}).encode() for number in (13, 14, 15, 17)
    }
    found = [value["number"] for value in case.values(f"{case.name}.out")]
    assert sorted(found) == [number for number in numbers if number not in {13, 14, 15, 17}]


def _carry_apart(case: SpoltCase, epoch: int) -> int:
    return subprocess.run(
        [sys.executable, "-m", "tests.servers.spolt_case", str(case.file), "double", str(epoch)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", "."])},
        cwd=Path(__file__).parents[2],
        timeout=60,
        check=False,
    ).returncode
