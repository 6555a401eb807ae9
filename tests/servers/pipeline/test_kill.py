"""`penstock run` as a user runs it: embedded servers, kill -9 of everything in mid-run, and the run after it."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Self

import pytest
import yaml
from tests.servers.kinds import first
from tests.servers.pipeline.joined_reviews import BUSINESSES, REVIEWS, Workload, add_join, fold, join_in_source
from tests.servers.pipeline.killing import alive, children_of_home, descendants, kill_everything, programs, wait_for

from penstock.config.load import load
from penstock.wiring.health import find_problems
from penstock.wiring.pipeline_status import read_status

if TYPE_CHECKING:
    import subprocess

    from tests.servers.pipeline.user_pipeline import UserPipeline

    from penstock.embedded.kafka import KafkaBroker

RUN_SECONDS = 240
ROWS = 3000


@pytest.fixture
def unembedded(
    user_pipeline: UserPipeline, chain_parts: tuple[KafkaBroker, str, int], monkeypatch: pytest.MonkeyPatch
) -> UserPipeline:
    """The same with servers that run already."""
    kafka, schematizer, tracker_port = chain_parts
    monkeypatch.setenv("CASE_WRONG_PASSWORD", "wrong")
    config = yaml.safe_load(user_pipeline.file.read_text())
    config |= {
        "kafka": {"bootstrap_servers": kafka.bootstrap_servers},
        "schematizer": {"url": schematizer},
        "tracker": {
            "host": "127.0.0.1",
            "port": tracker_port,
            "user": user_pipeline.server.user,
            "password_env": "CASE_PASSWORD",
        },
    }
    user_pipeline.file.write_text(yaml.safe_dump(config))
    return user_pipeline


@pytest.mark.timeout(900)
def test_nothing_is_lost_or_doubled_by_kill_9_of_everything_and_ctrl_c_ends_everything(
    user_pipeline: UserPipeline,
) -> None:
    pipeline = user_pipeline
    pipeline.execute(
        "CREATE TABLE counters (id INT PRIMARY KEY, version INT NOT NULL)",
        f"INSERT INTO counters SELECT seq, 0 FROM seq_1_to_{ROWS}",
    )
    running = pipeline.start()
    wait_for(lambda: pipeline.version_of_first_row() == 0)
    pipeline.execute(f"UPDATE counters SET version = version + 1 WHERE id <= {ROWS // 10}")
    wait_for(lambda: pipeline.version_of_first_row() == 1)
    for _ in range(29):
        pipeline.execute(f"UPDATE counters SET version = version + 1 WHERE id <= {ROWS // 10}")
        time.sleep(0.1)
    kill_everything(running, pipeline.home)
    pipeline.execute(
        f"INSERT INTO counters SELECT {ROWS} + seq, 0 FROM seq_1_to_100", "DELETE FROM counters WHERE id = 7"
    )

    running = pipeline.start()
    wait_for(lambda: pipeline.ids_from_7_on() == ROWS + 93)
    started = descendants(running.pid)
    running.send_signal(signal.SIGINT)

    assert running.wait(90) == 130
    assert "stopped; run again to go on" in (pipeline.directory / "run.log").read_text()
    wait_for(lambda: not alive(started) and not children_of_home(pipeline.home), seconds=30)
    assert pipeline.differences() == {"counters": 0}
    expected = [("r", row, 0) for row in range(1, ROWS + 1)]
    expected += [("u", row, version) for version in range(1, 31) for row in range(1, ROWS // 10 + 1)]
    expected += [("c", ROWS + row, 0) for row in range(1, 101)] + [("d", 7, 30)]
    assert sorted(pipeline.changes()) == sorted(expected)


@dataclass
class Trickle:
    """Rows that are committed one by one, some fifty a second, until the block ends."""

    pipeline: UserPipeline
    newest: int = 0
    stopping: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._write)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._thread.join()

    def _write(self) -> None:
        with closing(self.pipeline.connect()) as connection, connection.cursor() as cursor:
            while not self.stopping.wait(0.02):
                cursor.execute("INSERT INTO counters VALUES (%s, 0)", [self.newest + 1])
                self.newest += 1

    def await_followed(self) -> None:
        """Return when what is written now is in the warehouse, and what is written then, too."""
        for _ in range(2):
            wait_for(partial(self._is_there, self.newest))

    def _is_there(self, row: int) -> bool:
        return (self.pipeline.newest_id() or 0) >= row


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_nothing_is_lost_or_doubled_by_kill_9_again_and_again_while_rows_are_followed(
    user_pipeline: UserPipeline,
) -> None:
    pipeline = user_pipeline
    pipeline.execute("CREATE TABLE counters (id INT PRIMARY KEY, version INT NOT NULL)")
    with Trickle(pipeline) as trickle:
        for seconds in (0.3, 0.75, 1.1):
            running = pipeline.start()
            trickle.await_followed()
            time.sleep(seconds)
            kill_everything(running, pipeline.home)

    assert pipeline.start("--once").wait(RUN_SECONDS) == 0

    assert pipeline.differences() == {"counters": 0}
    assert sorted(row for _, row, _ in pipeline.changes()) == list(range(1, trickle.newest + 1))


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_run_goes_on_by_itself_after_kill_9_of_servers_that_start_and_of_sparks_jvm(
    user_pipeline: UserPipeline,
) -> None:
    pipeline = user_pipeline
    said = (pipeline.directory / "run.log").read_text
    pipeline.execute(
        "CREATE TABLE counters (id INT PRIMARY KEY, version INT NOT NULL)",
        "INSERT INTO counters SELECT seq, 0 FROM seq_1_to_200000",
    )

    running = pipeline.start("--once")
    _kill(running, "kafka/server.properties")
    for sign in ("carrying everything", "capture started"):
        wait_for(lambda sign=sign: running.poll() is not None or sign in said())  # type: ignore[misc]
        time.sleep(1)
        _kill(running, "SparkSubmit")
        wait_for(lambda: running.poll() is not None or _begins_without_spark(pipeline))

    assert running.wait(RUN_SECONDS) == 0, said()
    before, *after = said().split("Spark is lost; the run begins again")
    assert len(after) == 2, said()
    assert "was killed while it started (SIGKILL); it starts again" in before
    assert "Traceback" not in said()
    assert len("".join([before, after[0]]).splitlines()) < 2 * 15, said()
    # What is acknowledged is on the disk, for no other broker has it.
    assert "log.flush.interval.messages=1" in (pipeline.home / "kafka" / "server.properties").read_text()
    told = (pipeline.home / "logs" / "penstock.log").read_text().splitlines()
    assert sum("Traceback" in event for event in told) == 2
    assert pipeline.differences() == {"counters": 0}


def _begins_without_spark(pipeline: UserPipeline) -> bool:
    status = read_status(load(pipeline.file))
    return any(problem.subject == "Spark" for problem in find_problems(status, "shop.yaml"))


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_join_is_that_of_sql_after_kill_9_of_everything_under_a_workload(user_pipeline: UserPipeline) -> None:
    pipeline = user_pipeline
    name = add_join(pipeline.file, pipeline.database)
    pipeline.execute(BUSINESSES, REVIEWS, "INSERT INTO business VALUES (31, 'first', 'Ulm')")
    pipeline.execute("INSERT INTO user_review VALUES (1000, 31, 1, '')")
    joined = f"SELECT biz_id, stars, city, review_id FROM joined.{name} ORDER BY review_id"
    with Workload(pipeline.connect, 1) as workload:
        for _ in range(2):
            running = pipeline.start()
            _wait_for_change(pipeline, joined)
            time.sleep(5)
            kill_everything(running, pipeline.home)
    assert workload.changes > 100
    with closing(pipeline.connect()) as connection:
        expected = join_in_source(connection)

    assert pipeline.start("--once").wait(RUN_SECONDS) == 0

    assert pipeline.rows(joined) == expected
    assert fold(pipeline.images(f"{name}.joined.{name}")) == expected


@pytest.mark.parametrize(
    ("key", "value", "code", "words"),
    first(
        1,
        ("password_env", "CASE_WRONG_PASSWORD", 2, "was refused"),
        ("tables", ["nowhere.nothing"], 2, "has no table nowhere.nothing"),
        ("colour", "red", 2, "unknown key"),
    ),
)
def test_a_source_that_cannot_work_ends_the_run_with_a_reason(
    unembedded: UserPipeline, key: str, value: object, code: int, words: str
) -> None:
    user_pipeline = unembedded
    config = yaml.safe_load(user_pipeline.file.read_text())
    config["sources"][0][key] = value
    user_pipeline.file.write_text(yaml.safe_dump(config))

    ended = user_pipeline.start("--once").wait(RUN_SECONDS)

    log = (user_pipeline.directory / "run.log").read_text()
    assert (ended, words in log) == (code, True), log[-2000:]
    assert "what to do" in log


def _wait_for_change(pipeline: UserPipeline, sql: str) -> None:
    """Wait until the warehouse answers with rows, and then with others."""
    wait_for(lambda: pipeline.rows(sql) is not None)
    before = pipeline.rows(sql)
    wait_for(lambda: pipeline.rows(sql) != before)


def _kill(running: subprocess.Popen[bytes], program: str) -> None:
    """Kill -9 a program of a run as soon as it is there."""
    wait_for(lambda: running.poll() is not None or programs(running.pid, program) != [])
    os.kill(programs(running.pid, program)[0], signal.SIGKILL)
