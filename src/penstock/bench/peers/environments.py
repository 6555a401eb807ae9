"""A peer in a virtual environment of its own, whose packages are not ours."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError, UnavailableError
from penstock.embedded.cache import cache_directory, locked
from penstock.embedded.processes import run_to_end

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_INSTALL_SECONDS: Final = 600.0


def ensure_peer(name: str, versions: str, packages: Sequence[str]) -> Path:
    """The Python of peer `name`, made and filled with `packages` by pip if this machine does not have it yet.

    `versions` tells environments of one peer apart. UnavailableError when the packages cannot be fetched.
    """
    home = cache_directory("peers") / f"{name}-{versions}"
    with locked(home.with_name(f"{home.name}.lock")):
        if not (home / "done").exists():
            shutil.rmtree(home, ignore_errors=True)
            _install(name, home, packages)
            (home / "done").touch()
    return home / "bin" / "python"


def _install(name: str, home: Path, packages: Sequence[str]) -> None:
    log = home.with_name(f"{home.name}.log")
    try:
        run_to_end("venv", [sys.executable, "-m", "venv", str(home)], log, _INSTALL_SECONDS)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run_to_end("pip", [*pip, *packages], log, _INSTALL_SECONDS)
    except PenstockError as error:
        message = f"{name} cannot be installed: {error.message}"
        raise UnavailableError(message, f"check the network or its proxy, see {log}") from error
