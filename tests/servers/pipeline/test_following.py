"""While little comes, rows reach the target on real Spark without a micro-batch for each round."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import pytest

from penstock.core.errors import PenstockError
from penstock.jobs.objects_tasks import FOLLOWED_OFFSETS_MAX
from penstock.jobs.pipeline import run_pipeline
from penstock.jobs.runner import PipelineRun
from penstock.spark.runner import SparkRunner

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.pipeline.conftest import PipelineCase

ROUNDS = 12
BURST = 4 * FOLLOWED_OFFSETS_MAX
SECONDS = 120.0
STOP_SECONDS = 20.0


@dataclass
class Running:
    """A pipeline that runs in a thread until the block ends, as Ctrl-C would end it."""

    case: PipelineCase
    stopping: threading.Event = field(default_factory=threading.Event)

    def ensure(self) -> None:
        """Be asked by the supervisor whether servers are there."""
        if self.stopping.is_set():
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._thread.join(STOP_SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with pytest.raises(KeyboardInterrupt):
            run_pipeline(PipelineRun(self.case.spec, once=False, only=None), SparkRunner(self.case.session, self))

    def await_rows(self, count: int) -> None:
        deadline = time.monotonic() + SECONDS
        while self._rows() < count:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def _rows(self) -> int:
        try:
            (row,) = self.case.query(f"SELECT count(*) AS n FROM {self.case.database}.users")
        except PenstockError:
            return 0
        return int(str(row["n"]))

    def batches(self) -> dict[str, int]:
        """How many micro-batches each link has ended."""
        progress = {query.name: query.lastProgress for query in self.case.session.streams.active}
        return {str(name): -1 if last is None else last.batchId for name, last in progress.items()}


@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("spark")
def test_rows_flow_without_a_micro_batch_for_each_round(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case()
    case.write("CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(40))", "INSERT INTO users VALUES (0, 'first')")

    with Running(case) as running:
        running.await_rows(1)
        case.write("INSERT INTO users VALUES (1, 'second')")
        running.await_rows(2)
        before = running.batches()
        for number in range(ROUNDS):
            case.write(f"INSERT INTO users VALUES ({number + 2}, 'more')")
            running.await_rows(number + 3)
        after = running.batches()

    case.assert_equal()
    assert len(case.records("objects")) > ROUNDS
    assert {link: after[link] - before[link] for link in ("objects", "db-to-warehouse")} == {
        "objects": 0,
        "db-to-warehouse": 0,
    }


@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("spark")
def test_a_burst_goes_to_tasks_and_what_comes_behind_it_is_followed_again(
    make_case: Callable[..., PipelineCase],
) -> None:
    case = make_case()
    case.write("CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(40))", "INSERT INTO users VALUES (0, 'first')")

    with Running(case) as running:
        running.await_rows(1)
        case.write("INSERT INTO users VALUES (1, 'second')")
        running.await_rows(2)
        before = running.batches()["objects"]
        case.write(f"INSERT INTO users SELECT seq + 1, 'many' FROM seq_1_to_{BURST}")
        running.await_rows(BURST + 2)
        case.write(f"INSERT INTO users VALUES ({BURST + 2}, 'behind it')")
        running.await_rows(BURST + 3)
        burst = running.batches()["objects"]
        for number in range(ROUNDS):
            case.write(f"INSERT INTO users VALUES ({BURST + 3 + number}, 'more')")
            running.await_rows(BURST + 4 + number)
        after = running.batches()["objects"]

    case.assert_equal()
    assert (burst > before, after) == (True, burst)
