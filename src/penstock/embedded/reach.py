"""Reaches a pipeline's private broker and Schematizer: those that run, or, while nothing does, started for a moment."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.config.specs import SchematizerSpec
from penstock.core.errors import UnavailableError, UsageError
from penstock.embedded.ports import LOOPBACK, is_listening
from penstock.embedded.servers import EmbeddedServers
from penstock.wiring.open import open_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.config.specs import PipelineSpec


@contextmanager
def reach_embedded(spec: PipelineSpec, say: Callable[[str], None], *, may_start: bool = True) -> Iterator[PipelineSpec]:
    """Yield the spec with the addresses of its private broker and Schematizer.

    Where the pipeline runs they are its own. Else they are started, and end with the
    block; the pipeline's lock is held meanwhile. Raises UnavailableError where the
    pipeline is just starting or ending, and UsageError where it does not run and they
    may not be started.
    """
    if not (spec.is_embedded("kafka") or spec.is_embedded("schematizer")):
        yield spec
        return
    lock = open_lock(spec)
    if not may_start:
        if not lock.holder():
            message = f"nobody runs {spec.pipeline}, and its broker and Schematizer run with it"
            raise UsageError(message, "type: penstock run FILE")
    elif lock.acquire(0.0):
        try:
            say("the pipeline does not run: starting its private servers for a moment")
            with EmbeddedServers(spec, say, parts=("kafka", "schematizer")) as servers:
                yield servers.spec
        finally:
            lock.release()
        return
    yield spec.model_copy(update=_running(spec))


def _running(spec: PipelineSpec) -> dict[str, object]:
    """The parts of the spec that say where the servers of the instance that runs are."""
    parts: dict[str, object] = {}
    if spec.is_embedded("kafka"):
        port = _port(spec.home / "kafka")
        parts["kafka"] = spec.kafka.model_copy(update={"bootstrap_servers": f"{LOOPBACK}:{port}"})
    if spec.is_embedded("schematizer"):
        parts["schematizer"] = SchematizerSpec(url=f"http://{LOOPBACK}:{_port(spec.home / 'schematizer')}")
    return parts


def _port(home: Path) -> int:
    file = home / "port"
    port = int(file.read_text()) if file.exists() else 0
    if not port or not is_listening(port):
        message = f"the pipeline runs, and its private {home.name} does not answer yet"
        raise UnavailableError(message, "try again in a moment")
    return port
