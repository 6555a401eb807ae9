"""Timing rows from commit to query."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from penstock.core.errors import UnavailableError
from penstock.demo.actions import Sample
from penstock.demo.latency import LatencyWatcher, percentile
from penstock.demo.workload import CommittedSample

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(("percent", "value"), [(50, 50), (99, 99), (100, 100), (1, 1)])
def test_a_percentile_is_one_of_the_values(percent: float, value: float) -> None:
    assert percentile(list(range(100, 0, -1)), percent) == value


def test_the_percentile_of_one_value_is_that_value() -> None:
    assert percentile([7.0], 99) == 7.0


class _Warehouse:
    """Answers with the keys that are there; away until it is put up."""

    def __init__(self) -> None:
        self.keys: set[int] = set()
        self.away = True
        self.asked: list[str] = []

    def __call__(self, sql: str) -> pa.Table:
        self.asked.append(sql)
        if self.away:
            message, hint = "away", "wait"
            raise UnavailableError(message, hint)
        found = [key for key in sorted(self.keys) if str(key) in sql]
        return pa.table(
            {"source_table": pa.array(["reviews"] * len(found), pa.string()), "id": pa.array(found, pa.int64())}
        )


def test_a_sample_counts_once_it_is_found() -> None:
    warehouse = _Warehouse()
    began = time.monotonic()
    samples = [[CommittedSample(Sample("reviews", key), time.monotonic()) for key in (101, 202)]]
    watcher = LatencyWatcher(warehouse, "shop", lambda: samples.pop() if samples else [], poll_seconds=0.01)
    watcher.start()

    _wait(lambda: len(warehouse.asked) > 2)
    before = watcher.latency()
    warehouse.keys = {101}
    warehouse.away = False
    _wait(lambda: "WHERE id IN (202)" in warehouse.asked[-1])
    after = watcher.latency()
    watcher.stop()

    assert (before.samples, before.pending, before.p50_ms) == (0, 2, None)
    assert (after.samples, after.pending) == (1, 1)
    assert after.p50_ms is not None
    assert 20 <= after.p50_ms <= (time.monotonic() - began) * 1_000


def test_nothing_is_asked_while_nothing_is_pending() -> None:
    warehouse = _Warehouse()
    watcher = LatencyWatcher(warehouse, "shop", list, poll_seconds=0.01)
    watcher.start()

    time.sleep(0.1)
    watcher.stop()

    assert warehouse.asked == []


def _wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.005)
