"""What the supervisor says of an error that Spark printed."""

from __future__ import annotations

from penstock.spark.supervisor import _explain

_STORY = """\
org.apache.spark.sql.streaming.StreamingQueryException: Job aborted
\tat org.apache.spark.sql.execution.streaming.runtime.StreamExecution.run(StreamExecution.scala:1)
Caused by: java.lang.IllegalStateException: outer
\t... 3 more
Caused by: java.io.IOException: {}
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""


def test_a_full_disk_is_said_in_words() -> None:
    error = _explain("Spark ended link shopdb", _STORY.format("No space left on device"))

    assert error.message == "Spark ended link shopdb: a disk is full"
    assert "nothing is lost" in error.hint
    assert error.retryable


def test_the_innermost_cause_is_named() -> None:
    error = _explain("Spark ended link shopdb", _STORY.format("Connection reset"))

    assert error.message.startswith("Spark ended link shopdb: java.io.IOException: Connection reset")
