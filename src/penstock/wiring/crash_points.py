"""Every place at which a process can be told to end; see `config.crash_points`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from penstock.config.crash_points import VARIABLE, CrashPoint, wanted_file, wanted_point
from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_MODULES_WITH_POINTS = (
    "penstock.adapters.kafka.publisher",
    "penstock.adapters.kafka.watermarks",
    "penstock.adapters.mysql.tracker_dump",
    "penstock.links.capture.first_start",
    "penstock.links.capture.open_capture",
    "penstock.links.capture.mysql.statements",
    "penstock.links.objects.retention",
    "penstock.links.objects.trimming",
    "penstock.links.objects.write",
    "penstock.links.warehouse.filling",
    "penstock.links.warehouse.lake_sink",
    "penstock.links.warehouse.lake_tables",
    "penstock.links.warehouse.load",
    "penstock.links.warehouse.sink",
    "penstock.links.warehouse.skipping",
)


def crash_points() -> Mapping[str, str]:
    """Name to what is done there and what is not, sorted."""
    for module in _MODULES_WITH_POINTS:
        import_module(module)
    return CrashPoint.declared()


def require_known_point() -> str:
    """The place at which processes are to end, "" for nowhere. Raises UsageError for one that does not exist.

    What a file names is not looked at: it may come at any time.
    """
    file = wanted_file()
    if file is not None:
        return f"the place in {file}"
    wanted = wanted_point()
    if not wanted:
        return ""
    known = crash_points()
    name, colon, count = wanted.partition(":")
    if name not in known or (colon and not (count.isdigit() and int(count))):
        listed = "".join(f"\n  {known_name:<26} {state}" for known_name, state in known.items())
        message = f"{VARIABLE} names no place in Penstock: {wanted!r}"
        raise UsageError(message, f"leave it out, or choose one, NAME:N for the N-th time there:{listed}")
    return name
