"""A folder for what is worth nothing without its process: Spark's temporary files."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

_held: Final[list[int]] = []
"""Descriptors whose locks say that we live; the system closes them."""


def scratch_folder(home: Path) -> Path:
    """Make a folder below `home/spark` that is this process's, and remove those of processes that have ended.

    A process that was killed cannot remove its own. Raises OSError where nothing can be written.
    """
    parent = home.absolute() / "spark"
    parent.mkdir(parents=True, exist_ok=True)
    for folder in parent.iterdir():
        _remove_if_nobodys(folder)
    while (own := _made(parent)) is None:
        pass
    return own


def _made(parent: Path) -> Path | None:
    """A new folder, or None: another process took it for nobody's in the moment before it was locked."""
    own = Path(tempfile.mkdtemp(dir=parent))
    try:
        descriptor = os.open(own, os.O_RDONLY)
    except FileNotFoundError:
        return None
    _held.append(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    except OSError:
        # Where folders cannot be locked nobody removes them, either.
        return own
    return own if own.exists() else None


def _remove_if_nobodys(folder: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)
