"""The leader's lock as a file, for pipelines that run on one machine."""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING

from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_RETRY_SECONDS = 0.05
_HOLDER_BYTES_MAX = 200
_PATIENCE_SECONDS = 5.0
_HOME = "check the config's home: it must be a directory that this user may write to"
_OTHER_USER = "type it as the user who runs the pipeline"


class FileLock:
    """flock(2) on a file, which the kernel frees when the process dies, however it dies.

    The file stays behind and says who holds the lock now, or held it last; only
    the lock on it counts. Not for network file systems that do not share locks.
    """

    def __init__(self, path: Path) -> None:
        """Name the file; nothing is opened yet."""
        self._path = path
        self._descriptor: int | None = None

    @property
    def patience_seconds(self) -> float:
        """The kernel frees it at once; an instance that is being stopped takes some seconds."""
        return _PATIENCE_SECONDS

    def acquire(self, wait_seconds: float) -> bool:
        """Try for up to `wait_seconds`, at least twice; False if another instance still holds it.

        Raises UsageError if the file cannot be written.
        """
        if self._descriptor is not None:
            return True
        descriptor = self._open()
        deadline = time.monotonic() + max(wait_seconds, _RETRY_SECONDS)
        while not _try_lock(descriptor, fcntl.LOCK_EX):
            if time.monotonic() >= deadline:
                os.close(descriptor)
                return False
            time.sleep(_RETRY_SECONDS)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"pid {os.getpid()} since {time.strftime('%Y-%m-%d %H:%M:%S')}".encode(), 0)
        self._descriptor = descriptor
        return True

    def holder(self) -> str:
        """Who holds it, in words; "" if nobody does. Raises UsageError if the file cannot be read."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return ""
        except OSError as error:
            message = f"cannot read the lock file {self._path}: {error.strerror}"
            raise UsageError(message, _OTHER_USER if isinstance(error, PermissionError) else _HOME) from error
        try:
            # The kernel tells whether a lock is held only to those who ask for it. A shared lock, dropped at
            # once, disturbs no other reader, and `acquire` tries at least twice so as not to stumble over it.
            if self._descriptor is None and _try_lock(descriptor, fcntl.LOCK_SH):
                return ""
            return os.pread(descriptor, _HOLDER_BYTES_MAX, 0).decode(errors="replace") or "a process that just started"
        finally:
            os.close(descriptor)

    def tell_loss(self, listener: Callable[[str], None]) -> None:
        """See ports/lock.Lock. The kernel takes this lock from nobody who lives, so `listener` is never called."""

    def release(self) -> None:
        """Let go. Safe to call twice."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            message = f"cannot write the lock file {self._path}: {error.strerror}"
            raise UsageError(message, _HOME) from error


def _try_lock(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
