"""The faults there are. Each breaks one thing, for a while or for good, and then everything is as it should be."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError
from penstock.core.snapshots import Method
from penstock.faults.joined import await_micro_batch, await_rebuild, lose_states, make_again
from penstock.faults.kept_wal import await_drained, fill_log
from penstock.faults.snapshots import begin_snapshot, end_snapshot, is_under_way
from penstock.faults.world import SESSION_SECONDS, World
from penstock.wiring.crash_points import crash_points

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from penstock.faults.broken import BrokenPipeline
    from penstock.faults.instances import Instances

_CRASH_SECONDS: Final = 15.0
_CRASH_AT_START_SECONDS: Final = 240.0
_WHOLE_INSTANCE_SHARE: Final = 0.5
_POLL_SECONDS: Final = 0.1
_ELSEWHERE: Final = ("start.", "watermarks.", "retention.", "lake.", "skip.", "fill.", "snapshot.")
"""First starts, publishing without transactions, old files, Delta tables, changes that somebody passes over, targets
that come later: tests of their own go there.

Those of snapshots are passed in a snapshot only: see `_IN_SNAPSHOT`.
"""
_STATEMENTS: Final = ("statement.", "tracker.")
_TRACKER_IN_ALTER: Final = "kill -9 of the tracker in the middle of an ALTER"
_FILL_BYTES: Final = 65_536
_REBUILD_SECONDS: Final = 12.0
"""About as long as a rebuild of what a suite has written takes."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a fault happens; `random` decides what it may choose."""

    world: World
    random: random.Random
    number: int


@dataclass(frozen=True, slots=True)
class Fault:
    """A thing that breaks. `run` returns when it is mended; False if it did not come to pass."""

    name: str
    run: Callable[[Scene], bool]


def all_faults(broken: BrokenPipeline, *, with_full_disk: bool) -> Sequence[Fault]:
    """Every fault of a pipeline, in a fixed order; those of a full disk need a small one under the state database."""
    source, parts = broken.source, broken.parts
    faults = [
        Fault("kill -9 of the driver", _kill_driver),
        Fault("kill -9 of Spark's JVM", _kill_jvm),
        Fault("kill -9 of a Python worker", _kill_worker),
        Fault("kill -9 of the leader, all of it", _kill_leader),
        Fault("the leader sleeps past its session, and wakes", _sleep),
        *(Fault(f"kill -9 of {_THE[part]}", partial(_kill_server, part)) for part in parts),
        *([Fault(_TRACKER_IN_ALTER, _kill_tracker_in_alter)] if source.has_tracker else []),
        *(
            Fault(f"{name}: {part}", partial(run, part))
            for name, run in (
                ("connections cut", _cut),
                ("connections refused", _refuse),
                ("connections half closed", _half_close),
                ("network drops everything", _stall),
                ("network is slow", _delay),
            )
            for part in parts
        ),
    ]
    faults += [Fault(f"{name} in a snapshot", partial(_in_snapshot, run)) for name, run in _IN_SNAPSHOT]
    if source.has_slot:
        faults.append(Fault("the WAL that the slot may keep is nearly full", _fill_log))
    if with_full_disk:
        faults.append(Fault("the disk of the state database is full", _fill_disk))
    if broken.has_join:
        faults += [
            *(Fault(f"{name} in a micro-batch of the join", partial(_in_micro_batch, run)) for name, run in _IN_JOIN),
            *(Fault(f"{name} while the join is made again", partial(_in_rebuild, run)) for name, run in _IN_JOIN),
            Fault("the state of the join is lost", _lose_join),
        ]
    elsewhere = (*_ELSEWHERE, *source.unreached)
    points = [name for name in crash_points() if not name.startswith(elsewhere) and name not in _RESTORES]
    return [*faults, *(Fault(f"crash at {point}", partial(_crash, point)) for point in points)]


_THE: Final = {
    "source": "the source",
    "second source": "the second source",
    "second target": "the PostgreSQL target",
    "tracker": "the schema tracker",
    "second tracker": "the second schema tracker",
    "kafka": "the broker",
    "schematizer": "the Schematizer",
    "zookeeper": "ZooKeeper",
}
_RESTORES: Final = ("statement.restored", "tracker.emptied")
"""Reached only behind another crash: tests of their own go there."""


def _kill_driver(scene: Scene) -> bool:
    os.kill(scene.world.instances.leader().child.pid, signal.SIGKILL)
    return True


def _kill_jvm(scene: Scene) -> bool:
    pid = scene.world.instances.leader().jvm()
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
    return pid is not None


def _kill_worker(scene: Scene) -> bool:
    workers = scene.world.instances.leader().workers()
    if workers:
        with suppress(ProcessLookupError):
            os.kill(scene.random.choice(workers), signal.SIGKILL)
    return bool(workers)


def _kill_leader(scene: Scene) -> bool:
    scene.world.instances.leader().kill()
    return True


def _sleep(scene: Scene) -> bool:
    leader = scene.world.instances.leader()
    leader.signal(signal.SIGSTOP)
    time.sleep(2 * SESSION_SECONDS + scene.random.uniform(0, 4))
    leader.signal(signal.SIGCONT)
    return True


def _kill_server(part: str, scene: Scene) -> bool:
    scene.world.kill(part)
    time.sleep(scene.random.uniform(0, 3))
    scene.world.restart(part)
    return True


_IN_JOIN: Final = (
    ("kill -9 of the driver", _kill_driver),
    ("kill -9 of Spark's JVM", _kill_jvm),
    ("kill -9 of a Python worker", _kill_worker),
    ("kill -9 of the broker", partial(_kill_server, "kafka")),
)


def _in_micro_batch(run: Callable[[Scene], bool], scene: Scene) -> bool:
    await_micro_batch(scene.world.instances.leader().home)
    time.sleep(scene.random.uniform(0, 0.5))
    return run(scene)


def _in_rebuild(run: Callable[[Scene], bool], scene: Scene) -> bool:
    leader, output = scene.world.instances.leader(), scene.world.joined
    leader.kill()
    if output is not None:
        make_again(leader.file, output)
    scene.world.instances.leader()
    await_rebuild(leader.home)
    time.sleep(scene.random.uniform(0, _REBUILD_SECONDS))
    return run(scene)


def _in_snapshot(run: Callable[[Scene], bool], scene: Scene) -> bool:
    may_copy = scene.world.broken.source.has_tracker
    begin_snapshot(scene.world, scene.random.choice([Method.READ_ONLY, Method.BLACKHOLE][: 1 + may_copy]))
    time.sleep(scene.random.uniform(0, 2))
    came_to_pass = is_under_way(scene.world) and run(scene)
    end_snapshot(scene.world)
    return came_to_pass


def _lose_join(scene: Scene) -> bool:
    leader = scene.world.instances.leader()
    leader.kill()
    return lose_states(leader.home)


def _kill_tracker_in_alter(scene: Scene) -> bool:
    altering = threading.Thread(target=_alter, args=(scene,))
    altering.start()
    time.sleep(scene.random.uniform(0, 0.4))
    scene.world.kill("tracker")
    altering.join()
    time.sleep(scene.random.uniform(0, 2))
    scene.world.restart("tracker")
    return True


def _alter(scene: Scene) -> None:
    scene.world.execute(f"ALTER TABLE accounts ADD COLUMN extra_{scene.number} INT")


def _cut(part: str, scene: Scene) -> bool:
    for _ in range(scene.random.randint(1, 4)):
        scene.world.proxies[part].cut()
        time.sleep(scene.random.uniform(0, 1))
    return True


def _half_close(part: str, scene: Scene) -> bool:
    scene.world.proxies[part].half_close()
    return True


def _refuse(part: str, scene: Scene) -> bool:
    with _healed(scene, part):
        scene.world.proxies[part].refuse()
        time.sleep(scene.random.uniform(1, 5))
    return True


def _stall(part: str, scene: Scene) -> bool:
    with _healed(scene, part):
        scene.world.proxies[part].stall()
        time.sleep(scene.random.uniform(1, 12))
    return True


def _delay(part: str, scene: Scene) -> bool:
    with _healed(scene, part):
        scene.world.proxies[part].delay(scene.random.uniform(0.02, 0.3))
        time.sleep(scene.random.uniform(2, 5))
    return True


@contextmanager
def _healed(scene: Scene, part: str) -> Iterator[None]:
    try:
        yield
    finally:
        scene.world.proxies[part].heal()


def _fill_disk(scene: Scene) -> bool:
    filler = scene.world.state_directory / "filler"
    try:
        _fill(filler)
        _alter(scene)
        time.sleep(scene.random.uniform(2, 5))
    finally:
        filler.unlink(missing_ok=True)
    return True


def _fill_log(scene: Scene) -> bool:
    with _healed(scene, "source"):
        scene.world.proxies["source"].refuse()
        fill_log(scene.world)
    await_drained(scene.world)
    return True


def _fill(file: Path) -> None:
    with suppress(OSError), file.open("wb", buffering=0) as output:
        while output.write(b"x" * _FILL_BYTES):
            pass


def _crash(point: str, scene: Scene) -> bool:
    """A process that ends there while all goes on; one time in two, all of its instance with it."""
    instances = scene.world.instances
    leader = instances.leader()
    instances.arm(point)
    try:
        if point.startswith(_STATEMENTS):
            _alter(scene)
        if not _was_passed(instances, _CRASH_SECONDS):
            # What only a start comes by.
            leader.kill()
            if not _was_passed(instances, _CRASH_AT_START_SECONDS):
                message = f"nobody came to {point} in {_CRASH_AT_START_SECONDS:.0f} s"
                raise PenstockError(message, "the workload has to lead there: see faults/catalogue.py")
    finally:
        instances.disarm()
    if scene.random.random() < _WHOLE_INSTANCE_SHARE:
        leader.kill()
    return True


def _was_passed(instances: Instances, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while instances.is_armed() and time.monotonic() < deadline:
        instances.keep_running()
        time.sleep(_POLL_SECONDS)
    return not instances.is_armed()


_IN_SNAPSHOT: Final = (
    ("kill -9 of the driver", _kill_driver),
    ("kill -9 of a Python worker", _kill_worker),
    ("kill -9 of the leader, all of it,", _kill_leader),
    ("kill -9 of the source", partial(_kill_server, "source")),
    ("kill -9 of the broker", partial(_kill_server, "kafka")),
    ("connections cut: source", partial(_cut, "source")),
    ("crash at snapshot.refreshed", partial(_crash, "snapshot.refreshed")),
)
