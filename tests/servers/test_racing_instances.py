"""Two instances of a pipeline of which each falls asleep while it leads: every change is published once."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest
from tests.servers.crash_case import making_crash_cases

from penstock.adapters.lock.zookeeper import ZookeeperLock
from penstock.adapters.lock.zookeeper_client import ZookeeperPlace
from penstock.faults.racing import start_racer
from penstock.faults.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from multiprocessing.process import BaseProcess
    from pathlib import Path

    from tests.servers.crash_case import CrashCase

    from penstock.dev.zookeeper import ZookeeperServer
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

_EXPIRIES = int(os.environ.get("PENSTOCK_TEST_EXPIRIES", "8"))
_SESSION_SECONDS = 1.0
_TAKE_OVER_SECONDS_MAX = 120.0


@pytest.fixture(scope="module")
def make_crash_case(
    tmp_path_factory: pytest.TempPathFactory,
    mariadb: MariadbServer,
    tracker_server: MariadbServer,
    kafka: KafkaBroker,
    schematizer: str,
) -> Iterator[Callable[..., CrashCase]]:
    """Make a pipeline with an empty tracker, and its source's tables in a database of that name."""
    yield from making_crash_cases(tmp_path_factory, mariadb, tracker_server, kafka, schematizer)


@pytest.mark.nightly
def test_two_instances_that_fall_asleep_by_turns_publish_every_change_once(
    make_crash_case: Callable[..., CrashCase],
    zookeeper: ZookeeperServer,
    fresh_name: str,
    tmp_path: Path,
) -> None:
    case = make_crash_case(
        fresh_name, lock={"zookeeper": f"{zookeeper.address}/racing", "session_seconds": _SESSION_SECONDS}
    )
    case.write("before")
    case.carry()
    lock = ZookeeperLock(ZookeeperPlace(zookeeper.address, "/racing", _SESSION_SECONDS), fresh_name)
    racers = [start_racer(case.file, tmp_path / f"racer-{number}.log") for number in range(2)]
    try:
        with Workload(case.connect, "while they race"):
            slept = [_let_leader_sleep(case, lock, racers) for _ in range(_EXPIRIES)]
        assert set(slept) == {racer.pid for racer in racers}
    except AssertionError as error:
        message = f"{error}\n{_where_they_are(racers, tmp_path)}"
        raise AssertionError(message) from error
    finally:
        for racer in racers:
            racer.kill()
            racer.join()

    case.carry()
    case.assert_in_kafka_once()
    case.assert_in_warehouse()


def _let_leader_sleep(case: CrashCase, lock: ZookeeperLock, racers: Sequence[BaseProcess]) -> int:
    """Stop whoever leads until the other one has published rows, then let it go on; the process id of the sleeper."""
    pids = {f"pid {racer.pid} on ": racer.pid for racer in racers}
    sleeper = _leader(lock, pids)
    # It has published for a while, and is stopped wherever it is.
    time.sleep(1.5)
    os.kill(sleeper, signal.SIGSTOP)
    try:
        epoch, deadline = case.newest_record()["epoch"], time.monotonic() + _TAKE_OVER_SECONDS_MAX
        while (record := case.newest_record())["epoch"] == epoch or not record["rows"]:
            assert time.monotonic() < deadline, (sleeper, epoch, lock.holder(), record)
            time.sleep(0.1)
    finally:
        os.kill(sleeper, signal.SIGCONT)
    return sleeper


def _where_they_are(racers: Sequence[BaseProcess], logs: Path) -> str:
    """What the racers wrote, and where each of their threads is now."""
    for racer in racers:
        assert racer.pid is not None
        os.kill(racer.pid, signal.SIGUSR1)
    time.sleep(1.0)
    return "\n".join(f"--- {log.name}\n{log.read_text()}" for log in sorted(logs.glob("racer-*.log")))


def _leader(lock: ZookeeperLock, pids: Mapping[str, int | None]) -> int:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        holder = lock.holder()
        for who, pid in pids.items():
            if holder.startswith(who) and pid is not None:
                return pid
        time.sleep(0.1)
    raise AssertionError(holder)
