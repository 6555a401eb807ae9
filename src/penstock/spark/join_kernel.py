"""The kernel of joins in Spark: blocks of events in, blocks of differences out, with its state in RocksDB."""

from __future__ import annotations

import mmap
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
_PARTITIONS = 4
_STATE_STORE = "spark.sql.streaming.stateStore"
_SETTINGS = {
    f"{_STATE_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STATE_STORE}.rocksdb.trackTotalNumberOfRows": "false",
    # Of the messages that go to Python, and of the blocks that come back; other links have few rows, and large ones.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # Hadoop's own starts ten processes for each file of a checkpoint on a local disk.
    "fs.AbstractFileSystem.file.impl": "io.penstock.join.LocalFiles",
}


def stateful_session(session: SparkSession, parallelism: int | None = None) -> SparkSession:
    """A session beside `session` whose queries keep state as joins do: one that is begun, in so many partitions."""
    found = session.newSession()
    for key, value in _SETTINGS.items():
        found.conf.set(key, value)
    found.conf.set("spark.sql.shuffle.partitions", str(parallelism or _PARTITIONS))
    # A checkpoint that counts is written in Spark's own way for where it lies.
    found.conf.unset(CHECKPOINT_FILES)
    return found


def join_blocks(
    events: DataFrame, inputs: int, remembered: int, page_bytes: int = _PAGE_BYTES, *, optional: int = 0
) -> DataFrame:
    """One column of blocks of differences for the blocks of `events`, which are a stream.

    `remembered` has a bit for each input whose join keys are to be remembered; where
    one is set, events come in buckets of row keys, else of join keys. `optional` has
    one for each input that need not match. Raises UsageError if the session was
    started without the kernel's jar.
    """
    session: Any = events.sparkSession
    kernel = session._jvm.io.penstock.join.Kernel  # noqa: SLF001 - PySpark has no other way to Java
    if not callable(getattr(kernel, "join", None)):
        message = "Spark runs without the kernel of joins"
        raise UsageError(message, "start the pipeline again")
    joined = kernel.join(events._jdf, inputs, remembered, optional, BUCKETS, page_bytes).toDF()  # noqa: SLF001 - as above
    return DataFrame(joined, session)


def run_blocks(frame: DataFrame, folder: Path) -> list[memoryview]:
    """Run a micro-batch of `join_blocks`; its blocks, which are not in memory but in files that are gone by now.

    Tasks write below `folder`, wherever they run, in a folder of this run alone: those of another one, which may
    not know yet that it is over, have the same numbers.
    """
    session: Any = frame.sparkSession
    own = folder.absolute() / secrets.token_hex(8)
    own.mkdir(parents=True)
    try:
        files = session._jvm.io.penstock.join.Kernel.run(frame._jdf, str(own))  # noqa: SLF001 - as above
        return [block for file in files for block in _blocks(Path(file))]
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
