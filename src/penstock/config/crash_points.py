"""Named places at which a process kills itself when it is told to, to prove that recovery works from there.

`PENSTOCK_CRASH_AT=publish.sent penstock run FILE` ends, as kill -9 would, each
process that comes by that place; `publish.sent:3` when it comes by the third
time. Where the value is a path, the place stands in that file, if there is one:
whoever comes by removes it and ends, so that one process does, once, and a
pipeline that has run for hours can be told. Each module that writes twice
declares the places between its writes, so the list of them is always that of
the code.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "PENSTOCK_CRASH_AT"

_STANDARD_ERROR = 2


class CrashPoint:
    """A place between two writes, called `name`; `state` says what is done there and what is not."""

    _declared: ClassVar[dict[str, CrashPoint]] = {}

    def __init__(self, name: str, state: str) -> None:
        """Declare the place, once per name: modules do it as they are imported."""
        if name in self._declared:
            raise ValueError(name)
        self.name = name
        self.state = state
        self._declared[name] = self
        self._passed = 0

    def maybe_crash(self) -> None:
        """Go on; or never return, if it is here that this process is to end."""
        if VARIABLE not in os.environ:
            return
        wanted, _, count = wanted_point().partition(":")
        if wanted == self.name:
            self._passed += 1
            if self._passed == int(count or 1) and _is_ours():
                os.write(_STANDARD_ERROR, f"ended at {self.name}: {self.state}\n".encode())
                os.kill(os.getpid(), signal.SIGKILL)

    @classmethod
    def declared(cls) -> Mapping[str, str]:
        """Every place in what is imported: name to state, sorted."""
        return {name: point.state for name, point in sorted(cls._declared.items())}


def wanted_point() -> str:
    """What the environment asks for, "" for nothing."""
    file = wanted_file()
    if file is None:
        return os.environ.get(VARIABLE, "")
    try:
        return file.read_text()
    except FileNotFoundError:
        return ""


def wanted_file() -> Path | None:
    """The file that names the place, if the environment names a file."""
    value = os.environ.get(VARIABLE, "")
    return Path(value) if os.sep in value else None


def _is_ours() -> bool:
    """Whether it is this process that is to end, of all that came by."""
    file = wanted_file()
    try:
        if file is not None:
            file.unlink()
    except FileNotFoundError:
        return False
    return True
