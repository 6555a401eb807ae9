"""What is fetched once for all pipelines of a user: jars, and other Debian releases' servers.

XDG Base Directory Specification: below XDG_CACHE_HOME, else below ~/.cache.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


def cache_directory(kind: str) -> Path:
    """Where everything of one kind is kept; it may not be there yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock" / kind


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file of the cache, which the system lets go when this process dies.

    UsageError when the cache cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        opened = file.open("w")
    except OSError as error:
        message = f"the cache {file.parent} cannot be written: {error.strerror}"
        hint = "free space there, or set XDG_CACHE_HOME to a directory that you can write"
        raise UsageError(message, hint) from error
    with opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
