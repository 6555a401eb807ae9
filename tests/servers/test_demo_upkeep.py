"""The demo's processes are started again when somebody ends them, and never outlive the demo."""

from __future__ import annotations

import io
import os
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from penstock.adapters.lock.file import FileLock
from penstock.config.load import load
from penstock.core.errors import PenstockError, UnavailableError, UsageError
from penstock.demo.phases import DemoOptions
from penstock.demo.pipeline import PASSWORD, USER, DemoPipeline
from penstock.demo.run import run_demo
from penstock.demo.sources.pick import database_of
from penstock.demo.upkeep import Upkeep
from penstock.ports.state import LinkProgress
from penstock.wiring.open import open_pipeline_state

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def pipeline(tmp_path: Path) -> DemoPipeline:
    directory = tmp_path / "demo"
    directory.mkdir()
    return DemoPipeline(directory)


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def upkeep(pipeline: DemoPipeline, notes: list[str]) -> Iterator[Upkeep]:
    upkeep = Upkeep(pipeline, notes.append)
    yield upkeep
    upkeep.stop()


def test_a_killed_source_comes_back_with_its_data_and_port(
    upkeep: Upkeep, pipeline: DemoPipeline, notes: list[str]
) -> None:
    server = upkeep.start_source()
    database = database_of(server)
    database.create_login(USER, PASSWORD)
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE kept")
    source = upkeep._source
    assert source is not None

    os.kill(source.pid, 9)
    while source.alive():
        time.sleep(0.01)
    upkeep.look()

    with closing(database.connect()) as connection, connection.cursor() as cursor:
        assert cursor.execute("SHOW DATABASES LIKE 'kept'") == 1
    assert notes == ["MariaDB was ended: starting it again, it goes on where it was"]
    assert (pipeline.source_home / "port").read_text().strip() == str(server.port)


def test_a_pipeline_that_refuses_its_file_ends_the_demo_with_its_words(upkeep: Upkeep, pipeline: DemoPipeline) -> None:
    pipeline.file.write_text("pipeline: shop\nsurces: []\n")
    upkeep.start_pipeline()

    with pytest.raises(PenstockError, match="surces"):
        _look_until_it_raises(upkeep)


def test_a_pipeline_that_was_killed_is_started_again(upkeep: Upkeep, pipeline: DemoPipeline, notes: list[str]) -> None:
    server = upkeep.start_source()
    pipeline.write_file(server)
    upkeep.start_pipeline()
    first = upkeep._run
    assert first is not None

    os.kill(first.pid, 9)
    first.popen.wait(10)
    upkeep.look()

    second = upkeep._run
    assert second is not None
    assert second.alive()
    assert second.pid != first.pid
    assert notes == ["penstock run ended with exit code -9 (see run.log): starting it again, it goes on where it was"]

    upkeep.stop()
    assert not second.alive()


def test_a_link_that_stopped_ends_the_demo_with_its_reason(upkeep: Upkeep, pipeline: DemoPipeline) -> None:
    server = upkeep.start_source()
    database_of(server).create_login(USER, PASSWORD)
    pipeline.write_file(server)
    with closing(open_pipeline_state(load(pipeline.file))) as state:
        state.save_link(LinkProgress("shopdb", "", "failed", None, None, 0, "the log goes back to 0", "copy again"))
    upkeep.start_pipeline()

    with pytest.raises(PenstockError, match="link shopdb stopped: the log goes back to 0") as raised:
        _look_until_it_raises(upkeep)

    assert raised.value.hint == "copy again"


def test_nothing_is_asked_of_a_warehouse_that_is_not_open(pipeline: DemoPipeline) -> None:
    with pytest.raises(UnavailableError, match="has not opened the warehouse yet"):
        pipeline.query_running("SELECT 1")


def test_two_demos_do_not_share_a_directory(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "demo.lock")
    assert lock.acquire(0.0)

    with pytest.raises(UsageError, match="another demo uses"):
        run_demo(tmp_path / "demo", DemoOptions(), Console(file=io.StringIO()))

    assert not (tmp_path / "demo").exists()


def _look_until_it_raises(upkeep: Upkeep) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        upkeep.look()
        time.sleep(0.05)
