"""Runs a command that dies when the process that started it dies, even by kill -9.

Called by path, with nothing but the standard library, because it is the first
thing that every server's process executes:

    python tether.py PARENT_PID COMMAND [ARGUMENT...]

The kernel's parent-death signal (prctl(2), PR_SET_PDEATHSIG) stays set across
execve(2), unless the new program is set-user-ID or the process changes its user
id afterwards. It is sent when the *thread* that forked ends: see `embedded/processes`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1
_PARENT_IS_GONE = 125


def tethered(command: Sequence[str]) -> list[str]:
    """`command` as one that dies with this process, or with the thread of it that starts the command."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def main(arguments: list[str]) -> None:
    """Tie this process to its parent, then become the command."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    # The parent may have died before the line above took effect.
    if os.getppid() != int(arguments[0]):
        sys.exit(_PARENT_IS_GONE)
    os.execvp(arguments[1], arguments[1:])  # noqa: S606 - to become the command is the point


if __name__ == "__main__":
    main(sys.argv[1:])
