"""A PostgreSQL source whose slot keeps nearly all of the log that it may."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from penstock.config.load import load
from penstock.core.errors import PenstockError
from penstock.faults.broken import SOURCE_NAMES
from penstock.wiring.source_status import ask_source

if TYPE_CHECKING:
    from penstock.faults.world import World

_FILL_SECONDS: Final = 60.0
_DRAIN_SECONDS: Final = 180.0
_POLL_SECONDS: Final = 0.5


def fill_log(world: World) -> None:
    """Write log that nobody reads, until the server may remove it at any moment. Raises PenstockError if it cannot."""
    deadline = time.monotonic() + _FILL_SECONDS
    while _level(world) != "error":
        if time.monotonic() > deadline:
            raise _stays(world)
        # A file that has nothing in it yet is not ended.
        world.execute("SELECT pg_logical_emit_message(true, 'faults', ''), pg_switch_wal()")


def await_drained(world: World) -> None:
    """Return once the slot keeps little. Raises PenstockError if it does not come to that.

    The server lets go of what was read when it has noted, every 15 seconds, which transactions are open.
    """
    deadline = time.monotonic() + _DRAIN_SECONDS
    while _level(world) != "ok":
        if time.monotonic() > deadline:
            raise _stays(world)
        world.instances.keep_running()
        time.sleep(_POLL_SECONDS)


def _level(world: World) -> str:
    """What `penstock status` says of the slot, asked past the proxy."""
    (source,) = [each for each in load(world.instances.leader().file).sources if each.name == SOURCE_NAMES["source"]]
    retention = ask_source(source.model_copy(update={"port": world.port("source")}), None).retention
    return "" if retention is None else retention.level


def _stays(world: World) -> PenstockError:
    message = f"what the server keeps for the slot stays {_level(world)!r}"
    return PenstockError(message, "read the leader's log, and the source's")
