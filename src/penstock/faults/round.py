"""One round of every link, in one process and without Spark.

The planners, tasks and publishers are those that Spark's jobs run.
`carry` brings everything over that is committed up to now, as `penstock run FILE
--once` does, in two seconds instead of twenty: so a crash at each place can be
tried. `carry_apart` does it in a process of its own, which may be told to crash.
"""

from __future__ import annotations

import multiprocessing
import os
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.config.load import load
from penstock.links.capture.spec import CaptureSpec
from penstock.links.objects.plan import ObjectsPlan
from penstock.links.objects.publish import BatchPublisher
from penstock.links.objects.write import RangeWritten
from penstock.links.warehouse.load import WarehouseLoader
from penstock.spark.capture_tasks import CapturePlanner
from penstock.spark.objects_tasks import ObjectsLinkPlanner
from penstock.wiring.crash_points import require_known_point
from penstock.wiring.epochs import next_epoch
from penstock.wiring.files import batch_reader, files_from
from penstock.wiring.open import (
    OBJECTS_LINK,
    batch_topic,
    create_ledgers,
    open_pipeline_state,
    open_publisher,
    open_registry,
    open_topic_log,
)
from penstock.wiring.warehouses import open_sink

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.core.tables import TableId

_AT_ONCE: Final = 2
_CAPTURE_TASKS_MAX: Final = 8
_OFFSETS_PER_TASK: Final = 20
"""So few, for a round has few rows: large ranges are cut in pieces, and these are to be interrupted too."""
# Processes are forked from one that has everything imported (pandas is pyarrow's own wish), and no threads.
_FORKS: Final = multiprocessing.get_context("forkserver")
_WAREHOUSE: Final = ("penstock.adapters.duckdb.warehouse", "penstock.links.warehouse.sink")
_FORKS.set_forkserver_preload([__name__, "pandas", *_WAREHOUSE, "penstock.adapters.state.store"])


def carry_apart(file: Path, link: str, environment: dict[str, str], log: Path) -> int:
    """Carry the pipeline of `file` in another process, with `environment` added; its exit code, as Popen has it.

    What it has to say is in `log` afterwards.
    """
    process = _FORKS.Process(target=_apart, args=(file, link, environment, log))
    process.start()
    process.join()
    return int(process.exitcode or 0)


def _apart(file: Path, link: str, environment: dict[str, str], log: Path) -> None:
    os.environ.update(environment)
    with log.open("wb") as output:
        os.dup2(output.fileno(), 2)
        try:
            require_known_point()
            carry(load(file), link)
        except BaseException:
            output.write(traceback.format_exc().encode())
            raise


def carry(spec: PipelineSpec, link: str = "") -> None:
    """Run one link of `spec`, `capture`, `objects` or `warehouse`, or with "" each once, in this order.

    All servers of `spec` are named. Raises what links raise.
    """
    epoch = next_epoch(spec)
    create_ledgers(spec)
    for name, run in (("capture", _capture), ("objects", _write_files), ("warehouse", _load)):
        if link in {"", name}:
            run(spec, epoch)


def _capture(spec: PipelineSpec, epoch: int) -> None:
    for source in spec.sources:
        planner = CapturePlanner(CaptureSpec(spec, source.name, epoch), _CAPTURE_TASKS_MAX)
        planner.fix_end()
        while planner.has_work():
            tasks = planner.plan()
            # Ranges wait for each other.
            with ThreadPoolExecutor(len(tasks)) as threads:
                for _ in threads.map(_exhaust, [task.run() for task in tasks]):
                    pass


def _exhaust(outcomes: Iterator[object]) -> None:
    for _ in outcomes:
        pass


def _write_files(spec: PipelineSpec, epoch: int) -> None:
    planner = ObjectsLinkPlanner(spec, _AT_ONCE, _OFFSETS_PER_TASK)
    publisher = BatchPublisher(open_publisher(spec, OBJECTS_LINK, epoch), batch_topic(spec), epoch)
    with closing(publisher):
        while planner.has_work():
            outcomes = [outcome for task in planner.plan() for outcome in task.run()]
            plan = next(outcome for outcome in outcomes if isinstance(outcome, ObjectsPlan))
            publisher.publish(plan, [outcome for outcome in outcomes if isinstance(outcome, RangeWritten)])


def _load(spec: PipelineSpec, _epoch: int) -> None:
    topic = batch_topic(spec)
    for link in spec.links:
        with closing(open_pipeline_state(spec)) as state, closing(open_topic_log(spec)) as log:
            name = f"{link.source}-to-{link.sink}"
            wanted = partial(_is_wanted, link)
            loader = WarehouseLoader(
                name, open_sink(spec, link), open_registry(spec), state, wanted, batch_reader(spec)
            )
            with closing(loader):
                start, end = loader.start(files_from(spec)), log.ends([(topic, 0)])[topic, 0]
                for messages in log.read(topic, 0, start, end):
                    loader.load(messages)


def _is_wanted(link: LinkSpec, source: str, table: TableId) -> bool:
    return source == link.source and link.patterns.matches(table)
