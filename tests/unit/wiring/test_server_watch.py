"""What is written down of the embedded servers, which several threads tell of."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING

from penstock.config.load import parse
from penstock.wiring.open import open_history
from penstock.wiring.server_watch import ServerWatch

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

CONFIG = """\
pipeline: shop
sources:
  - {name: shopdb, kind: mysql, host: h, user: cdc, password_env: SHOP_PASSWORD, tables: [shop.*]}
sinks:
  - {name: warehouse, kind: duckdb, path: shop.duckdb}
links:
  - {from: shopdb, to: warehouse}
"""


def test_nothing_is_lost_of_what_several_threads_tell_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.wiring.server_watch.time", SimpleNamespace(time_ns=_slow_clock))
    watch = ServerWatch(parse(CONFIG, "shop.yaml", tmp_path))
    times = 5

    def tell() -> None:
        for server in ("Kafka", "Schematizer") * times:
            watch.tell(server, "starting")

    threads = [threading.Thread(target=tell) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted((each.server, each.restarts) for each in watch._servers.values()) == [
        (name, 4 * times - 1) for name in ("Kafka", "Schematizer")
    ]


def test_what_starts_again_in_a_process_that_begins_again_has_its_count(tmp_path: Path) -> None:
    watch = ServerWatch(parse(CONFIG, "shop.yaml", tmp_path))

    watch.tell("Spark", "starting", 2)
    starting = list(watch._servers.values())
    watch.tell("Spark", "running")

    assert [(each.state, each.restarts) for each in starting] == [("starting", 2)]
    assert [(each.state, each.restarts) for each in watch._servers.values()] == [("running", 2)]


def test_none_is_written_down_as_running_at_the_end_also_by_a_watch_that_is_busy_then(tmp_path: Path) -> None:
    spec = parse(CONFIG.replace("sources:", "home: home\nsources:", 1), "shop.yaml", tmp_path)
    with closing(open_history(spec)) as history, closing(sqlite3.connect(spec.home / "state.db")) as other:
        watch = ServerWatch(spec).__enter__()
        other.execute("BEGIN IMMEDIATE")
        watch.tell("Kafka", "running")
        _wait_until_taken(watch)
        # The watch waits for the lock with Kafka in its hands; the end comes meanwhile.
        ending = threading.Thread(target=watch.__exit__, args=(None, None, None))
        ending.start()
        time.sleep(0.3)
        other.rollback()
        ending.join()

        assert history.servers() == []


def _wait_until_taken(watch: ServerWatch) -> None:
    deadline = time.monotonic() + 10
    while watch._told.is_set():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def _slow_clock() -> int:
    """Let the other threads have their turn."""
    time.sleep(0.001)
    return time.time_ns()
