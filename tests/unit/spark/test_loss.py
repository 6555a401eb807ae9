"""What a micro-batch raises because Spark's JVM is gone is told once, with the loss, and all else by itself."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from pyspark import SparkContext
from structlog.testing import capture_logs

from penstock.spark.finisher import note_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A JVM's process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        yield


@pytest.mark.usefixtures("gone")
def test_a_refused_connection_to_a_jvm_that_is_gone_is_not_told_by_itself() -> None:
    with capture_logs() as told:
        line = note_of(ConnectionRefusedError(111, "Connection refused"))

    assert line.startswith("ConnectionRefusedError")
    assert told == []


@pytest.mark.usefixtures("gone")
def test_what_a_jvm_that_is_gone_does_not_explain_is_told() -> None:
    with capture_logs() as told:
        note_of(KeyError("x"))

    assert [each["event"] for each in told] == ["a micro-batch failed on the driver"]


def test_a_refused_connection_is_told_where_no_jvm_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", None)
    with capture_logs() as told:
        note_of(ConnectionRefusedError(111, "Connection refused"))

    assert [each["event"] for each in told] == ["a micro-batch failed on the driver"]
