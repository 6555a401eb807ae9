"""Where on this machine files can be made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def writable_ground(directory: Path) -> Path:
    """Return the nearest directory that exists, from `directory` upwards, if files can be made in it.

    Raises UsageError if not.
    """
    ground = next(parent for parent in (directory, *directory.parents) if parent.exists())
    if not ground.is_dir() or not os.access(ground, os.W_OK | os.X_OK):
        message = f"{ground} is not a directory that this user may write to"
        raise UsageError(message, "correct its rights, or give another path in the config")
    return ground
