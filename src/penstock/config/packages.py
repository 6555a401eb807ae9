"""Whether the packages are installed that a pipeline needs beside those that every pipeline does."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from penstock.core.errors import UsageError
from penstock.core.extras import how_to_install, package_of

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec


def require_packages(spec: PipelineSpec) -> None:
    """Raise UsageError, with what to type, for packages that are missing. They are not imported."""
    kinds = {source.kind for source in spec.sources} | {sink.kind for sink in spec.sinks}
    wanted: set[str] = {kind for kind in ("postgres", "redshift", "snowflake") if kind in kinds}
    wanted |= {"zookeeper"} if spec.lock.zookeeper is not None else set()
    missing = sorted(extra for extra in wanted if find_spec(package_of(extra)) is None)
    if missing:
        packages = ", ".join(package_of(extra) for extra in missing)
        message = f"{spec.pipeline} needs packages that are not installed: {packages}"
        raise UsageError(message, how_to_install(*missing))
