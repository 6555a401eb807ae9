"""The end of a run that somebody asked for: an orderly one, if it does not take long."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from penstock.cli.console import say_note

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_END_SECONDS: Final = 10.0
"""An orderly end takes two to four. A server that does not answer may hold it up for as long as a request lasts."""
_ASKED_BY: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def ending_in_time(seconds: float = _END_SECONDS) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the process after `seconds`, whatever the `with` block still waits for.

    Nothing is lost: a run may be killed at any time, and the processes that it started end with it.
    """
    before = {number: signal.getsignal(number) for number in _ASKED_BY}

    def begin(number: int, frame: FrameType | None) -> None:
        ending = threading.Timer(seconds, _leave, (number, seconds))
        ending.daemon = True
        ending.start()
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for number, handler in before.items():
        # One that is ignored, as in the background of a shell, stays so.
        if callable(handler):
            signal.signal(number, begin)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, seconds: float) -> None:
    say_note(f"ended without an answer that is waited for since {seconds:.0f} s; nothing is lost, run again to go on")
    sys.stderr.flush()
    os._exit(128 + number)
