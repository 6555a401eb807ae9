"""What `penstock check --connect` looks for on this machine, before it asks any server."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.request import getproxies_environment

from penstock.core.errors import PenstockError, UsageError
from penstock.core.findings import Finding, examine
from penstock.embedded.java import java
from penstock.embedded.join_kernel import ensure_join_kernel
from penstock.embedded.ports import is_free
from penstock.embedded.tracker import examine_tracker
from penstock.wiring.checks import examine_pipeline
from penstock.wiring.open import open_lock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.config.specs import PipelineSpec

_PROXIED: Final = frozenset({"http", "https", "all"})


def look_everywhere(spec: PipelineSpec) -> Iterator[Finding]:
    """Look at this machine, then ask every server that the config names.

    It changes nothing, but for the kernel of joins: that is compiled, if it was not.
    """
    if os.geteuid() == 0:
        hint = "give it a user of its own, who owns `home`, and run this command as that user"
        yield Finding("warning", "user", "this is root, which a pipeline does not need", hint)
    yield from _proxies()
    yield examine("java", java)
    if spec.joins:
        yield examine("kernel of joins", lambda: str(ensure_join_kernel()))
    for source in spec.mysql_sources:
        if spec.tracker_of(source) is None:
            subject = "tracker" if len(spec.sources) == 1 else f"tracker of {source.name}"
            yield examine(subject, partial(examine_tracker, spec, source))
    if not _is_running(spec):
        for remembered in sorted([*spec.home.glob("*/*port"), *spec.home.glob("trackers/*/*port")]):
            yield examine(f"port of {remembered.parent.name}", partial(_examine_port, remembered))
    yield from examine_pipeline(spec)


def _proxies() -> Iterator[Finding]:
    """What the environment says of proxies: it is the reason where an object store or a registry is not reached."""
    found = {name: address for name, address in getproxies_environment().items() if name in _PROXIED}
    if found:
        listed = ", ".join(f"{name}_proxy" for name in sorted(found))
        message = f"{listed} of the environment lead HTTP through a proxy, but for requests to this machine"
        yield Finding("ok", "proxies", message)


def _is_running(spec: PipelineSpec) -> bool:
    """Whether an instance runs; not if that cannot be known, which is told where servers are asked."""
    try:
        return bool(open_lock(spec).holder())
    except PenstockError:
        return False


def _examine_port(remembered: Path) -> str:
    """An embedded server comes back on the port it had; somebody else may have taken it meanwhile."""
    port = int(remembered.read_text(encoding="ascii"))
    if not is_free(port):
        message = f"port {port}, which {remembered} remembers, is in use by another process"
        raise UsageError(message, f"end that process (`ss -ltnp 'sport = :{port}'` shows it), or delete {remembered}")
    return f"{port} is free"
