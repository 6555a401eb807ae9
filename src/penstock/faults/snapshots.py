"""A snapshot of one of the workload's tables that is under way while something breaks."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.config.load import load
from penstock.core.errors import PenstockError, UnavailableError
from penstock.core.snapshots import Method, SnapshotOptions, Status
from penstock.wiring.snapshots import ask_for_snapshots, read_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.faults.world import World
    from penstock.ports.snapshots import Snapshot

_CHUNK_ROWS: Final = 20
_ROWS_PER_SECOND: Final = 60
"""Of some 500 rows: it takes longer than most things that break."""
_SECONDS: Final = 240.0
_POLL_SECONDS: Final = 0.1


def begin_snapshot(world: World, method: Method) -> None:
    """Ask for a snapshot, and return once some of its rows are in Kafka. Raises PenstockError where none come."""
    spec, table = load(world.instances.leader().file), _table(world)
    options = SnapshotOptions(chunk_rows=_CHUNK_ROWS, rows_per_second=_ROWS_PER_SECOND, method=method)
    ask_for_snapshots(spec, [table], options)
    _await(world, lambda snapshot: snapshot.rows > 0 or snapshot.status.has_ended, "has begun")


def is_under_way(world: World) -> bool:
    """Whether rows of the snapshot are left to be read."""
    (snapshot,) = read_snapshots(load(world.instances.leader().file), [_table(world)])
    return not snapshot.status.has_ended


def end_snapshot(world: World) -> None:
    """Return once the snapshot is whole. Raises PenstockError if it is not, and for one that failed."""
    ended = _await(world, lambda snapshot: snapshot.status.has_ended, "is whole")
    if ended.status is not Status.DONE:
        message = f"the snapshot of {ended.table} is {ended.status}: {ended.error}"
        raise PenstockError(message, "read the leader's log")


def _await(world: World, is_so: Callable[[Snapshot], bool], words: str) -> Snapshot:
    spec, table = load(world.instances.leader().file), _table(world)
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        world.instances.keep_running()
        with suppress(UnavailableError):
            (snapshot,) = read_snapshots(spec, [table])
            if is_so(snapshot):
                return snapshot
        time.sleep(_POLL_SECONDS)
    message = f"no snapshot of {table} {words} in {_SECONDS:.0f} s"
    raise PenstockError(message, "read the leader's log")


def _table(world: World) -> str:
    return f"{world.sources['source'].schema}.accounts"
