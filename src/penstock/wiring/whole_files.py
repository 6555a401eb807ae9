"""Files that must be whole after a crash."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_whole(file: Path, text: str) -> None:
    """Write a file that is there whole, or as it was, also if the machine goes down."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.part")
    with part.open("w", encoding="utf-8") as written:
        written.write(text)
        written.flush()
        os.fsync(written.fileno())
    part.replace(file)


def flush_files(folder: Path) -> None:
    """Have on the disk all that was written to the file system of `folder`, names included, by whatever process.

    It takes some milliseconds, and on a busy disk as long as what others wrote there needs. Raises OSError.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # One call, where files would be flushed one by one: Spark writes twenty for a micro-batch of a join.
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(descriptor)
