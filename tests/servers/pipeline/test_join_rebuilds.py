"""A join that is made again under load and kill -9: it goes on, is never empty, and is as SQL says at every record."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Self

import pytest
import yaml
from tests.servers.pipeline import test_left_joins
from tests.servers.pipeline.every_record import assert_joined_at_every_record, job_of
from tests.servers.pipeline.join_status import status_of
from tests.servers.pipeline.joined_reviews import BUSINESSES, REVIEWS, Workload, add_join, change_reviews
from tests.servers.pipeline.killing import kill_everything, wait_for
from typer.testing import CliRunner

from penstock.cli.joinery import app
from penstock.config.load import load
from penstock.embedded.reach import reach_embedded

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

    from tests.servers.pipeline.conftest import PipelineCase
    from tests.servers.pipeline.user_pipeline import UserPipeline

WAIT_SECONDS = 600.0
EXPECTED = (
    "SELECT r.biz_id, r.stars, b.city, r.review_id, b.name FROM user_review r"
    " JOIN business b ON r.biz_id = b.business_id ORDER BY r.review_id"
)


class Watch:
    """Counts the rows of the joined table again and again while a `with` block lasts."""

    def __init__(self, pipeline: UserPipeline, sql: str) -> None:
        """Count what `sql` gives."""
        self._pipeline, self._sql = pipeline, sql
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.looks, self.empty = 0, 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            rows = self._pipeline.rows(self._sql)
            if rows is not None:
                self.looks += 1
                self.empty += not rows


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_field_is_added_under_load_and_kill_9_and_no_target_sees_an_empty_table(user_pipeline: UserPipeline) -> None:
    pipeline = user_pipeline
    name = add_join(pipeline.file, pipeline.database)
    states = pipeline.home / "joins" / name
    rows = f"SELECT review_id FROM joined.{name}"
    pipeline.execute(BUSINESSES, REVIEWS, "INSERT INTO business SELECT seq, 'first', 'Ulm' FROM seq_100_to_3000")
    pipeline.execute("INSERT INTO user_review SELECT seq, seq, 1, '' FROM seq_1000_to_3000")
    with Workload(pipeline.connect, 5, change_by_names) as workload:
        running = pipeline.start()
        wait_for(lambda: bool(pipeline.rows(rows)), WAIT_SECONDS)
        with Watch(pipeline, rows) as watch:
            end(running)
            old = job_of(load(pipeline.file), name, 1)
            ask_for_names(pipeline.file, name)
            running = pipeline.start()
            wait_for(lambda: running.poll() is not None or "join published" in meanwhile(pipeline), WAIT_SECONDS)
            wait_for(lambda: running.poll() is not None or newest(states / "2" / "offsets") >= 0, WAIT_SECONDS)
            pipeline.execute("ALTER TABLE business ADD COLUMN phone VARCHAR(9) FIRST")
            kill_everything(running, pipeline.home)
            running = pipeline.start()
            wait_for(lambda: running.poll() is not None or not (states / "1").exists(), WAIT_SECONDS)
            time.sleep(5)
            kill_everything(running, pipeline.home)
    with closing(pipeline.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(EXPECTED)
        expected = [tuple(row) for row in cursor.fetchall()]

    assert pipeline.start("--once").wait(600) == 0

    assert (
        pipeline.rows(f"SELECT biz_id, stars, city, review_id, name FROM joined.{name} ORDER BY review_id") == expected
    )
    assert len(expected) > 1000
    assert workload.changes > 100
    assert watch.looks > 10
    assert watch.empty == 0
    assert "join published" in meanwhile(pipeline)
    with reach_embedded(load(pipeline.file), print) as reached:
        records = assert_joined_at_every_record(reached, name, {1: old})
    assert {each.generation for each in records} == {1, 2}


@pytest.mark.nightly
def test_a_step_and_what_reads_it_are_made_again_one_behind_the_other(make_case: Callable[..., PipelineCase]) -> None:
    case = test_left_joins.with_join(make_case(partitions=2))
    case.write(*test_left_joins.TABLES, *test_left_joins.FIRST)
    case.run_once()
    file, name = case.file.parent / "business.yaml", test_left_joins.name_of(case)
    file.write_text(file.read_text().replace("stars >= 4", "stars >= 1"))
    case.write("UPDATE review SET stars = 3 WHERE review_id = 10")
    told = CliRunner().invoke(app, ["rebuild", str(case.file), f"{name}_step1"])
    assert told.exit_code == 0, told.output

    case.run_once()

    with closing(case.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(test_left_joins.JOINED.replace("stars >= 4", "stars >= 1"))
        expected = [tuple(row) for row in cursor.fetchall()]
    columns = "business_id, name, owner_id, review_id, stars, review_id_key, owner"
    found = case.query(f"SELECT {columns} FROM joined.{name} ORDER BY 1, 6")
    assert [tuple(row.values()) for row in found] == expected
    assert [case.records(each)[-1]["generation"] for each in (name, f"{name}_step1")] == [2, 2]
    assert case.records(name)[-1]["follows"] == 1
    verified = CliRunner().invoke(app, ["verify", str(case.file)])
    assert verified.exit_code == 0, verified.output


@pytest.mark.nightly
def test_a_step_that_needs_a_new_topic_is_refused_before_it_is_made(make_case: Callable[..., PipelineCase]) -> None:
    case = test_left_joins.with_join(make_case())
    case.write(*test_left_joins.TABLES, *test_left_joins.FIRST)
    case.run_once()
    file, name = case.file.parent / "business.yaml", test_left_joins.name_of(case)
    before = file.read_text()
    join = yaml.safe_load(before)
    join["join"][1]["type"] = "inner"
    file.write_text(yaml.safe_dump(join))
    step = f"{name}_step1"
    asked = CliRunner().invoke(app, ["rebuild", str(case.file), step])
    assert asked.exit_code == 0, asked.output

    case.run_once()

    assert f"needs a new topic, and the step {name} reads the one that there is" in status_of(case, step)
    assert not (case.spec.home / "joins" / step / "2").exists()
    file.write_text(before)
    taken_back = CliRunner().invoke(app, ["rebuild", str(case.file), step, "--cancel"])
    assert taken_back.exit_code == 0, taken_back.output
    case.run_once()
    assert [case.records(each)[-1]["generation"] for each in (name, step)] == [1, 1]


def change_by_names(rng: Random) -> str:
    """Some change, also while businesses get a column."""
    return change_reviews(rng).replace("INTO business VALUES", "INTO business (business_id, name, city) VALUES")


def meanwhile(pipeline: UserPipeline) -> str:
    """What a pipeline has said since its join is made again, and until that was done."""
    _, _, said = (pipeline.directory / "run.log").read_text().partition("made again beside its output")
    return said.partition("goes on with its new state")[0]


def end(running: subprocess.Popen[bytes]) -> None:
    """Stop a pipeline as a user does."""
    running.send_signal(signal.SIGINT)
    running.wait(120)


def ask_for_names(file: Path, name: str) -> None:
    """Have names of businesses in the joined table from now on."""
    join = file.parent / "business_review.yaml"
    text = yaml.safe_load(join.read_text())
    text["join"][1]["exclude_fields"] = []
    join.write_text(yaml.safe_dump(text))
    told = CliRunner().invoke(app, ["rebuild", str(file), name])
    assert told.exit_code == 0, told.output


def newest(folder: Path) -> int:
    """The newest micro-batch of a checkpoint; -1 for none."""
    return max((int(file.name) for file in folder.glob("*") if file.name.isdigit()), default=-1)
