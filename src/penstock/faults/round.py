"""A pipeline, once through, in a process of its own that may be told to crash, and without Spark.

That takes two seconds instead of twenty: so a crash at each place can be tried.
"""

from __future__ import annotations

import multiprocessing
import os
import traceback
from typing import TYPE_CHECKING, Final

from penstock.config.load import load
from penstock.jobs.in_process import carry
from penstock.wiring.crash_points import require_known_point

if TYPE_CHECKING:
    from pathlib import Path

# Processes are forked from one that has everything imported (pandas is pyarrow's own wish), and no threads.
_FORKS: Final = multiprocessing.get_context("forkserver")
_WAREHOUSE: Final = ("penstock.adapters.duckdb.warehouse", "penstock.links.warehouse.sink")
_FORKS.set_forkserver_preload([__name__, "pandas", *_WAREHOUSE, "penstock.adapters.state.store"])


def carry_apart(file: Path, only: str | None, environment: dict[str, str], log: Path) -> int:
    """Run the pipeline of `file`, or one link, with `environment` added to ours; its exit code, as Popen has it.

    What it has to say is in `log` afterwards.
    """
    process = _FORKS.Process(target=_apart, args=(file, only, {**os.environ, **environment}, log))
    process.start()
    process.join()
    return int(process.exitcode or 0)


def _apart(file: Path, only: str | None, environment: dict[str, str], log: Path) -> None:
    os.environ.update(environment)
    with log.open("wb") as output:
        os.dup2(output.fileno(), 2)
        try:
            require_known_point()
            carry(load(file), only)
        except BaseException:
            output.write(traceback.format_exc().encode())
            raise
