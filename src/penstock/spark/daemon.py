"""Forks Spark's Python workers, with everything imported that our tasks need.

Spark starts this module in place of `pyspark.daemon` (`spark.python.daemon.module`)
and it forks a worker for each task that runs at the same time. What is imported
before the fork is there in every worker: each would otherwise spend about a
second on it.
"""

from __future__ import annotations

import gc
import importlib
import sys

from pyspark.daemon import manager

from penstock.spark.pandas_left_out import is_left_out

_TASKS = "pyspark.worker"
# Clients are only imported here, never made: nothing that has threads may be forked.
_NEEDED_BY_TASKS = (
    "httpcore",  # httpx imports it when it makes a client
    "pyarrow.compute",
    "penstock.adapters.registry.client",
    "penstock.adapters.state.store",
    "penstock.config.specs",
    "penstock.jobs.objects_tasks",
    "penstock.links.objects.write",
    "penstock.links.spolts.process",
    "penstock.spark.link_tasks",
    "penstock.wiring.backlog",
    "penstock.wiring.files",
)


def import_for_tasks() -> None:
    """Import what every task of ours needs."""
    if not is_left_out():
        importlib.import_module("pandas")
    for name in _NEEDED_BY_TASKS:
        importlib.import_module(name)


def main(worker_module: str) -> None:
    """Import what workers of this kind need, then serve them."""
    if worker_module == _TASKS:
        import_for_tasks()
        # What was imported is never garbage: without this each worker looks through all of it now and then.
        gc.collect()
        gc.freeze()
    manager()


if __name__ == "__main__":
    main(sys.argv[1])
