"""Versions of what takes part in a bench."""

from __future__ import annotations

import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from penstock.embedded.jars import listed_jars
from penstock.embedded.java import java

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.embedded.jars import JarSet

_JAVA_SECONDS = 30
_JAVA_VERSION = re.compile(r'version "([^"]+)"')


def python_versions(packages: Sequence[str]) -> dict[str, str]:
    """Python's version and those of installed packages; "not installed" for one that is not."""
    return {"python": platform.python_version(), **{package: _package(package) for package in packages}}


def jar_versions(jar_set: JarSet, names: Sequence[str]) -> dict[str, str]:
    """The pinned revisions of the jars `names` of a set."""
    return {jar.name: jar.revision for jar in listed_jars(jar_set) if jar.name in names}


def java_version() -> str:
    """The version of the Java that servers and peers run on."""
    # The program is the user's own Java, by its whole path.
    answer = subprocess.run(  # noqa: S603
        [java(), "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS, check=False
    )
    found = _JAVA_VERSION.search(answer.stderr)
    return found.group(1) if found else "unknown"


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
