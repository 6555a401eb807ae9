"""The kernel of joins in Spark: blocks of events in, blocks of differences out, with its state in RocksDB."""

from __future__ import annotations

import mmap
import os
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from penstock.core.errors import UsageError
from penstock.core.joins.blocks import BUCKETS
from penstock.spark.session import CHECKPOINT_FILES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

BLOCKS = "bucket int, block binary"
"""The columns of events: see core/joins/blocks.py."""

_PAGE_BYTES = 8192
_STATE_STORE = "spark.sql.streaming.stateStore"
_SETTINGS = {
    f"{_STATE_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STATE_STORE}.rocksdb.trackTotalNumberOfRows": "false",
    # Of the logs of changes, which are most of a checkpoint. A state that was begun with another codec keeps that.
    f"{_STATE_STORE}.compression.codec": "zstd",
    # What a power cut left of a snapshot of the state is passed over for the one before it, with the changes since.
    f"{_STATE_STORE}.autoSnapshotRepair.enabled": "true",
    # Of the messages that go to Python, and of the blocks that come back; other links have few rows, and large ones.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # Arrow's arrays of bytes end at 2 GiB, which blocks of large rows may come to together.
    "spark.sql.execution.arrow.maxBytesPerBatch": "64m",
    # Hadoop's own starts ten processes for each file of a checkpoint on a local disk.
    "fs.AbstractFileSystem.file.impl": "io.penstock.join.LocalFiles",
}
_PARTITIONS_MIN, _PARTITIONS_MAX = 2, 4


def stateful_session(session: SparkSession, parallelism: int | None = None) -> SparkSession:
    """A session beside `session` whose queries keep state as joins do.

    A state that is begun has so many partitions: with None, as many as run at once.
    """
    found = session.newSession()
    for key, value in _SETTINGS.items():
        found.conf.set(key, value)
    # Fixed with the first micro-batch of a state. Each costs two tasks and two files in every micro-batch.
    partitions = parallelism or _partitions(session.sparkContext.master)
    found.conf.set("spark.sql.shuffle.partitions", str(partitions))
    # A checkpoint that counts is written in Spark's own way for where it lies.
    found.conf.unset(CHECKPOINT_FILES)
    return found


def _partitions(master: str | None) -> int:
    """Of a state: as many as run at once here; a local Spark has more slots than processors."""
    cores = (os.cpu_count() or 1) if (master or "").startswith("local") else _PARTITIONS_MAX
    return min(max(cores, _PARTITIONS_MIN), _PARTITIONS_MAX)


def join_blocks(
    events: DataFrame, inputs: int, remembered: int, page_bytes: int = _PAGE_BYTES, *, optional: int = 0
) -> DataFrame:
    """One column of blocks of differences for the blocks of `events`, which are a stream.

    `remembered` has a bit for each input whose join keys are to be remembered; where
    one is set, events come in buckets of row keys, else of join keys. `optional` has
    one for each input that need not match. Raises UsageError if the session was
    started without the kernel's jar.
    """
    session = events.sparkSession
    joined = _kernel_in(session).join(events._jdf, inputs, remembered, optional, BUCKETS, page_bytes).toDF()  # noqa: SLF001 - PySpark has no other way to Java
    return DataFrame(joined, session)


def completed_blocks(events: DataFrame, partial: int) -> DataFrame:
    """The blocks of `events`, which are in buckets of row keys, with whole rows of the inputs of `partial`, a bit each.

    They are still to be made events of a join (jobs/join_tasks.CompletedPacker). Raises as `join_blocks`.
    """
    session = events.sparkSession
    return DataFrame(_kernel_in(session).complete(events._jdf, partial), session)  # noqa: SLF001 - as below


def _kernel_in(session: SparkSession) -> Any:  # noqa: ANN401 - as below
    """The kernel; UsageError if the session was started without its jar."""
    kernel = kernel_of(session)
    if not callable(getattr(kernel, "join", None)):
        message = "Spark runs without the kernel of joins"
        raise UsageError(message, "start the pipeline again")
    return kernel


def kernel_of(session: SparkSession) -> Any:  # noqa: ANN401 - py4j knows no types of Java
    """The kernel's class in Java: something else, which cannot be called, in a session without its jar.

    Asked for by its whole name: name by name, Java would look through all jars of Spark for a class
    called `io`, and then for `io.penstock`.
    """
    return getattr(session._jvm, "io.penstock.join.Kernel")  # noqa: SLF001 - PySpark has no other way to Java


def run_blocks(frame: DataFrame, folder: Path) -> list[memoryview]:
    """Run a micro-batch of `join_blocks`; its blocks, which are not in memory but in files that are gone by now.

    Tasks write below `folder`, wherever they run, in a folder of this run alone: those of another one, which may
    not know yet that it is over, have the same numbers.
    """
    own = folder.absolute() / secrets.token_hex(8)
    own.mkdir(parents=True)
    try:
        files = kernel_of(frame.sparkSession).run(frame._jdf, str(own))  # noqa: SLF001 - PySpark has no other way to Java
        return [block for file in files.split("\n") if file for block in _blocks(Path(file))]
    finally:
        # What is mapped stays until nobody looks at it.
        shutil.rmtree(own, ignore_errors=True)


def _blocks(file: Path) -> Iterator[memoryview]:
    """The blocks of a file that jvm/join/BlockFiles.java wrote."""
    with file.open("rb") as opened:
        content = memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
    at = 0
    while at < len(content):
        end = at + 4 + int.from_bytes(content[at : at + 4])
        yield content[at + 4 : end]
        at = end
