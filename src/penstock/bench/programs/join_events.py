"""Joins the events of files on Spark, as a join of a pipeline does it behind its decoding and before its publishing.

join_events FOLDER INPUTS COMMITS: the files of FOLDER/events in so many micro-batches.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.bench.marks import write_mark
from penstock.core.joins.blocks import pack_events, unpack_differences
from penstock.embedded.class_archive import spark_archive
from penstock.embedded.join_kernel import ensure_join_kernel
from penstock.embedded.unpacked_spark import unpacked_spark_home
from penstock.spark.join_kernel import BLOCKS, join_blocks, run_blocks, stateful_session
from penstock.spark.session import SessionSpec, close_session, open_session

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

_EVENTS = (
    "input short, op short, part int, position long, place long, place_row int,"
    " join_key binary, row_key binary, row binary"
)
_SLOTS = 2


class Packer:
    """Packs events, as `jobs.join_tasks.MessagePacker` does once it has decoded them. Travels to executors."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All events of a task together."""
        import pyarrow as pa  # noqa: PLC0415 - in the workers

        from penstock.core.joins.events import SCHEMA  # noqa: PLC0415 - as above

        events = [each for batch in batches for each in pa.Table.from_batches([batch]).cast(SCHEMA).to_batches()]
        if events:
            buckets, blocks = zip(*pack_events(events, "row_key"), strict=True)
            columns: dict[str, pa.Array[Any]] = {
                "bucket": pa.array(buckets, pa.int32()),
                "block": pa.array(blocks, pa.binary()),
            }
            yield pa.RecordBatch.from_pydict(columns)


def main(folder: Path, inputs: int, files_at_once: int) -> None:
    """Run the query to its end, and write marks as FlinkJoin.java does."""
    jars = (ensure_join_kernel(),)
    options = spark_archive().options()
    session = open_session(
        SessionSpec("penstock bench joinery", f"local[{_SLOTS}]", {}, jars, options, {}, unpacked_spark_home())
    )
    joined, commits = 0, 0

    def take(frame: Any, batch: int) -> None:  # noqa: ANN401 - PySpark is imported in spark/ alone
        nonlocal joined, commits
        differences = unpack_differences(run_blocks(frame, folder / "differences"), inputs)
        joined += sum(each["b0"].null_count - each["a0"].null_count for each in differences)
        if not commits:
            write_mark("first", batch)
        commits = batch + 1

    source = stateful_session(session).readStream.schema(_EVENTS).option("maxFilesPerTrigger", files_at_once)
    packed = source.parquet(str(folder / "events")).mapInArrow(Packer(), BLOCKS)
    # The rows of every input but the first move between join keys.
    remembered = (1 << inputs) - 2
    writer = join_blocks(packed, inputs, remembered).writeStream.option(
        "checkpointLocation", str(folder / "checkpoint")
    )
    writer.foreachBatch(take).trigger(availableNow=True).start().awaitTermination()
    write_mark("heap", _heap_bytes(session))
    close_session(session)
    write_mark("joined", joined)
    write_mark("commits", commits)
    files = (file for file in (folder / "checkpoint").rglob("*") if file.is_file())
    write_mark("bytes", sum(file.stat().st_size for file in files))


def _heap_bytes(session: Any) -> int:  # noqa: ANN401 - PySpark is imported in spark/ alone
    """What the JVM holds on to."""
    jvm = session._jvm  # noqa: SLF001 - PySpark has no other way to Java
    jvm.System.gc()
    return int(jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
