"""The leader's lock in a real ZooKeeper: who leads, who follows, and every way to lose it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from penstock.adapters.lock.zookeeper import ZookeeperLock, line_path
from penstock.adapters.lock.zookeeper_client import ZookeeperPlace
from penstock.cli.leading import leading
from penstock.core.errors import LockLostError, UnavailableError, UsageError
from penstock.dev.zookeeper import start_zookeeper
from penstock.embedded.ports import LOOPBACK, free_port
from penstock.wiring.waiting import wait_for_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.dev.zookeeper import ZookeeperServer
    from penstock.embedded.mariadb import MariadbServer
    from penstock.ports.lock import Lock

_HOLD = """
import sys, time
from penstock.adapters.lock.zookeeper import ZookeeperLock
from penstock.adapters.lock.zookeeper_client import ZookeeperPlace
lock = ZookeeperLock(ZookeeperPlace(sys.argv[1], "", 1.0), sys.argv[2])
lock.tell_loss(lambda reason: print(reason, flush=True))
print(lock.acquire(0), flush=True)
time.sleep(120)
"""


class Losses:
    """What a lock's listener was told."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self._told = threading.Event()

    def __call__(self, reason: str) -> None:
        self.reasons.append(reason)
        self._told.set()

    def wait(self) -> list[str]:
        assert self._told.wait(20)
        return self.reasons


@pytest.fixture
def place(zookeeper: ZookeeperServer) -> ZookeeperPlace:
    return ZookeeperPlace(zookeeper.address, "", 1.0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.adapters.lock.zookeeper_client._CONNECT_SECONDS", 1.0)


@pytest.fixture
def outside(zookeeper: ZookeeperServer) -> Iterator[KazooClient]:
    """A plain client, for what an operator may do to our nodes."""
    client = KazooClient(zookeeper.address)
    client.start()
    yield client
    client.stop()
    client.close()


def _hold_elsewhere(place: ZookeeperPlace, pipeline: str) -> subprocess.Popen[str]:
    """Start a process that holds the lock, and wait until it does."""
    command = [sys.executable, "-c", _HOLD, place.servers, pipeline]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    return holder


def test_only_one_leads_and_the_next_in_line_follows(place: ZookeeperPlace, fresh_name: str) -> None:
    first, second, third = (ZookeeperLock(place, fresh_name) for _ in range(3))
    locks: list[Lock] = [first, second, third]

    assert [lock.acquire(0.1) for lock in locks] == [True, False, False]
    assert first.acquire(0)
    first.release()
    first.release()
    assert not third.acquire(0.1)
    assert second.acquire(10)
    second.release()
    assert third.acquire(10)
    third.release()


def test_waiting_ends_in_the_moment_in_which_the_leader_lets_go(place: ZookeeperPlace, fresh_name: str) -> None:
    first, second = ZookeeperLock(place, fresh_name), ZookeeperLock(place, fresh_name)
    first.acquire(0)
    letting_go = threading.Timer(0.5, first.release)
    letting_go.start()

    assert second.acquire(60)

    letting_go.join()
    second.release()


def test_everybody_can_ask_who_leads(place: ZookeeperPlace, fresh_name: str) -> None:
    lock, waiting = ZookeeperLock(place, fresh_name), ZookeeperLock(place, fresh_name)
    assert waiting.holder() == ""

    lock.acquire(0)
    waiting.acquire(0)

    pattern = rf"pid {os.getpid()} on {socket.gethostname()} since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
    assert re.fullmatch(pattern, ZookeeperLock(place, fresh_name).holder())
    assert waiting.holder() == lock.holder() == ZookeeperLock(place, fresh_name).holder()
    lock.release()
    waiting.release()
    assert ZookeeperLock(place, fresh_name).holder() == ""


def test_a_leader_that_is_killed_is_followed_within_its_session(place: ZookeeperPlace, fresh_name: str) -> None:
    lock = ZookeeperLock(place, fresh_name)
    with _hold_elsewhere(place, fresh_name) as holder:
        assert not lock.acquire(0.2)
        assert lock.holder().startswith(f"pid {holder.pid} on ")
        holder.send_signal(signal.SIGKILL)

    assert lock.acquire(10)
    lock.release()


def test_a_leader_that_slept_learns_that_it_no_longer_leads(place: ZookeeperPlace, fresh_name: str) -> None:
    lock = ZookeeperLock(place, fresh_name)
    with _hold_elsewhere(place, fresh_name) as holder:
        try:
            holder.send_signal(signal.SIGSTOP)
            assert lock.acquire(20)
            holder.send_signal(signal.SIGCONT)

            assert holder.stdout is not None
            assert re.search("was lost|was deleted", holder.stdout.readline())
            assert lock.holder().startswith(f"pid {os.getpid()} on ")
        finally:
            holder.kill()
    lock.release()


def test_the_lock_is_lost_when_the_server_goes_and_can_be_had_again_when_it_is_back(tmp_path: Path) -> None:
    losses = Losses()
    with start_zookeeper(tmp_path) as server:
        lock = ZookeeperLock(ZookeeperPlace(server.address, "", 2.0), "shop")
        lock.acquire(0)
        lock.tell_loss(losses)
        server.kill()

        assert losses.wait() == [f"the connection to ZooKeeper at {server.address} was lost"]
        lock.release()
    with start_zookeeper(tmp_path) as server:
        again = ZookeeperLock(ZookeeperPlace(server.address, "", 2.0), "shop")
        # The server keeps the old session until its time is up.
        assert again.acquire(20)
        again.release()
    assert len(losses.reasons) == 1


@pytest.mark.nightly
def test_a_server_that_hangs_costs_the_lock_before_its_session_ends(tmp_path: Path) -> None:
    losses = Losses()
    with start_zookeeper(tmp_path) as server:
        lock = ZookeeperLock(ZookeeperPlace(server.address, "", 9.0), "shop")
        lock.acquire(0)
        lock.tell_loss(losses)
        os.kill(server.pid, signal.SIGSTOP)
        began = time.monotonic()
        try:
            assert "was lost" in losses.wait()[0]
            assert time.monotonic() - began < 9.0
        finally:
            os.kill(server.pid, signal.SIGCONT)
        lock.release()


@pytest.mark.nightly
def test_an_instance_that_waits_outlives_a_restart_of_the_server(tmp_path: Path) -> None:
    with start_zookeeper(tmp_path) as server:
        place = ZookeeperPlace(server.address, "", 1.0)
        leader, waiting = ZookeeperLock(place, "shop"), ZookeeperLock(place, "shop")
        leader.acquire(0)
        assert not waiting.acquire(0)
        server.kill()
        with pytest.raises(UnavailableError, match=f"ZooKeeper at {server.address} does not answer"):
            waiting.acquire(1.0)
    with start_zookeeper(tmp_path):
        leader.release()
        assert wait_for_answer(lambda: waiting.acquire(20), lambda _: None)
        waiting.release()


@pytest.mark.parametrize("how", ["deleted", "changed"])
def test_a_node_that_somebody_touches_is_a_lost_lock(
    place: ZookeeperPlace, fresh_name: str, outside: KazooClient, how: str
) -> None:
    lock, losses = ZookeeperLock(place, fresh_name), Losses()
    lock.acquire(0)
    lock.tell_loss(losses)
    folder = line_path("", fresh_name)
    (node,) = outside.get_children(folder)

    if how == "deleted":
        outside.delete(f"{folder}/{node}")
    else:
        outside.set(f"{folder}/{node}", b"mine")

    assert losses.wait() == [f"this instance's node under {folder} in ZooKeeper was deleted or changed"]
    lock.release()


def test_a_loss_is_told_to_whoever_asks_later_too(place: ZookeeperPlace, fresh_name: str, outside: KazooClient) -> None:
    lock, losses, later = ZookeeperLock(place, fresh_name), Losses(), Losses()
    lock.acquire(0)
    lock.tell_loss(losses)
    outside.delete(line_path("", fresh_name), recursive=True)
    losses.wait()

    lock.tell_loss(later)

    assert later.reasons == losses.reasons
    lock.release()


def test_letting_go_is_no_loss_and_takes_nothing_from_the_next(place: ZookeeperPlace, fresh_name: str) -> None:
    first, second, losses = ZookeeperLock(place, fresh_name), ZookeeperLock(place, fresh_name), Losses()
    first.acquire(0)
    first.tell_loss(losses)

    first.release()

    assert losses.reasons == []
    assert second.acquire(0)
    first.release()
    assert second.holder().startswith(f"pid {os.getpid()}")
    second.release()


def test_a_node_that_somebody_deletes_while_we_wait_is_made_again(
    place: ZookeeperPlace, fresh_name: str, outside: KazooClient
) -> None:
    first, second = ZookeeperLock(place, fresh_name), ZookeeperLock(place, fresh_name)
    first.acquire(0)
    second.acquire(0)
    outside.delete(line_path("", fresh_name), recursive=True)

    assert second.acquire(10)

    first.release()
    second.release()


def test_a_path_that_is_not_there_is_made(place: ZookeeperPlace, fresh_name: str, outside: KazooClient) -> None:
    below = ZookeeperPlace(place.servers, f"/not/there/{fresh_name}", 1.0)
    lock = ZookeeperLock(below, "sch/ön")

    assert lock.acquire(0)

    assert outside.get_children(f"/not/there/{fresh_name}/penstock") == ["sch%2F%C3%B6n"]
    lock.release()


def test_a_path_where_we_may_not_work_is_named(place: ZookeeperPlace, fresh_name: str, outside: KazooClient) -> None:
    outside.create(f"/{fresh_name}", acl=[make_digest_acl("ops", "secret", all=True)])
    forbidden = ZookeeperLock(ZookeeperPlace(place.servers, f"/{fresh_name}", 1.0), "shop")

    with pytest.raises(UsageError, match=f"refused access to /{fresh_name}"):
        forbidden.acquire(0)
    forbidden.release()


@pytest.mark.usefixtures("impatient")
def test_a_server_that_is_not_there_is_named() -> None:
    port = free_port()

    with pytest.raises(UnavailableError, match=f"ZooKeeper at 127.0.0.1:{port} does not answer"):
        ZookeeperLock(ZookeeperPlace(f"127.0.0.1:{port}", "", 1.0), "shop").acquire(0)


@pytest.mark.usefixtures("impatient")
def test_a_server_of_another_kind_is_named(mariadb: MariadbServer) -> None:
    place = ZookeeperPlace(f"{mariadb.host}:{mariadb.port}", "", 1.0)

    with pytest.raises(UnavailableError, match=f"ZooKeeper at {place.servers} does not answer"):
        ZookeeperLock(place, "shop").holder()


@pytest.mark.usefixtures("impatient")
def test_a_server_that_accepts_and_says_nothing_is_named() -> None:
    with socket.create_server((LOOPBACK, 0)) as mute:
        port = mute.getsockname()[1]

        with pytest.raises(UnavailableError, match=f"ZooKeeper at 127.0.0.1:{port} does not answer"):
            ZookeeperLock(ZookeeperPlace(f"{LOOPBACK}:{port}", "", 1.0), "shop").holder()


def test_one_server_of_several_is_enough(place: ZookeeperPlace, fresh_name: str) -> None:
    several = ZookeeperPlace(f"{LOOPBACK}:{free_port()},{place.servers}", "", 2.0)

    lock = ZookeeperLock(several, fresh_name)

    assert lock.acquire(0)

    lock.release()


def test_whatever_ends_a_run_after_its_lock_was_lost_the_lock_is_the_reason(
    place: ZookeeperPlace, fresh_name: str, outside: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cli.leading._END_SECONDS", 3600.0)
    stopped = threading.Event()

    def run() -> None:
        with leading(fresh_name, ZookeeperLock(place, fresh_name), pytest.fail, None) as leadership:
            leadership.at_loss(stopped.set)
            outside.delete(line_path("", fresh_name), recursive=True)
            assert stopped.wait(20)
            text = "Spark's JVM is gone"
            raise ConnectionError(text)

    with pytest.raises(LockLostError, match=r"this instance's node under .* was deleted or changed"):
        run()

    assert ZookeeperLock(place, fresh_name).holder() == ""


@pytest.mark.nightly
def test_an_instance_that_stands_by_tells_when_nobody_can_be_asked_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cli.leading._LOOK_SECONDS", 0.5)
    said: list[str] = []
    took_over = threading.Event()
    with start_zookeeper(tmp_path) as server:
        place = ZookeeperPlace(server.address, "", 1.0)
        leader = ZookeeperLock(place, "shop")
        leader.acquire(0)

        def stand_by() -> None:
            with leading("shop", ZookeeperLock(place, "shop"), said.append, lambda: None):
                took_over.set()

        waiting = threading.Thread(target=stand_by)
        waiting.start()
        _wait_for(lambda: any(line.startswith("standing by") for line in said))
        server.kill()
        _wait_for(lambda: any("does not answer" in line for line in said))
    with start_zookeeper(tmp_path):
        leader.release()
        assert took_over.wait(30)
        waiting.join()
    assert said[-1] == "taking over"


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
