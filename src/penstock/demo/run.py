"""The demo from end to end, with everything that it starts ended again."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from typing import TYPE_CHECKING

from penstock.adapters.lock.file import FileLock
from penstock.core.errors import UsageError
from penstock.demo.phases import DemoOptions, Phases
from penstock.demo.pipeline import DemoPipeline
from penstock.demo.report import print_next_steps, print_result
from penstock.demo.upkeep import Upkeep
from penstock.demo.view import Page

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console


def run_demo(directory: Path, options: DemoOptions, console: Console, source: str = "mysql") -> bool:
    """Run the demo with all of its data below `directory`, and print what came of it.

    Return whether source and warehouse are equal. Data of an earlier demo there is
    deleted. Whatever ends this function, nothing that it started runs on. Raises
    UsageError while another demo uses `directory`, and PenstockError when a
    server cannot be started or does not come back.
    """
    pipeline = DemoPipeline(directory.resolve(), source)
    with ExitStack() as stack:
        _own(pipeline, console, stack)
        page = stack.enter_context(Page(console))
        upkeep = Upkeep(pipeline, page.note)
        stack.callback(upkeep.stop)
        result = Phases(pipeline, options, page, upkeep).run()
    print_result(console, result)
    print_next_steps(console, pipeline)
    return result.is_equal


def _own(pipeline: DemoPipeline, console: Console, stack: ExitStack) -> None:
    """Take the directory for us alone, and empty it."""
    lock = FileLock(pipeline.directory.with_name(f"{pipeline.directory.name}.lock"))
    if not lock.acquire(0.0):
        message = f"another demo uses {pipeline.directory} ({lock.holder()})"
        raise UsageError(message, "wait until it ends, or start this one in another directory")
    stack.callback(lock.release)
    if pipeline.directory.exists():
        console.print(f"deleting the data of the demo before: {pipeline.directory}", highlight=False, soft_wrap=True)
        shutil.rmtree(pipeline.directory)
    pipeline.directory.mkdir(parents=True)
