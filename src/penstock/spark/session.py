"""The Spark session of a pipeline."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from penstock.spark.loss import keep_losses_quiet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
"""How a query writes its checkpoint."""
_FILE_SYSTEM_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

_LOCAL_SLOTS_MIN = 8
"""A tail slice holds a task slot while it waits for changes, so a local master has more slots than cores."""

_FRUGAL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Xss4m -Xms64m"
"""The driver's JVM plans small batches: the best compiler costs more there than it gives back.

Nor does it wake twenty times a second to write down how it is, for jstat; jcmd and jstack work without that.
Its heap begins small and grows: by default it begins with a 64th of the machine's memory, all of which is used
before anything is collected.
"""

_NO_PROGRAM = f"{os.devnull}/none"
"""A path at which nothing can be.

With PYSPARK_DRIVER_PYTHON Spark's JVM does one thing only: it starts that Python
to look for data sources in installed packages (spark-sql's DataSourceManager),
most of a second of CPU before the first query, and leaves it where there is no
such program. Ours are registered. /dev/null itself would not do: to some shells
whatever exists is a program, and Spark then tries to start it.
"""


_TAKES_ANY_HOME = ("local", "spark://")
"""Masters whose processes find Spark's Python package by themselves; YARN is sent the archives of the driver's home."""

_PRINT_STACKS = (
    "sql.execution.streaming.runtime.MicroBatchExecution",
    "sql.execution.streaming.runtime.AsyncProgressTrackingMicroBatchExecution",
    "executor.Executor",
    "scheduler.TaskSetManager",
)
"""Loggers of Spark that print what ended a query or a task with up to eighty lines of stack.

Our supervisor says it in words, and has the stack in the log file.
"""


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """How to start Spark: `master` as Spark writes it, further `conf`, jars by path, and options of the driver's JVM.

    `executor_environment` is set for executors that do not inherit ours, which
    are those of a cluster; Spark never prints it. `home` is Spark's, unless
    SPARK_HOME is set or the master is of a kind that wants archives of one.
    Temporary files of the driver's JVM go to `scratch`, which has to be there; with None, to the system's folder.
    """

    name: str
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    jars: Sequence[Path] = ()
    java_options: Sequence[str] = ()
    executor_environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    home: Path | None = None
    scratch: Path | None = None


def open_session(spec: SessionSpec) -> SparkSession:
    """Start Spark, or return the session that this process has already.

    Everything listens on loopback when the master is local or on loopback.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = _NO_PROGRAM
    if spec.home is not None and spec.master.startswith(_TAKES_ANY_HOME):
        os.environ.setdefault("SPARK_HOME", str(spec.home))
    settings = {**_settings(spec), **spec.conf}
    if spec.executor_environment and not spec.master.startswith("local") and SparkContext._active_spark_context is None:  # noqa: SLF001
        # What a builder is given becomes arguments of the JVM, which every user of the machine may read; this does not.
        conf = SparkConf().setAppName(spec.name).setMaster(spec.master).setAll(list(settings.items()))
        SparkContext(conf=conf, environment=dict(spec.executor_environment))
    builder = SparkSession.builder.appName(spec.name).master(_master(spec.master))
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    keep_losses_quiet(session.sparkContext)
    _leave_ends_to_the_supervisor(session)
    return session


def give_secrets(session: SparkSession, secrets: Mapping[str, str]) -> None:
    """Let Python workers of sources that are registered from now on find `secrets` in their environment."""
    session.sparkContext.environment.update(secrets)


def _leave_ends_to_the_supervisor(session: SparkSession) -> None:
    log4j: Any = session.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # noqa: SLF001
    for name in _PRINT_STACKS:
        log4j.core.config.Configurator.setLevel(f"org.apache.spark.{name}", log4j.Level.OFF)


def close_session(session: SparkSession) -> None:
    """Stop Spark; a JVM that is gone needs no stopping."""
    with suppress(Py4JError, OSError):
        # Of tasks that it ends in the middle it would print what they could not let go of.
        session.sparkContext.setLogLevel("OFF")
        session.stop()


def kill_session(session: SparkSession) -> None:
    """End Spark's JVM as kill -9 would, and with it, within moments, every task of the session wherever it runs.

    For when nothing may be published any more. Python workers of a local Spark
    are ended by their daemon, which loses its other end; executors of a cluster
    end when they lose their driver.
    """
    gateway = session.sparkContext._gateway  # noqa: SLF001 - PySpark has no other way to its JVM's process
    if gateway is not None:
        gateway.proc.kill()


def await_end(session: SparkSession, seconds: float) -> None:
    """Stop Spark and wait until its JVM has ended by itself. Raises subprocess.TimeoutExpired after `seconds`."""
    gateway = session.sparkContext._gateway  # noqa: SLF001 - PySpark has no other way to its JVM's process
    close_session(session)
    if gateway is not None:
        # The JVM of a session ends when nobody writes to it any more.
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(seconds)


def _master(master: str) -> str:
    """Give a local master enough slots for tail slices that wait."""
    if master in {"local", "local[*]"}:
        return f"local[{max(_LOCAL_SLOTS_MIN, os.cpu_count() or 1)}]"
    return master


def _settings(spec: SessionSpec) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": " ".join([_FRUGAL, *spec.java_options, *_temporary(spec.scratch)]),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.pollingDelay": "25ms",
        "spark.sql.streaming.numRecentProgressUpdates": "4",
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
        # The other one starts ten processes for each file that it writes to a local disk, this one two.
        CHECKPOINT_FILES: _FILE_SYSTEM_CHECKPOINTS,
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
        "spark.task.maxFailures": "1",
        "spark.python.daemon.module": "penstock.spark.daemon",
        # How long the JVM and Python processes wait for each other; 15 s is short where all cores are busy.
        "spark.python.authenticate.socketTimeout": "60s",
        "spark.jars": ",".join(str(jar) for jar in spec.jars),
    }
    if not spec.master.startswith("local"):
        settings["spark.redaction.regex"] = "(?i)secret|password|token|access[.]?key|executorEnv"
    if spec.master.startswith("local") or "//127.0.0.1" in spec.master:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return settings


def _temporary(scratch: Path | None) -> list[str]:
    """Where the JVM puts what it would leave behind if it were killed; and Spark, where nothing else is set."""
    return [] if scratch is None else [f'"-Djava.io.tmpdir={scratch}"']
